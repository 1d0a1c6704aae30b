//! Convolution of pictures, and the same backwards.
//!
//! A window moves over the *wide* picture and makes of what it sees at each place one pixel of the
//! *narrow* one. A convolution goes from wide to narrow, a transposed one from narrow to wide, and
//! the gradient of either goes the other way. The window reads pictures where they lie (`direct`)
//! where lines are long enough for the processor's vectors; small pictures, windows of one pixel,
//! groups and transposed convolutions are products of matrices (`columns`).

use super::columns::Columns;
use super::direct::Grid;
use super::fold::{self, Window};
use super::{Axis, Image};
use crate::fused::{self, Fused};
use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use rayon::prelude::*;
use std::sync::Arc;

/// The share of what reading pictures where they lie computes that must be of use; with less,
/// columns are made.
const DIRECT_MIN: f32 = 0.7;

/// A convolution between pictures of known size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convolution {
    /// What the window moves over.
    pub(crate) wide: Image,
    /// What has a pixel for each place of the window.
    pub(crate) narrow: Image,
    /// Parts of the channels that have nothing to do with each other.
    pub(crate) groups: usize,
    /// The way down and the way across.
    pub(crate) window: Window,
    /// Whether it goes from narrow to wide.
    pub(crate) is_transposed: bool,
}

impl Convolution {
    /// Channels of `x` to channels of the output. `weight` has a row for each channel of the
    /// narrow picture, `bias` a number for each channel of the output.
    pub(crate) fn apply(self, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<2>) -> Tensor<2> {
        match fused::is_supported(&x.device()) {
            true => fused::apply(Arc::new(self), vec![x, weight, bias]),
            false => self.composed(x, weight, bias),
        }
    }

    pub(super) fn composed(self, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<2>) -> Tensor<2> {
        let (input, output) = (self.input(), self.output());
        let rows = x.dims()[0];
        let x = x.reshape([rows, input.channels, input.height, input.width]);
        let of = |side: fn(&Axis) -> usize| self.window.each_ref().map(side);
        let (stride, padding) = (of(|axis| axis.stride), of(|axis| axis.padding));
        let dilation = of(|axis| axis.dilation);
        let [down, across] = of(|axis| axis.window);
        let channels = [self.narrow.channels, self.wide.channels / self.groups];
        let weight = weight.reshape([channels[0], channels[1], down, across]);
        let bias = Some(bias.reshape([output.channels]));
        let y = match self.is_transposed {
            false => {
                conv2d(x, weight, bias, ConvOptions::new(stride, padding, dilation, self.groups))
            }
            true => {
                let beyond = [0, 1].map(|side| {
                    let axis = self.window[side];
                    let reached =
                        (axis.places - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1;
                    axis.length + 2 * axis.padding - reached
                });
                let options =
                    ConvTransposeOptions::new(stride, padding, beyond, dilation, self.groups);
                conv_transpose2d(x, weight, bias, options)
            }
        };
        y.reshape([rows, output.size()])
    }

    pub(crate) fn input(&self) -> Image {
        if self.is_transposed { self.narrow } else { self.wide }
    }

    pub(crate) fn output(&self) -> Image {
        if self.is_transposed { self.wide } else { self.narrow }
    }

    /// Numbers in the rows of the weight.
    pub(crate) fn weight_width(&self) -> usize {
        self.wide.channels / self.groups * fold::taps(&self.window)
    }

    /// How the window reads pictures where they lie, if that is worth while.
    fn direct(&self, window: &Window) -> Option<Grid> {
        if self.is_transposed || self.groups > 1 || fold::taps(window) == 1 {
            return None;
        }
        Some(Grid::new(window)).filter(|grid| grid.efficiency() >= DIRECT_MIN)
    }

    /// The window that goes over the output's gradient to make that of the input, if there is one.
    fn reversed(&self) -> Option<Window> {
        let fits = |axis: &Axis| axis.stride == 1 && axis.padding <= reach(axis);
        let reverse = |axis: Axis| Axis {
            length: axis.places,
            places: axis.length,
            padding: reach(&axis) - axis.padding,
            ..axis
        };
        self.window.iter().all(fits).then(|| self.window.map(reverse))
    }

    /// Samples that one thread computes.
    fn share(&self, x: &[f32]) -> usize {
        let samples = x.len() / self.input().size();
        samples.div_ceil(rayon::current_num_threads()).max(1)
    }

    fn columns(&self) -> Columns<'_> {
        Columns::new(self)
    }

    fn input_gradient(&self, weight: &[f32], x: &[f32], gradient: &[f32]) -> Vec<f32> {
        let (own, other) = (self.input().size(), self.output().size());
        let share = self.share(x);
        let mut found = vec![0.0; x.len()];
        let shares = found.par_chunks_mut(share * own).zip(gradient.par_chunks(share * other));
        let Some(grid) = self.reversed().and_then(|window| self.direct(&window)) else {
            shares.for_each(|(found, gradient)| match self.is_transposed {
                false => self.columns().add_wide(weight, gradient, found),
                true => self.columns().add_narrow(weight, gradient, found),
            });
            return found;
        };
        let (taps, width) = (fold::taps(&self.window), self.weight_width());
        let weights = grid.weights(self.wide.channels, self.narrow.channels, |to, entry| {
            weight[entry / taps * width + to * taps + taps - 1 - entry % taps]
        });
        shares.for_each(|(found, gradient)| {
            grid.convolve(&weights, gradient, other, |picture, channel, lines| {
                if channel < self.wide.channels {
                    let target = channel_of(found, self.wide, picture, channel);
                    let targets = target.chunks_exact_mut(self.wide.width);
                    targets.zip(lines).for_each(|(target, line)| target.copy_from_slice(line));
                }
            });
        });
        found
    }

    fn weight_gradient(&self, weight: &[f32], x: &[f32], gradient: &[f32]) -> Vec<f32> {
        let (own, other) = (self.input().size(), self.output().size());
        let share = self.share(x);
        let shares = x.par_chunks(share * own).zip(gradient.par_chunks(share * other));
        let grid = self.direct(&self.window);
        let found = shares.map(|(x, gradient)| {
            let mut found = vec![0.0; weight.len()];
            match &grid {
                Some(grid) => grid.add_weights([x, gradient], [own, other], &mut found),
                None => {
                    let (wide, narrow) =
                        if self.is_transposed { (gradient, x) } else { (x, gradient) };
                    self.columns().add_weight(wide, narrow, &mut found);
                }
            }
            found
        });
        let found: Vec<Vec<f32>> = found.collect();
        let sum = found.into_iter().reduce(|mut sum, share| {
            sum.iter_mut().zip(share).for_each(|(sum, number)| *sum += number);
            sum
        });
        sum.unwrap_or_else(|| vec![0.0; weight.len()])
    }

    fn bias_gradient(&self, gradient: &[f32]) -> Vec<f32> {
        let Image { channels, .. } = self.output();
        let mut sums = vec![0.0; channels];
        for (place, pixels) in gradient.chunks(self.output().pixels()).enumerate() {
            sums[place % channels] += super::sum(pixels);
        }
        sums
    }
}

/// Pixels from the first tap of a window to its last.
fn reach(axis: &Axis) -> usize {
    (axis.window - 1) * axis.dilation
}

/// One channel of a picture.
fn channel_of(pictures: &mut [f32], size: Image, picture: usize, channel: usize) -> &mut [f32] {
    &mut pictures[picture * size.size() + channel * size.pixels()..][..size.pixels()]
}

impl Fused for Convolution {
    fn width(&self) -> usize {
        self.output().size()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (x, weight, bias) = (inputs[0], inputs[1], inputs[2]);
        let (own, other) = (self.input().size(), self.output().size());
        let share = self.share(x);
        let mut output = vec![0.0; x.len() / own * other];
        let shares = output.par_chunks_mut(share * other).zip(x.par_chunks(share * own));
        let Some(grid) = self.direct(&self.window) else {
            shares.for_each(|(output, x)| {
                let channels = output.chunks_mut(self.output().pixels());
                channels.zip(bias.iter().cycle()).for_each(|(channel, bias)| channel.fill(*bias));
                match self.is_transposed {
                    false => self.columns().add_narrow(weight, x, output),
                    true => self.columns().add_wide(weight, x, output),
                }
            });
            return output;
        };
        let (channels, width) = (self.wide.channels, self.weight_width());
        let weights = grid.weights(self.narrow.channels, channels, |filter, entry| {
            weight[filter * width + entry]
        });
        shares.for_each(|(output, x)| {
            grid.convolve(&weights, x, own, |picture, filter, lines| {
                let Some(bias) = bias.get(filter) else { return };
                let target = channel_of(output, self.narrow, picture, filter);
                for (target, line) in target.chunks_exact_mut(self.narrow.width).zip(lines) {
                    target.iter_mut().zip(line).for_each(|(to, from)| *to = from + bias);
                }
            });
        });
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let (x, weight) = (inputs[0], inputs[1]);
        let mut found = Vec::new();
        if wanted[0] {
            found.push(self.input_gradient(weight, x, gradient));
        }
        if wanted[1] {
            found.push(self.weight_gradient(weight, x, gradient));
        }
        if wanted[2] {
            found.push(self.bias_gradient(gradient));
        }
        found
    }
}
