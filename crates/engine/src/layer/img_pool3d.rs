//! The largest, or the mean, of what a window sees that moves through each channel of a
//! three-dimensional picture.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::Moves;
use crate::image::pooling::Pooling;
use crate::image::volume::{DeepPool, Volume};
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

/// Triples are the way through the planes, then down, then across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeepImagePooling {
    pooling: Pooling,
    pool_size: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    channels: Option<usize>,
    /// Whether a last window may reach beyond the padding.
    is_rounded_up: bool,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<DeepImagePooling>(layer)?))
}

impl DeepImagePooling {
    fn pool(&self, input: &Shape) -> Result<DeepPool> {
        let input = Volume::of(input, self.channels)?;
        let axis = |side: usize, length: usize| {
            let moves = Moves {
                window: self.pool_size[side],
                stride: self.stride[side],
                padding: self.padding[side],
                dilation: 1,
                is_rounded_up: self.is_rounded_up,
            };
            moves.along(length)
        };
        let window = [axis(0, input.depth)?, axis(1, input.height)?, axis(2, input.width)?];
        Ok(DeepPool { input, window, pooling: self.pooling })
    }
}

impl Layer for DeepImagePooling {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        Ok(Plan::of(self.pool(&inputs[0])?.output().shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let pooled = self.pool(&run.shapes[0])?.apply(inputs[0].dense()?);
        Ok(Argument::like(inputs[0], pooled))
    }
}
