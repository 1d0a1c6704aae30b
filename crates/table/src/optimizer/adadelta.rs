//! AdaDelta: the rate of an element is the ratio of its past steps to its past gradients.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Terms, normal};
use super::momentum::{Slot, no_slots, slot_column};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `E ← ρ·E + (1−ρ)·g²; r = √((D + ε)/(E + ε)); D ← ρ·D + (1−ρ)·(g·r)²;
/// m ← μ·m − rate·r·(g + l2·w); w ← w + m`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaDelta {
    /// ρ, at least 0 and below 1.
    pub rho: f64,
    /// ε, more than 0.
    pub epsilon: f64,
    /// μ, at least 0 and below 1.
    pub momentum: f64,
}

impl Default for AdaDelta {
    fn default() -> Self {
        AdaDelta { rho: 0.95, epsilon: 1e-6, momentum: 0.0 }
    }
}

impl Kernel for AdaDelta {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.rho", self.rho)?;
        Accepted::Positive.check("rule.epsilon", self.epsilon)?;
        Accepted::Fraction.check("rule.momentum", self.momentum)
    }

    fn columns(&self) -> Vec<&'static str> {
        let means = ["square_mean", "step_square_mean"];
        means.into_iter().chain(slot_column(self.momentum)).collect()
    }
}

impl AdaDelta {
    /// One update; the columns lie in `state` one after the other.
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let (means, slots) = state.split_at_mut(2 * value.len());
        if self.momentum == 0.0 {
            let slots = &mut no_slots(value.len())[..];
            self.run(terms, gradient, value, (means, slots));
        } else {
            self.run(terms, gradient, value, (means, slots));
        }
    }

    fn run<M: Slot, const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        (means, slots): (&mut [f32], &mut [M]),
    ) {
        let (epsilon, momentum) = (self.epsilon as f32, self.momentum as f32);
        let (rho, share) = (self.rho as f32, (1.0 - self.rho) as f32);
        let (square_mean, step_square_mean) = means.split_at_mut(value.len());
        let means = square_mean.iter_mut().zip(step_square_mean);
        for (((w, g), (squares, steps)), m) in value.iter_mut().zip(gradient).zip(means).zip(slots)
        {
            let g = terms.clipped(*g);
            *squares = normal(rho * *squares + share * g * g);
            let ratio = ((*steps + epsilon) / (*squares + epsilon)).sqrt();
            *steps = normal(rho * *steps + share * (g * ratio) * (g * ratio));
            let step = terms.rate * ratio * terms.decayed(g, *w);
            *w = terms.shrunk(*w + m.advance(momentum, step));
        }
    }
}
