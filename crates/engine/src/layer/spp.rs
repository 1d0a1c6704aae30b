//! Spatial pyramid pooling: a picture of any size as a row of one size. Level after level, 1, 4,
//! 16, … windows that cover the picture; the channels of each level one after the other.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::pooling::{Pool, Pooling};
use crate::image::{Axis, Image};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

/// The most levels: the last has a million windows.
const LEVELS_MAX: u32 = 11;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PyramidPooling {
    pooling: Pooling,
    levels: u32,
    channels: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<PyramidPooling>(layer)?))
}

impl PyramidPooling {
    fn pools(&self, input: &Shape) -> Result<Vec<Pool>> {
        if self.levels == 0 || self.levels > LEVELS_MAX {
            return Err(Error::invalid(format!("pyramid_height must be 1 to {LEVELS_MAX}"))
                .with("pyramid_height", self.levels));
        }
        let input = Image::of(input, self.channels)?;
        let pool = |level: u32| {
            let window = [input.height, input.width].map(|length| side(length, 1 << level));
            Pool { input, window, pooling: self.pooling }
        };
        Ok((0..self.levels).map(pool).collect())
    }
}

/// Windows side by side that cover a side, with what is too much at both ends.
fn side(length: usize, places: usize) -> Axis {
    let window = length.div_ceil(places);
    let padding = (window * places - length).div_ceil(2);
    Axis { length, window, stride: window, padding, dilation: 1, places }
}

impl Layer for PyramidPooling {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let sizes = self.pools(&inputs[0])?.into_iter().map(|pool| pool.output().size());
        Ok(Plan::of(inputs[0].with_size(sizes.sum())))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let pools = self.pools(&run.shapes[0])?;
        let levels = pools.into_iter().map(|pool| pool.apply(x.clone())).collect();
        Ok(Argument::like(inputs[0], Tensor::cat(levels, 1)))
    }
}
