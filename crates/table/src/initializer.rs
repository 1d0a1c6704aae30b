//! The first values of a parameter, by a documented function of (seed, name, index) alone: any
//! layout over trainers and servers, and any other client, gives the same start.
//!
//! All numbers are u64 and wrap. `mix64` is the finalizer of splitmix64, `name hash` is FNV-1a (64
//! bits) of the parameter's name in UTF-8; both are in [`crate::placement`].
//!
//! ```text
//! output(state, n) = mix64(state + (n + 1) · 0x9e3779b97f4a7c15)    the n-th of splitmix64, from 0
//! key(s)           = output(output(seed, 0) xor name hash, s)       s: 0 or 1
//! bits(s, i)       = output(key(s), i)                              i: the index of the element
//!
//! uniform:  low + (high − low) · (bits(0, i) >> 40) / 2^24
//! normal:   mean + std · √(−2·ln a) · cos(2π·b)    a = ((bits(0, i) >> 11) + 1) / 2^53
//!                                                  b = (bits(1, i) >> 11) / 2^53
//! ```
//!
//! The arithmetic is in f64 and the result is rounded to f32. Libraries may differ in the last bit
//! of `ln` and `cos`, which the rounding hides but for one element in many millions.
//!
//! The element of a dense parameter is its place in row-major order; column c of row r of a sparse
//! parameter of width w is element r·w + c.

use crate::optimizer::check::Accepted;
use crate::placement::mix64;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// How a parameter starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Initializer {
    /// All 0.
    #[default]
    Zero,
    /// All the same.
    Constant {
        /// The value.
        value: f32,
    },
    /// Evenly between two numbers, up to rounding without the upper.
    Uniform {
        /// The lower.
        low: f64,
        /// The upper.
        high: f64,
    },
    /// Normally distributed.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation, 0 or more.
        std: f64,
    },
}

impl Initializer {
    /// Finds the first thing that cannot be: field, value, what is accepted.
    pub fn check(&self) -> Result<()> {
        match *self {
            Initializer::Zero => Ok(()),
            Initializer::Constant { value } => {
                Accepted::Finite.check("initializer.value", f64::from(value))
            }
            Initializer::Uniform { low, high } => {
                Accepted::Finite.check("initializer.low", low)?;
                Accepted::Finite.check("initializer.high", high)?;
                if low > high {
                    let message = "initializer.low must not be above initializer.high";
                    return Err(Error::invalid(message).with("low", low).with("high", high));
                }
                Ok(())
            }
            Initializer::Normal { mean, std } => {
                Accepted::Finite.check("initializer.mean", mean)?;
                Accepted::NotNegative.check("initializer.std", std)
            }
        }
    }

    /// Writes element `first + i` (wrapping) of a parameter to `out[i]`.
    pub fn fill(&self, seed: u64, name_hash: u64, first: u64, out: &mut [f32]) {
        let base = output(seed, 0) ^ name_hash;
        let indices = (0..).map(|i| first.wrapping_add(i));
        match *self {
            Initializer::Zero => out.fill(0.0),
            Initializer::Constant { value } => out.fill(value),
            Initializer::Uniform { low, high } => {
                let key = output(base, 0);
                for (element, index) in out.iter_mut().zip(indices) {
                    let share = (output(key, index) >> 40) as f64 / UNIFORM_STEPS;
                    *element = (low + (high - low) * share) as f32;
                }
            }
            Initializer::Normal { mean, std } => {
                let keys = (output(base, 0), output(base, 1));
                for (element, index) in out.iter_mut().zip(indices) {
                    let a = ((output(keys.0, index) >> 11) + 1) as f64 / NORMAL_STEPS;
                    let b = (output(keys.1, index) >> 11) as f64 / NORMAL_STEPS;
                    *element = (mean + std * (-2.0 * a.ln()).sqrt() * (TAU * b).cos()) as f32;
                }
            }
        }
    }
}

const UNIFORM_STEPS: f64 = (1_u64 << 24) as f64;
const NORMAL_STEPS: f64 = (1_u64 << 53) as f64;

/// The n-th output of splitmix64 that starts at `state`, by jumping there.
fn output(state: u64, n: u64) -> u64 {
    const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
    mix64(state.wrapping_add(n.wrapping_add(1).wrapping_mul(STRIDE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIFORM: Initializer = Initializer::Uniform { low: -0.5, high: 1.5 };
    const NORMAL: Initializer = Initializer::Normal { mean: 0.25, std: 2.0 };

    fn values(initializer: Initializer, seed: u64, first: u64, count: usize) -> Vec<f32> {
        let mut values = vec![f32::NAN; count];
        initializer.fill(seed, 0x1234_5678_9abc_def0, first, &mut values);
        values
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn an_element_does_not_depend_on_how_the_range_is_cut(
            seed: u64,
            first in prop_oneof![any::<u64>(), 0..100_u64, u64::MAX - 40..=u64::MAX],
            cut in 0..80_usize,
            initializer in prop_oneof![Just(UNIFORM), Just(NORMAL)],
        ) {
            let whole = values(initializer, seed, first, 80);
            let tail = values(initializer, seed, first.wrapping_add(cut as u64), 80 - cut);
            prop_assert_eq!(&whole[cut..], &tail[..]);
        }
    }

    #[track_caller]
    fn check_moments(values: &[f32], mean: f64, std: f64) {
        let count = values.len() as f64;
        let found = values.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
        let squares = values.iter().map(|v| (f64::from(*v) - found).powi(2)).sum::<f64>();
        let error = 5.0 * std / count.sqrt();
        assert!((found - mean).abs() < error, "mean {found}");
        assert!(((squares / count).sqrt() - std).abs() < error, "std");
    }

    #[test]
    fn values_are_distributed_as_asked() {
        for seed in 0..4 {
            let uniform = values(UNIFORM, seed, 0, 100_000);
            check_moments(&uniform, 0.5, 2.0 / 12_f64.sqrt());
            assert!(uniform.iter().all(|v| (-0.5..=1.5).contains(v)));
            let normal = values(NORMAL, seed, 0, 100_000);
            check_moments(&normal, 0.25, 2.0);
            let within = normal.iter().filter(|v| (**v - 0.25).abs() < 2.0).count();
            assert!((67_000..70_000).contains(&within), "{within} within one deviation");
        }
    }

    #[test]
    fn seeds_and_names_give_other_values() {
        let mut other = vec![0.0; 8];
        NORMAL.fill(1, 2, 0, &mut other);
        assert_ne!(values(NORMAL, 1, 0, 8), values(NORMAL, 2, 0, 8));
        assert_ne!(values(NORMAL, 1, 0, 8), other);
    }

    #[test]
    fn zero_and_constant_are_what_they_say() {
        assert_eq!(values(Initializer::Zero, 1, 0, 2), [0.0; 2]);
        assert_eq!(values(Initializer::Constant { value: 1.5 }, 1, 0, 2), [1.5; 2]);
    }

    #[test]
    fn descriptions_are_json_and_are_checked() {
        let json = serde_json::to_string(&UNIFORM).unwrap();
        assert_eq!(json, r#"{"name":"uniform","low":-0.5,"high":1.5}"#);
        assert_eq!(serde_json::from_str::<Initializer>(&json).unwrap(), UNIFORM);
        let errors = [
            Initializer::Constant { value: f32::NAN },
            Initializer::Uniform { low: 2.0, high: 1.0 },
            Initializer::Uniform { low: f64::NEG_INFINITY, high: 1.0 },
            Initializer::Normal { mean: 0.0, std: -1.0 },
        ]
        .map(|initializer| initializer.check().unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @r"
        initializer.value must be a finite number (value: NaN)
        initializer.low must not be above initializer.high (low: 2, high: 1)
        initializer.low must be a finite number (value: -inf)
        initializer.std must be a finite number, 0 or more (value: -1)
        ");
    }
}
