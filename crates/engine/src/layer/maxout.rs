//! Of every few channels of a picture, pixel by pixel the largest.

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
struct Maxout {
    /// Channels that become one.
    groups: usize,
    channels: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Maxout>(layer)?))
}

impl Maxout {
    fn output(&self, input: &Shape) -> Result<Image> {
        let image = Image::of(input, self.channels)?;
        if self.groups == 0 || !image.channels.is_multiple_of(self.groups) {
            return Err(Error::invalid(format!(
                "groups of {} channels do not divide the {} channels",
                self.groups, image.channels
            )));
        }
        Ok(Image { channels: image.channels / self.groups, ..image })
    }
}

impl Layer for Maxout {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        Ok(Plan::of(self.output(&inputs[0])?.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let output = self.output(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let rows = x.dims()[0];
        let groups: Tensor<3> = x.reshape([rows * output.channels, self.groups, output.pixels()]);
        let largest = groups.max_dim(1).reshape([rows, output.size()]);
        Ok(Argument::like(inputs[0], largest))
    }
}
