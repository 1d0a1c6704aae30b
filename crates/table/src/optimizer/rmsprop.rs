//! RMSProp, with the mean gradient taken out of the mean square.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Terms, normal};
use super::decayed_adagrad::first_share;
use super::momentum::{Slot, no_slots, slot_column};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `G ← ρ·G + c·g²; F ← ρ·F + (1−ρ)·g; m ← μ·m − rate·(g + l2·w)/√(G − F² + ε); w ← w + m`, where
/// c is 1 − ρ, but 1 the first time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RmsProp {
    /// ρ, at least 0 and below 1.
    pub rho: f64,
    /// ε, more than 0.
    pub epsilon: f64,
    /// μ, at least 0 and below 1.
    pub momentum: f64,
}

impl Default for RmsProp {
    fn default() -> Self {
        RmsProp { rho: 0.95, epsilon: 1e-6, momentum: 0.0 }
    }
}

impl Kernel for RmsProp {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.rho", self.rho)?;
        Accepted::Positive.check("rule.epsilon", self.epsilon)?;
        Accepted::Fraction.check("rule.momentum", self.momentum)
    }

    fn columns(&self) -> Vec<&'static str> {
        let means = ["square_mean", "gradient_mean"];
        means.into_iter().chain(slot_column(self.momentum)).collect()
    }

    fn counts_touches(&self) -> bool {
        true
    }
}

impl RmsProp {
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
        let square_share = first_share(terms.touches, self.rho);
        let (square_mean, gradient_mean) = means.split_at_mut(value.len());
        let means = square_mean.iter_mut().zip(gradient_mean);
        for (((w, g), (squares, mean)), m) in value.iter_mut().zip(gradient).zip(means).zip(slots) {
            let g = terms.clipped(*g);
            *squares = normal(rho * *squares + square_share * g * g);
            *mean = normal(rho * *mean + share * g);
            let variance = *squares - *mean * *mean;
            // Never negative but by rounding, as when all gradients are the same.
            let variance = if variance < 0.0 { 0.0 } else { variance };
            let step = terms.rate * terms.decayed(g, *w) / (variance + epsilon).sqrt();
            *w = terms.shrunk(*w + m.advance(momentum, step));
        }
    }
}
