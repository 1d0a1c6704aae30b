//! AdaGrad: every element has its own rate, which falls with the gradients it has seen.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Owed, Terms};
use super::momentum::{Slot, no_slots, slot_column};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `A ← A + g²; m ← μ·m − rate·(g + l2·w)/√(A + ε); w ← w + m`; the slot of m only where μ ≠ 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaGrad {
    /// ε, more than 0.
    pub epsilon: f64,
    /// μ, at least 0 and below 1.
    pub momentum: f64,
}

impl Default for AdaGrad {
    fn default() -> Self {
        AdaGrad { epsilon: 1e-6, momentum: 0.0 }
    }
}

impl Kernel for AdaGrad {
    fn check(&self) -> Result<()> {
        Accepted::Positive.check("rule.epsilon", self.epsilon)?;
        Accepted::Fraction.check("rule.momentum", self.momentum)
    }

    fn columns(&self) -> Vec<&'static str> {
        std::iter::once("square_sum").chain(slot_column(self.momentum)).collect()
    }

    fn settle(&self, owed: &Owed, value: &mut [f32], state: &[f32]) {
        // Without gradients the sums stand still, and with them each element's rate.
        let (square_sum, _) = state.split_at(value.len());
        owed.settle_scaled(value, square_sum, |sum| 1.0 / (f64::from(sum) + self.epsilon).sqrt());
    }
}

impl AdaGrad {
    /// One update; the columns lie in `state` one after the other.
    #[inline(always)]
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let (square_sum, slots) = state.split_at_mut(value.len());
        if self.momentum == 0.0 {
            let slots = &mut no_slots(value.len())[..];
            self.run(terms, gradient, value, (square_sum, slots));
        } else {
            self.run(terms, gradient, value, (square_sum, slots));
        }
    }

    #[inline(always)]
    fn run<M: Slot, const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        (square_sum, slots): (&mut [f32], &mut [M]),
    ) {
        let (epsilon, momentum) = (self.epsilon as f32, self.momentum as f32);
        for (((w, g), sum), m) in value.iter_mut().zip(gradient).zip(square_sum).zip(slots) {
            let g = terms.clipped(*g);
            *sum += g * g;
            let step = terms.rate * terms.decayed(g, *w) / (*sum + epsilon).sqrt();
            *w = terms.shrunk(*w + m.advance(momentum, step));
        }
    }
}
