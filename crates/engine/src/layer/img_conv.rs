//! Convolution of pictures, or a transposed one. The weight has a row for each filter (transposed:
//! for each channel of the input): its channels one after the other, each line by line.

use super::{Initial, Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::convolution::Convolution;
use crate::image::{Image, Moves};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

/// Pairs are the way down, then the way across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageConvolution {
    pub(super) filters: usize,
    filter_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
    channels: Option<usize>,
    /// Whether the bias is one number a filter, or one a pixel.
    is_bias_shared: bool,
    is_transposed: bool,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<ImageConvolution>(layer)?))
}

impl ImageConvolution {
    pub(super) fn convolution(&self, input: &Shape) -> Result<Convolution> {
        let input = Image::of(input, self.channels)?;
        let (filters, groups) = (self.filters, self.groups);
        let is_divided = |number: usize| groups > 0 && number > 0 && number.is_multiple_of(groups);
        if !is_divided(filters) || !is_divided(input.channels) {
            return Err(Error::invalid(format!(
                "{groups} groups do not divide both the {} channels and the {filters} filters",
                input.channels
            )));
        }
        let moves = |side: usize| Moves {
            window: self.filter_size[side],
            stride: self.stride[side],
            padding: self.padding[side],
            dilation: self.dilation[side],
            is_rounded_up: false,
        };
        let window = match self.is_transposed {
            false => [moves(0).along(input.height)?, moves(1).along(input.width)?],
            true => [moves(0).stopping(input.height)?, moves(1).stopping(input.width)?],
        };
        let [height, width] = match self.is_transposed {
            false => window.map(|axis| axis.places),
            true => window.map(|axis| axis.length),
        };
        let output = Image { channels: filters, height, width };
        let (wide, narrow) = if self.is_transposed { (output, input) } else { (input, output) };
        Ok(Convolution { wide, narrow, groups, window, is_transposed: self.is_transposed })
    }
}

impl Layer for ImageConvolution {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let convolution = self.convolution(&inputs[0])?;
        let mut plan = Plan::of(convolution.output().shape(&inputs[0]));
        let dims = [convolution.narrow.channels, convolution.weight_width()];
        // As the original has it: by what a pixel of the output sees.
        let seen = self.filter_size[1].pow(2) * convolution.input().channels;
        let initial = Initial::Normal { mean: 0.0, std: (2.0 / seen as f64).sqrt() };
        plan.parameters.push(Slot { initial, ..Slot::weight(0, dims) });
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let convolution = self.convolution(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let bias = match run.parameters.get(1).filter(|_| self.is_bias_shared) {
            Some(bias) => bias.clone(),
            None => Tensor::zeros([1, self.filters], &x.device()),
        };
        let y = convolution.apply(x, run.parameter(0), bias);
        Ok(Argument::like(inputs[0], y))
    }

    fn own_bias(&self, _output: &Shape) -> Option<usize> {
        self.is_bias_shared.then_some(self.filters)
    }
}
