//! Each pixel of a picture divided by the length of its channels, then each channel times a learnt
//! number.

use super::{Initial, Layer, Plan, Run, Slot, expect_dense, expect_inputs, no_attributes};
use crate::argument::Argument;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::Result;

/// Added to the sum of squares, as the original does: a pixel of zeros stays one.
const EPSILON: f32 = 1e-6;

struct CrossChannelNorm;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(Box::new(CrossChannelNorm))
}

impl Layer for CrossChannelNorm {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let image = Image::known(&inputs[0])?;
        let slot = Slot::weight(0, [image.channels, 1]);
        let initial = Initial::Constant { value: 1.0 };
        let shape = image.shape(&inputs[0]);
        Ok(Plan { shape, parameters: vec![Slot { initial, ..slot }] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = Image::known(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let rows = x.dims()[0];
        let x: Tensor<3> = x.reshape([rows, image.channels, image.pixels()]);
        let length = (x.clone() * x.clone()).sum_dim(1).add_scalar(EPSILON).sqrt();
        let scale: Tensor<3> = run.parameter(0).reshape([1, image.channels, 1]);
        let y = (x / length * scale).reshape([rows, image.size()]);
        Ok(Argument::like(inputs[0], y))
    }
}
