//! Convolution of three-dimensional pictures, or a transposed one. The weight has a row for each
//! filter (transposed: for each channel of the input): its channels one after the other, each plane
//! by plane.

use super::{Initial, Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::image::convolution::Convolution;
use crate::image::volume::{DeepConvolution, Volume};
use crate::image::{Axis, Image, Moves};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

/// Triples are the way through the planes, then down, then across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeepImageConvolution {
    filters: usize,
    filter_size: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    groups: usize,
    channels: Option<usize>,
    /// Whether the bias is one number a filter, or one a pixel.
    is_bias_shared: bool,
    is_transposed: bool,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<DeepImageConvolution>(layer)?))
}

impl DeepImageConvolution {
    /// The way of the window through, down and across such an input.
    fn window(&self, input: &Volume) -> Result<[Axis; 3]> {
        let axis = |side: usize, length: usize| {
            let moves = Moves {
                window: self.filter_size[side],
                stride: self.stride[side],
                padding: self.padding[side],
                dilation: 1,
                is_rounded_up: false,
            };
            if self.is_transposed { moves.stopping(length) } else { moves.along(length) }
        };
        Ok([axis(0, input.depth)?, axis(1, input.height)?, axis(2, input.width)?])
    }

    fn convolution(&self, input: &Shape) -> Result<DeepConvolution> {
        let input = Volume::of(input, self.channels)?;
        let (filters, groups) = (self.filters, self.groups);
        let is_divided = |number: usize| groups > 0 && number > 0 && number.is_multiple_of(groups);
        if !is_divided(filters) || !is_divided(input.channels) {
            return Err(Error::invalid(format!(
                "{groups} groups do not divide both the {} channels and the {filters} filters",
                input.channels
            )));
        }
        let window = self.window(&input)?;
        let [depth, height, width] =
            window.map(|axis| if self.is_transposed { axis.length } else { axis.places });
        let output = Volume { channels: filters, depth, height, width };
        let [through, down, across] = window;
        let flat = |volume: Volume, times: usize| Image {
            channels: volume.channels * times,
            height: volume.height,
            width: volume.width,
        };
        let (wide, narrow) = match self.is_transposed {
            false => (flat(input, through.window), flat(output, 1)),
            true => (flat(output, through.window), flat(input, 1)),
        };
        let is_transposed = self.is_transposed;
        let flat = Convolution { wide, narrow, groups, window: [down, across], is_transposed };
        Ok(DeepConvolution { input, output, through, flat })
    }
}

impl Layer for DeepImageConvolution {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let convolution = self.convolution(&inputs[0])?;
        let mut plan = Plan::of(convolution.output.shape(&inputs[0]));
        let dims = [convolution.flat.narrow.channels, convolution.flat.weight_width()];
        // As the original has it, which forgets the third dimension.
        let seen = self.filter_size[2].pow(2) * convolution.input.channels;
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
        Ok(Argument::like(inputs[0], convolution.apply(x, run.parameter(0), bias)))
    }

    fn own_bias(&self, _output: &Shape) -> Option<usize> {
        self.is_bias_shared.then_some(self.filters)
    }
}
