//! AdaGrad that forgets: a moving mean of squares in place of their sum.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Terms, normal};
use super::momentum::{Slot, no_slots, slot_column};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `G ← ρ·G + c·g²; m ← μ·m − rate·(g + l2·w)/√(G + ε); w ← w + m`, where c is 1 − ρ, but 1 the
/// first time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecayedAdaGrad {
    /// ρ, at least 0 and below 1.
    pub rho: f64,
    /// ε, more than 0.
    pub epsilon: f64,
    /// μ, at least 0 and below 1.
    pub momentum: f64,
}

impl Default for DecayedAdaGrad {
    fn default() -> Self {
        DecayedAdaGrad { rho: 0.95, epsilon: 1e-6, momentum: 0.0 }
    }
}

impl Kernel for DecayedAdaGrad {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.rho", self.rho)?;
        Accepted::Positive.check("rule.epsilon", self.epsilon)?;
        Accepted::Fraction.check("rule.momentum", self.momentum)
    }

    fn columns(&self) -> Vec<&'static str> {
        std::iter::once("square_mean").chain(slot_column(self.momentum)).collect()
    }

    fn counts_touches(&self) -> bool {
        true
    }
}

impl DecayedAdaGrad {
    /// One update; the columns lie in `state` one after the other.
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let (square_mean, slots) = state.split_at_mut(value.len());
        if self.momentum == 0.0 {
            let slots = &mut no_slots(value.len())[..];
            self.run(terms, gradient, value, (square_mean, slots));
        } else {
            self.run(terms, gradient, value, (square_mean, slots));
        }
    }

    fn run<M: Slot, const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        (square_mean, slots): (&mut [f32], &mut [M]),
    ) {
        let (epsilon, momentum) = (self.epsilon as f32, self.momentum as f32);
        let (rho, share) = (self.rho as f32, first_share(terms.touches, self.rho));
        for (((w, g), mean), m) in value.iter_mut().zip(gradient).zip(square_mean).zip(slots) {
            let g = terms.clipped(*g);
            *mean = normal(rho * *mean + share * g * g);
            let step = terms.rate * terms.decayed(g, *w) / (*mean + epsilon).sqrt();
            *w = terms.shrunk(*w + m.advance(momentum, step));
        }
    }
}

/// The share of a new square in its mean: the first counts in full, as there is nothing yet to
/// average with.
pub(super) fn first_share(touches: u32, rho: f64) -> f32 {
    if touches <= 1 { 1.0 } else { (1.0 - rho) as f32 }
}
