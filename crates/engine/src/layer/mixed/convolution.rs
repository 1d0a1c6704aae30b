//! A convolution of pictures, as `img_conv` computes it.

use super::super::img_conv::ImageConvolution;
use super::super::{Layer, Run, Slot};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::image::Image;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;

impl Projection for ImageConvolution {
    fn pictures(&self, inputs: &[Shape]) -> Result<Option<Image>> {
        Ok(Some(self.convolution(&inputs[0])?.output()))
    }

    fn filters(&self) -> Option<usize> {
        Some(self.filters)
    }

    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        let plan = Layer::plan(self, inputs)?;
        let slot = plan.parameters.into_iter().next();
        Ok((plan.shape.size, slot.map(|slot| Slot { name: format!("w{place}"), ..slot })))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let convolution = self.convolution(&run.shapes[at.input])?;
        let x = inputs[0].dense()?;
        let zeros = || Tensor::zeros([1, self.filters], &x.device());
        let bias = at.bias.clone().unwrap_or_else(zeros);
        Ok(convolution.apply(x, run.parameter(at.slot), bias))
    }
}
