//! Clipping, L2 and L1: what all rules do beside their own arithmetic, and what untouched rows owe.
//!
//! Per update, in this order: the gradient is clipped to ±clip; L2 adds `l2 · value` to it; the
//! rule makes its step; L1 moves the value by `rate · l1` towards 0 and stops there.
//!
//! A sparse row is only visited when it is touched, but a dense parameter would have decayed at
//! every update in between. Where nothing but the value changes under a gradient of 0 (SGD and
//! AdaGrad, both without momentum) those updates are one recurrence per element,
//! `w ← soft(q·w, t)` with `q = 1 − rate·l2·r` and `t = rate·l1`. Its Δ-th term has a closed form:
//!
//! ```text
//! soft(q^Δ · w, t · (1 + |q| + … + |q|^(Δ−1)))        soft(x, t) = x − sign(x)·min(|x|, t)
//! ```
//!
//! It holds because `soft` keeps the sign and a value that has reached 0 stays there. It is
//! evaluated in f64: `q` is so near 1 that its f32 rounding, raised to Δ, would be visible.

/// What surrounds a rule in one update of one row or block. Most parameters have neither clipping
/// nor L1: without `BOUNDS` they are left out of the loops, which then run at the memory's speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<const BOUNDS: bool> {
    /// The learning rate: scheduled, times the parameter's multiplier.
    pub(super) rate: f32,
    /// The L2 rate.
    pub(super) l2: f32,
    /// The L1 rate; only a rule with an L1 of its own looks at it.
    pub(super) l1: f32,
    /// The largest absolute gradient; infinity for no clipping.
    pub(super) clip: f32,
    /// How often the row or block was updated, this time included; 0 where nobody counts.
    pub(super) touches: u32,
    /// How the rule's means, which begin at 0, are made up for after so many updates.
    pub(super) correction: f64,
}

impl<const BOUNDS: bool> Terms<BOUNDS> {
    /// The gradient within ±clip. What is not a number stays so: hiding it would hide the cause.
    #[inline(always)]
    pub(super) fn clipped(&self, gradient: f32) -> f32 {
        if !BOUNDS {
            return gradient;
        }
        let above = if gradient > self.clip { self.clip } else { gradient };
        if above < -self.clip { -self.clip } else { above }
    }

    /// The gradient with the slope of `l2/2 · value²`.
    #[inline(always)]
    pub(super) fn decayed(&self, gradient: f32, value: f32) -> f32 {
        gradient + self.l2 * value
    }

    /// The value after L1.
    #[inline(always)]
    pub(super) fn shrunk(&self, value: f32) -> f32 {
        if !BOUNDS {
            return value;
        }
        let threshold = self.rate * self.l1;
        if value.abs() <= threshold { 0.0 } else { value - threshold.copysign(value) }
    }
}

/// 0 for what is too small to be a normal float. A mean of gradients that have become 0 would
/// otherwise stay at the smallest floats for ever, on which many processors are 100 times slower.
#[inline(always)]
pub(super) fn normal(mean: f32) -> f32 {
    if mean.abs() < f32::MIN_POSITIVE { 0.0 } else { mean }
}

/// The updates with a gradient of 0 that a row has missed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owed {
    /// How many.
    pub(super) updates: u32,
    /// The learning rate, taken to be the same in all of them.
    pub(super) rate: f32,
    /// The L2 rate.
    pub(super) l2: f32,
    /// The L1 rate.
    pub(super) l1: f32,
}

/// Elements that are raised to a power together.
const LANES: usize = 8;

impl Owed {
    /// Applies them where all elements decay alike.
    pub(super) fn settle(&self, value: &mut [f32]) {
        let [fade] = self.fade([1.0]);
        for w in value {
            *w = fade.of(*w);
        }
    }

    /// Applies them where the rate of an element is multiplied by `scale` of its slot.
    pub(super) fn settle_scaled(
        &self,
        value: &mut [f32],
        slot: &[f32],
        scale: impl Fn(f32) -> f64,
    ) {
        for (value, slot) in value.chunks_mut(LANES).zip(slot.chunks(LANES)) {
            let mut scales = [0.0; LANES];
            for (lane, s) in scales.iter_mut().zip(slot) {
                *lane = scale(*s);
            }
            for (w, fade) in value.iter_mut().zip(self.fade(scales)) {
                *w = fade.of(*w);
            }
        }
    }

    fn fade<const N: usize>(&self, scales: [f64; N]) -> [Fade; N] {
        let decay = f64::from(self.rate) * f64::from(self.l2);
        let threshold = f64::from(self.rate) * f64::from(self.l1);
        let bases = scales.map(|scale| 1.0 - decay * scale);
        let powers = powers(bases, self.updates);
        std::array::from_fn(|lane| {
            let (base, power) = (bases[lane].abs(), powers[lane]);
            let terms = if base == 1.0 {
                f64::from(self.updates)
            } else {
                (1.0 - power.abs()) / (1.0 - base)
            };
            // No L1 owes nothing, also where the number of terms has overflowed.
            let threshold = if threshold == 0.0 { 0.0 } else { threshold * terms };
            Fade { power, threshold }
        })
    }
}

/// The closed form for one element.
#[derive(Debug, Clone, Copy)]
struct Fade {
    power: f64,
    threshold: f64,
}

impl Fade {
    #[inline]
    fn of(self, value: f32) -> f32 {
        let kept = self.power * f64::from(value);
        let shrunk = kept - self.threshold.copysign(kept);
        (if kept.abs() <= self.threshold { 0.0 } else { shrunk }) as f32
    }
}

/// Every base to the same power, by squaring.
fn powers<const N: usize>(bases: [f64; N], exponent: u32) -> [f64; N] {
    let mut powers = [1.0; N];
    let mut squares = bases;
    let mut rest = exponent;
    while rest > 0 {
        if rest % 2 == 1 {
            for (power, square) in powers.iter_mut().zip(&squares) {
                *power *= square;
            }
        }
        for square in &mut squares {
            *square *= *square;
        }
        rest /= 2;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms<true> =
        Terms { rate: 0.5, l2: 0.1, l1: 0.2, clip: 2.0, touches: 0, correction: 1.0 };

    #[test]
    fn clipping_keeps_what_is_not_a_number() {
        assert_eq!([-3.0, -1.0, 2.5].map(|g| TERMS.clipped(g)), [-2.0, -1.0, 2.0]);
        assert!(TERMS.clipped(f32::NAN).is_nan());
        let off = Terms { clip: f32::INFINITY, ..TERMS };
        assert_eq!(off.clipped(-1e30), -1e30);
    }

    #[test]
    fn l1_stops_at_zero_and_keeps_what_is_not_a_number() {
        assert_eq!([0.5, -0.5, 0.05, -0.1].map(|w| TERMS.shrunk(w)), [0.4, -0.4, 0.0, 0.0]);
        assert!(TERMS.shrunk(f32::NAN).is_nan());
        let off = Terms { l1: 0.0, ..TERMS };
        assert_eq!([0.5, -1e-30].map(|w| off.shrunk(w)), [0.5, -1e-30]);
    }

    #[test]
    fn the_closed_form_equals_the_steps_one_by_one() {
        for (l2, l1) in [(0.0, 0.01), (0.3, 0.0), (0.3, 0.01), (2.5, 0.01), (5.0, 0.02)] {
            for updates in [0, 1, 2, 3, 17] {
                let mut value = [1.0, -0.5, 0.03, 0.0];
                let steps = value.map(|w| {
                    (0..updates).fold(w, |w: f64, _| {
                        let kept = w - 0.5 * l2 * w;
                        kept.signum() * (kept.abs() - 0.5 * l1).max(0.0)
                    })
                });
                let mut narrow = value.map(|w| w as f32);
                let owed = Owed { updates, rate: 0.5, l2: l2 as f32, l1: l1 as f32 };
                owed.settle(&mut narrow);
                value = narrow.map(f64::from);
                for (found, expected) in value.iter().zip(steps) {
                    let error = (found - expected).abs();
                    assert!(error <= 1e-6 * expected.abs().max(1.0), "{found} for {expected}");
                }
            }
        }
    }

    #[test]
    fn a_long_absence_ends_at_zero() {
        let mut value = [1e30, -1.0];
        Owed { updates: u32::MAX, rate: 0.1, l2: 0.1, l1: 0.0 }.settle(&mut value);
        assert_eq!(value, [0.0, 0.0]);
    }

    #[test]
    fn the_smallest_floats_become_zero() {
        assert_eq!(normal(-f32::MIN_POSITIVE / 2.0), 0.0);
        assert_eq!(normal(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
        assert!(normal(f32::NAN).is_nan());
    }
}
