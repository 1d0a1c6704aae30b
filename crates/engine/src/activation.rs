//! The activations: functions of one number, and the two softmaxes.

use crate::argument::{Argument, Origin};
use crate::elementwise::{self, Function};
use crate::{fused, sequence};
use burn::tensor::{Tensor, activation};
use contract::{Error, Result};
use serde::{Deserialize, Serialize};

/// The bound of [`Activation::Brelu`].
const BRELU_MAX: f32 = 24.0;

/// What is applied to a layer's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they are functions with the names that everybody knows")]
pub enum Activation {
    #[default]
    Linear,
    Tanh,
    Sigmoid,
    Softmax,
    SequenceSoftmax,
    Relu,
    Brelu,
    SoftRelu,
    Stanh,
    Abs,
    Square,
    Exponential,
    Log,
    Sqrt,
    Reciprocal,
    SoftSign,
}

impl Activation {
    /// Every activation.
    pub const ALL: [Activation; 16] = [
        Activation::Linear,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Softmax,
        Activation::SequenceSoftmax,
        Activation::Relu,
        Activation::Brelu,
        Activation::SoftRelu,
        Activation::Stanh,
        Activation::Abs,
        Activation::Square,
        Activation::Exponential,
        Activation::Log,
        Activation::Sqrt,
        Activation::Reciprocal,
        Activation::SoftSign,
    ];

    /// Whether it looks at more than one number at a time.
    pub(crate) fn is_softmax(self) -> bool {
        matches!(self, Activation::Softmax | Activation::SequenceSoftmax)
    }

    pub(crate) fn apply(self, mut argument: Argument) -> Result<Argument> {
        if self == Activation::Linear {
            return Ok(argument);
        }
        let x = argument.dense()?;
        let origin = match self {
            Activation::Softmax => Some(Origin::Softmax(x.clone())),
            Activation::Sigmoid => Some(Origin::Sigmoid(x.clone())),
            _ => None,
        };
        let y = match self {
            Activation::SequenceSoftmax => {
                let offsets = argument.sequences.as_deref().ok_or_else(|| {
                    Error::invalid("sequence_softmax needs a sequence; use softmax for rows")
                })?;
                sequence::softmax(x, offsets)?
            }
            _ => self.of(x),
        };
        argument.set_dense(y);
        argument.origin = origin;
        Ok(argument)
    }

    /// Those that Burn is slow at on the CPU, and that many networks have.
    fn by_hand(self) -> Option<Function> {
        match self {
            Activation::Tanh => Some(Function::Tanh),
            Activation::Sigmoid => Some(Function::Sigmoid),
            Activation::Softmax => Some(Function::Softmax),
            _ => None,
        }
    }

    /// Of each number, or of the rows if it is softmax.
    pub(crate) fn of(self, x: Tensor<2>) -> Tensor<2> {
        if let (Some(function), true) = (self.by_hand(), fused::is_supported(&x.device())) {
            return elementwise::apply(function, x);
        }
        match self {
            Activation::Linear | Activation::SequenceSoftmax => x,
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => activation::sigmoid(x),
            Activation::Softmax => activation::softmax(x, 1),
            Activation::Relu => activation::relu(x),
            Activation::Brelu => x.clamp(0.0, BRELU_MAX),
            Activation::SoftRelu => softplus(x),
            Activation::Stanh => x.mul_scalar(2.0 / 3.0).tanh().mul_scalar(1.7159),
            Activation::Abs => x.abs(),
            Activation::Square => x.clone() * x,
            Activation::Exponential => x.exp(),
            Activation::Log => x.log(),
            Activation::Sqrt => x.sqrt(),
            Activation::Reciprocal => x.recip(),
            Activation::SoftSign => x.clone() / (x.abs() + 1.0),
        }
    }
}

/// `ln(1 + eˣ)` without overflow.
pub(crate) fn softplus(x: Tensor<2>) -> Tensor<2> {
    activation::log_sigmoid(x.neg()).neg()
}
