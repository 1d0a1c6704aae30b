//! SGD with momentum, plain and Nesterov's; and the momentum slot of other rules.

use super::Kernel;
use super::check::Accepted;
use super::decay::{Terms, normal};
use contract::Result;
use serde::{Deserialize, Serialize};

/// `m ← μ·m − rate·(g + l2·w); w ← w + m`, or with Nesterov's look ahead
/// `w ← w + μ·m − rate·(g + l2·w)`. With μ = 0 it is plain SGD and has no slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Momentum {
    /// μ, at least 0 and below 1.
    pub momentum: f64,
    /// Nesterov's variant.
    pub nesterov: bool,
}

impl Kernel for Momentum {
    fn check(&self) -> Result<()> {
        Accepted::Fraction.check("rule.momentum", self.momentum)
    }

    fn columns(&self) -> Vec<&'static str> {
        slot_column(self.momentum).into_iter().collect()
    }
}

impl Momentum {
    /// One update; the columns lie in `state` one after the other.
    #[inline(always)]
    pub(super) fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        let momentum = self.momentum as f32;
        let slots = state.get_mut(..value.len()).unwrap_or_default();
        let pairs = value.iter_mut().zip(gradient);
        if self.momentum == 0.0 {
            for (w, g) in pairs {
                *w = terms.shrunk(*w - terms.rate * terms.decayed(terms.clipped(*g), *w));
            }
        } else if self.nesterov {
            for ((w, g), m) in pairs.zip(slots) {
                let step = terms.rate * terms.decayed(terms.clipped(*g), *w);
                *m = normal(momentum * *m - step);
                *w = terms.shrunk(*w + momentum * *m - step);
            }
        } else {
            for ((w, g), m) in pairs.zip(slots) {
                let step = terms.rate * terms.decayed(terms.clipped(*g), *w);
                *w = terms.shrunk(*w + m.advance(momentum, step));
            }
        }
    }
}

/// The column of the slot, if there is a momentum.
pub(super) fn slot_column(momentum: f64) -> Option<&'static str> {
    (momentum != 0.0).then_some("momentum")
}

/// The momentum of one element: a float, or nothing. Rules with an optional momentum are written
/// once for both.
pub(super) trait Slot {
    /// Takes in a step and gives back the change of the value.
    fn advance(&mut self, momentum: f32, step: f32) -> f32;
}

impl Slot for f32 {
    #[inline(always)]
    fn advance(&mut self, momentum: f32, step: f32) -> f32 {
        *self = normal(momentum * *self - step);
        *self
    }
}

impl Slot for () {
    #[inline(always)]
    fn advance(&mut self, _: f32, step: f32) -> f32 {
        -step
    }
}

/// The slots of `width` elements without momentum; takes no memory.
pub(super) fn no_slots(width: usize) -> Vec<()> {
    vec![(); width]
}
