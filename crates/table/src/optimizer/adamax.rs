//! Adamax: Adam with the largest recent gradient in place of the mean square.

use super::Kernel;
use super::adam::filled;
use super::check::Accepted;
use super::decay::{Terms, normal};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `m ← β1·m + (1−β1)·h; u ← max(β2·u, |h|); w ← w − rate/(1−β1^t)·m/u`, where h = g + l2·w and t
/// counts as in [`super::Adam`]. Where u is 0 the value stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adamax {
    /// β1, at least 0 and below 1.
    pub beta1: f64,
    /// β2, at least 0 and below 1.
    pub beta2: f64,
}

impl Default for Adamax {
    fn default() -> Self {
        Adamax { beta1: 0.9, beta2: 0.999 }
    }
}

impl Kernel for Adamax {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.beta1", self.beta1)?;
        Accepted::Fraction.check("rule.beta2", self.beta2)
    }

    fn columns(&self) -> Vec<&'static str> {
        vec!["first_moment", "infinity_norm"]
    }

    fn counts_touches(&self) -> bool {
        true
    }

    fn correction(&self, touches: u32) -> Option<f64> {
        Some(filled(self.beta1, touches))
    }
}

impl Adamax {
    /// One update; the columns lie in `state` one after the other.
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let (beta1, share1) = (self.beta1 as f32, (1.0 - self.beta1) as f32);
        let beta2 = self.beta2 as f32;
        let rate = (f64::from(terms.rate) / terms.correction) as f32;
        let (first, norm) = state.split_at_mut(value.len());
        for (((w, g), m), u) in value.iter_mut().zip(gradient).zip(first).zip(norm) {
            let g = terms.decayed(terms.clipped(*g), *w);
            *m = normal(beta1 * *m + share1 * g);
            let faded = normal(beta2 * *u);
            // In this order a gradient that is not a number gets through.
            *u = if g.abs() <= faded { faded } else { g.abs() };
            let step = if *u == 0.0 { 0.0 } else { rate * *m / *u };
            *w = terms.shrunk(*w - step);
        }
    }
}
