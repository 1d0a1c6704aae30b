//! What is the same for all layers: bias, activation, dropout and the clipping of gradients come
//! after a layer's own output.

use super::{Layer, Run};
use crate::activation::Activation;
use crate::argument::Argument;
use crate::shape::Shape;
use crate::{dropout, gradient_clip, topology};
use contract::Result;

/// A layer that was checked.
pub(crate) struct Node<'a> {
    pub(crate) layer: &'a topology::Layer,
    pub(crate) built: &'a dyn Layer,
    /// Its output.
    pub(crate) shape: &'a Shape,
}

impl Node<'_> {
    /// The layer's output, finished.
    pub(crate) fn run(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let Node { layer, built, shape } = self;
        if let Some(empty) = self.run_without_rows(run, inputs) {
            return Ok(empty);
        }
        let has_bias = layer.has_bias && built.own_bias(shape).is_none();
        let mut output = match built.forward_finished(run, inputs, layer.activation) {
            Some(output) => output?,
            None => self.run_in_turn(run, inputs, has_bias)?,
        };
        if layer.drop_rate > 0.0 {
            let dropped = match run.is_training {
                true => dropout::drop_out(output.dense()?, layer.drop_rate, run.chance),
                false => output.dense()?.mul_scalar(1.0 - layer.drop_rate),
            };
            output.set_dense(dropped);
        }
        if let Some(clip) = layer.error_clip {
            let clipped = gradient_clip::clip_gradient(output.dense()?, clip);
            output.set_dense(clipped);
        }
        Ok(output)
    }

    /// The layer's output, its bias and its activation, one after the other.
    fn run_in_turn(&self, run: &Run<'_>, inputs: &[&Argument], has_bias: bool) -> Result<Argument> {
        let mut output = self.built.forward(run, inputs)?;
        if let (true, Some(bias)) = (has_bias, run.parameters.last()) {
            let biased = output.dense()? + bias.clone();
            output.set_dense(biased);
        }
        match self.layer.activation {
            Activation::Linear => Ok(output),
            activation => activation.apply(output),
        }
    }

    /// The output of a layer that makes a row of each row, if there are none. Not all of Burn's
    /// operations bear matrices without rows, and nothing is to be learnt from them.
    fn run_without_rows(&self, run: &Run<'_>, inputs: &[&Argument]) -> Option<Argument> {
        let levels = run.shapes.iter().map(|shape| shape.level);
        let is_row_by_row =
            levels.min() == Some(self.shape.level) && !self.built.runs_without_rows(run.shapes);
        let first = inputs.first().filter(|_| is_row_by_row)?;
        let is_empty = inputs.iter().all(|input| input.rows() == 0);
        is_empty.then(|| Argument::without_rows(first, self.shape, run.device))
    }
}
