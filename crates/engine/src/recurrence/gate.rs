//! The functions inside cells: those whose slope can be told from their value.

use crate::activation::Activation;
use crate::vector::{sigmoid, tanh};
use serde::Deserialize;

const STANH_SCALE: f32 = 1.7159;
const STANH_SLOPE: f32 = 2.0 / 3.0;
const BRELU_MAX: f32 = 24.0;

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gate {
    Linear,
    Sigmoid,
    Tanh,
    Relu,
    Brelu,
    Stanh,
}

#[inline(always)]
fn each(numbers: &mut [f32], function: impl Fn(f32) -> f32) {
    numbers.iter_mut().for_each(|number| *number = function(*number));
}

#[inline(always)]
fn scale(gradient: &mut [f32], values: &[f32], slope: impl Fn(f32) -> f32) {
    gradient.iter_mut().zip(values).for_each(|(gradient, value)| *gradient *= slope(*value));
}

impl Gate {
    /// The same function for tensors.
    pub(super) fn activation(self) -> Activation {
        match self {
            Gate::Linear => Activation::Linear,
            Gate::Sigmoid => Activation::Sigmoid,
            Gate::Tanh => Activation::Tanh,
            Gate::Relu => Activation::Relu,
            Gate::Brelu => Activation::Brelu,
            Gate::Stanh => Activation::Stanh,
        }
    }

    /// Replaces numbers by the function's values.
    #[inline(always)]
    pub(super) fn apply(self, numbers: &mut [f32]) {
        match self {
            Gate::Linear => {}
            Gate::Sigmoid => each(numbers, sigmoid),
            Gate::Tanh => each(numbers, tanh),
            Gate::Relu => each(numbers, |x| x.max(0.0)),
            Gate::Brelu => each(numbers, |x| x.clamp(0.0, BRELU_MAX)),
            Gate::Stanh => each(numbers, |x| STANH_SCALE * tanh(STANH_SLOPE * x)),
        }
    }

    /// Multiplies the gradient of values with the slope there.
    #[inline(always)]
    pub(super) fn apply_slope(self, gradient: &mut [f32], values: &[f32]) {
        let is_on = |is_on: bool| f32::from(u8::from(is_on));
        match self {
            Gate::Linear => {}
            Gate::Sigmoid => scale(gradient, values, |y| y * (1.0 - y)),
            Gate::Tanh => scale(gradient, values, |y| 1.0 - y * y),
            Gate::Relu => scale(gradient, values, |y| is_on(y > 0.0)),
            Gate::Brelu => scale(gradient, values, |y| is_on(y > 0.0 && y < BRELU_MAX)),
            Gate::Stanh => {
                scale(gradient, values, |y| STANH_SLOPE * (STANH_SCALE - y * y / STANH_SCALE));
            }
        }
    }
}
