//! Functions of many numbers, written so that the compiler makes vector instructions of their
//! loops, for the widest that the processor has.
//!
//! `f32::exp` and `f32::tanh` are calls, one number at a time, and would be most of the time of a
//! recurrent layer. These are a polynomial and a few shifts, right to the last two bits or so.

/// Runs `work` compiled for the processor at hand. It and what it calls take part if they are
/// `#[inline(always)]`, closures too: what is compiled on its own is compiled for any processor.
#[inline(always)]
pub(crate) fn widely<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// eˣ; beyond ±87 that of ±87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Added to a small number, rounds it to a whole one, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 87.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let whole = rounded - ROUND;
    // What is left is between ±½·ln 2.
    let rest = x - whole * LN_2_HIGH - whole * LN_2_LOW;
    let mut power = 1.987_569_1e-4;
    power = power * rest + 1.398_199_9e-3;
    power = power * rest + 8.333_452e-3;
    power = power * rest + 4.166_579_6e-2;
    power = power * rest + 1.666_666_5e-1;
    power = power * rest + 0.5;
    power = power * rest * rest + rest + 1.0;
    // The whole number, as a power of 2, is what is in the exponent's bits.
    let scale = rounded.to_bits().wrapping_add(127) << 23;
    power * f32::from_bits(scale)
}

#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let small = exp(-2.0 * x.abs());
    ((1.0 - small) / (1.0 + small)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares at many points, with a share of the result and a distance that are both allowed.
    fn check(function: fn(f32) -> f32, exact: fn(f64) -> f64, share: f64, distance: f64) {
        for step in -40_000..=40_000 {
            let x = step as f32 / 500.0;
            let (found, expected) = (f64::from(function(x)), exact(f64::from(x)));
            let allowed = share * expected.abs() + distance;
            assert!((found - expected).abs() <= allowed, "at {x}: {found} instead of {expected}");
        }
    }

    #[test]
    fn they_are_right_to_the_last_bits() {
        check(exp, f64::exp, 2e-7, 0.0);
        check(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 3e-7, 0.0);
        check(tanh, f64::tanh, 2e-7, 6e-8);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn wide_instructions_are_used_if_the_processor_has_them() {
        let has_wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        assert_eq!(has_wide, !matches!(pulp::Arch::new(), pulp::Arch::Scalar));
    }

    #[test]
    fn they_saturate_and_keep_what_is_no_number() {
        for x in [100.0, 1e30, f32::INFINITY] {
            assert_eq!((sigmoid(x), tanh(x)), (1.0, 1.0));
            assert_eq!(tanh(-x), -1.0);
            assert!(sigmoid(-x) < 1e-37 && exp(x).is_finite());
        }
        assert!(exp(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
    }
}
