//! FTRL-Proximal (McMahan and others, 2013): sparse models by an L1 that acts on the sum of all
//! gradients.

use super::Kernel;
use super::check::Accepted;
use super::decay::Terms;
use contract::Result;
use serde::{Deserialize, Serialize};

/// `n' = n + g²; z ← z + g − (√n' − √n)/α·w; n ← n'`; then `w = 0` where |z| ≤ l1, else
/// `w = −(z − sign(z)·l1) / ((β + √n)/α + l2)`.
///
/// α is the learning rate; l1 and l2 are the parameter's, and are used here and nowhere else. The
/// value follows from z and n, so a parameter should begin at 0: another beginning is given up
/// with the first gradients. A rate of 0 changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ftrl {
    /// β, 0 or more.
    pub beta: f64,
}

impl Default for Ftrl {
    fn default() -> Self {
        Ftrl { beta: 1.0 }
    }
}

impl Kernel for Ftrl {
    fn check(&self) -> Result<()> {
        Accepted::NotNegative.check("rule.beta", self.beta)
    }

    fn columns(&self) -> Vec<&'static str> {
        vec!["linear", "square_sum"]
    }
}

impl Ftrl {
    /// One update; the columns lie in `state` one after the other.
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        if terms.rate == 0.0 {
            return;
        }
        let (beta, inverse) = (self.beta as f32, 1.0 / terms.rate);
        let (linear, square_sum) = state.split_at_mut(value.len());
        for (((w, g), z), n) in value.iter_mut().zip(gradient).zip(linear).zip(square_sum) {
            let g = terms.clipped(*g);
            let before = n.sqrt();
            *n += g * g;
            let root = n.sqrt();
            *z += g - (root - before) * inverse * *w;
            let pull = *z - terms.l1.copysign(*z);
            let solved = -pull / ((beta + root) * inverse + terms.l2);
            *w = if z.abs() <= terms.l1 { 0.0 } else { solved };
        }
    }
}
