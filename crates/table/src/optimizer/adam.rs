//! Adam. L2 is the classic one, in the gradient, and so in both moments.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Terms, normal};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `m ← β1·m + (1−β1)·h; v ← β2·v + (1−β2)·h²; w ← w − α·m/(√v + ε)`, where h = g + l2·w,
/// α = rate·√(1−β2^t)/(1−β1^t), and t counts the updates from 1: of a block its own; of a row those of the
/// whole parameter, as lazy Adam does elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// β1, at least 0 and below 1.
    pub beta1: f64,
    /// β2, at least 0 and below 1.
    pub beta2: f64,
    /// ε, more than 0.
    pub epsilon: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl Kernel for Adam {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.beta1", self.beta1)?;
        Accepted::Fraction.check("rule.beta2", self.beta2)?;
        Accepted::Positive.check("rule.epsilon", self.epsilon)
    }

    fn columns(&self) -> Vec<&'static str> {
        vec!["first_moment", "second_moment"]
    }

    fn counts_touches(&self) -> bool {
        true
    }

    fn correction(&self, touches: u32) -> Option<f64> {
        Some(filled(self.beta2, touches).sqrt() / filled(self.beta1, touches))
    }
}

impl Adam {
    /// One update; the columns lie in `state` one after the other.
    #[inline(always)]
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let (beta1, share1) = (self.beta1 as f32, (1.0 - self.beta1) as f32);
        let (beta2, share2) = (self.beta2 as f32, (1.0 - self.beta2) as f32);
        let epsilon = self.epsilon as f32;
        let rate = (f64::from(terms.rate) * terms.correction) as f32;
        let (first, rest) = state.split_at_mut(value.len());
        let second = &mut rest[..value.len()];
        for (((w, g), m), v) in value.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = terms.decayed(terms.clipped(*g), *w);
            *m = normal(beta1 * *m + share1 * g);
            *v = normal(beta2 * *v + share2 * g * g);
            *w = terms.shrunk(*w - rate * *m / (v.sqrt() + epsilon));
        }
    }
}

/// How much of a mean that began at 0 is filled after so many updates: 1 − β^t.
pub(super) fn filled(beta: f64, touches: u32) -> f64 {
    // By the logarithm: `powi` takes several times as long, which a short row would notice.
    1.0 - (f64::from(touches) * beta.ln()).exp()
}
