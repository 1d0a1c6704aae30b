//! The largest, or the mean, of what a window sees that moves over each channel of a picture.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::pooling::{Pool, Pooling};
use crate::image::{Image, Moves};
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

/// Pairs are the way down, then the way across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImagePooling {
    pooling: Pooling,
    pool_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    channels: Option<usize>,
    /// Whether a last window may reach beyond the padding.
    is_rounded_up: bool,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<ImagePooling>(layer)?))
}

impl ImagePooling {
    fn pool(&self, input: &Shape) -> Result<Pool> {
        let input = Image::of(input, self.channels)?;
        let moves = |side: usize| Moves {
            window: self.pool_size[side],
            stride: self.stride[side],
            padding: self.padding[side],
            dilation: 1,
            is_rounded_up: self.is_rounded_up,
        };
        let window = [moves(0).along(input.height)?, moves(1).along(input.width)?];
        Ok(Pool { input, window, pooling: self.pooling })
    }
}

impl Layer for ImagePooling {
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
