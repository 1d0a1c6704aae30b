//! Response normalization across channels: each pixel divided by a power of 1 plus the scaled
//! squares of the same pixel in the channels around it.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrossMapNormalization {
    /// Channels that count, the pixel's own in the middle; of an even number the later half is
    /// the larger.
    size: usize,
    /// Of all channels that count together.
    scale: f32,
    power: f32,
    channels: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<CrossMapNormalization>(layer)?))
}

impl Layer for CrossMapNormalization {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        if self.size == 0 {
            return Err(Error::invalid("size must be 1 or more").with("size", self.size));
        }
        Ok(Plan::of(Image::of(&inputs[0], self.channels)?.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let Image { channels, height, width } = Image::of(&run.shapes[0], self.channels)?;
        let x = inputs[0].dense()?;
        let (dims, rows, device) = (x.dims(), x.dims()[0], x.device());
        let x: Tensor<3> = x.reshape([rows, channels, height * width]);
        let before = (self.size - 1) / 2;
        let beyond = |count| Tensor::zeros([rows, count, height * width], &device);
        let squares = x.clone() * x.clone();
        let padded = Tensor::cat(vec![beyond(before), squares, beyond(self.size - before)], 1);
        let shifted = (0..self.size).map(|shift| padded.clone().narrow(1, shift, channels));
        let sum = shifted.reduce(|sum, squares| sum + squares);
        let sum = sum.ok_or_else(|| Error::invalid("size must be 1 or more"))?;
        let base = sum.mul_scalar(self.scale / self.size as f32) + 1.0;
        let y = x * base.powf_scalar(-self.power);
        Ok(Argument::like(inputs[0], y.reshape(dims)))
    }
}
