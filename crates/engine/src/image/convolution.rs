//! Convolution of pictures, and the same backwards: each a product of matrices, sample by sample.
//!
//! A window moves over the *wide* picture and makes of what it sees at each place one pixel of the
//! *narrow* one. A convolution goes from wide to narrow, a transposed one from narrow to wide, and
//! the gradient of either goes the other way, so three small functions are all there is. The
//! columns of a sample are made again for the gradient of the weight: keeping those of a batch
//! would take nine times the memory of its pictures.

use super::fold::{self, Window};
use super::{Axis, Image};
use crate::fused::{self, Fused};
use crate::product::{Matrix, add_product, multiply};
use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use rayon::prelude::*;
use std::sync::Arc;

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

    /// Whether the columns of a picture are the picture.
    fn is_plain(&self) -> bool {
        self.window.iter().all(|axis| axis.window == 1 && axis.stride == 1 && axis.padding == 0)
    }

    /// Memory for the columns of a group.
    fn columns(&self) -> Vec<f32> {
        let numbers = self.weight_width() * fold::places(&self.window);
        vec![0.0; if self.is_plain() { 0 } else { numbers }]
    }

    /// The columns of a group's channels.
    fn unfold<'a>(&self, wide: &'a [f32], columns: &'a mut [f32]) -> Matrix<'a> {
        let (rows, places) = (self.weight_width(), fold::places(&self.window));
        if self.is_plain() {
            return Matrix::new(wide, rows, places);
        }
        fold::unfold(&self.window, wide, columns);
        Matrix::new(columns, rows, places)
    }

    /// Adds to the narrow picture what the wide one gives.
    fn add_narrow(&self, weight: &[f32], wide: &[f32], narrow: &mut [f32], columns: &mut [f32]) {
        let channels = self.narrow.channels / self.groups;
        for group in 0..self.groups {
            let weight = self.weight_of(group, weight);
            let columns = self.unfold(part(wide, group, self.groups), columns);
            let narrow = part_mut(narrow, group, self.groups);
            add_product(Matrix::new(weight, channels, self.weight_width()), columns, narrow);
        }
    }

    /// Adds to the wide picture what the narrow one gives.
    fn add_wide(&self, weight: &[f32], narrow: &[f32], wide: &mut [f32], columns: &mut [f32]) {
        let (channels, places) = (self.narrow.channels / self.groups, fold::places(&self.window));
        for group in 0..self.groups {
            let weight = self.weight_of(group, weight);
            let weight = Matrix::new(weight, channels, self.weight_width()).transposed();
            let narrow = Matrix::new(part(narrow, group, self.groups), channels, places);
            let wide = part_mut(wide, group, self.groups);
            if self.is_plain() {
                add_product(weight, narrow, wide);
            } else {
                multiply(weight, narrow, columns);
                fold::fold(&self.window, columns, wide);
            }
        }
    }

    /// Adds to the weight's gradient what a sample gives.
    fn add_weight(&self, wide: &[f32], narrow: &[f32], weight: &mut [f32], columns: &mut [f32]) {
        let (channels, places) = (self.narrow.channels / self.groups, fold::places(&self.window));
        for group in 0..self.groups {
            let columns = self.unfold(part(wide, group, self.groups), columns);
            let narrow = Matrix::new(part(narrow, group, self.groups), channels, places);
            let weight = part_mut(weight, group, self.groups);
            add_product(narrow, columns.transposed(), weight);
        }
    }

    fn weight_of<'a>(&self, group: usize, weight: &'a [f32]) -> &'a [f32] {
        part(weight, group, self.groups)
    }

    /// Samples that one thread computes.
    fn share(&self, x: &[f32]) -> usize {
        let samples = x.len() / self.input().size();
        samples.div_ceil(rayon::current_num_threads()).max(1)
    }

    fn input_gradient(&self, weight: &[f32], x: &[f32], gradient: &[f32]) -> Vec<f32> {
        let (own, other) = (self.input().size(), self.output().size());
        let share = self.share(x);
        let mut found = vec![0.0; x.len()];
        let shares = found.par_chunks_mut(share * own).zip(gradient.par_chunks(share * other));
        shares.for_each(|(found, gradient)| {
            let mut columns = self.columns();
            for (found, gradient) in found.chunks_mut(own).zip(gradient.chunks(other)) {
                match self.is_transposed {
                    false => self.add_wide(weight, gradient, found, &mut columns),
                    true => self.add_narrow(weight, gradient, found, &mut columns),
                }
            }
        });
        found
    }

    fn weight_gradient(&self, weight: &[f32], x: &[f32], gradient: &[f32]) -> Vec<f32> {
        let (own, other) = (self.input().size(), self.output().size());
        let share = self.share(x);
        let shares = x.par_chunks(share * own).zip(gradient.par_chunks(share * other));
        let found = shares.map(|(x, gradient)| {
            let (mut found, mut columns) = (vec![0.0; weight.len()], self.columns());
            for (x, gradient) in x.chunks(own).zip(gradient.chunks(other)) {
                let (wide, narrow) = if self.is_transposed { (gradient, x) } else { (x, gradient) };
                self.add_weight(wide, narrow, &mut found, &mut columns);
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
        shares.for_each(|(output, x)| {
            let mut columns = self.columns();
            for (output, x) in output.chunks_mut(other).zip(x.chunks(own)) {
                let channels = output.chunks_mut(self.output().pixels());
                channels.zip(bias).for_each(|(channel, bias)| channel.fill(*bias));
                match self.is_transposed {
                    false => self.add_narrow(weight, x, output, &mut columns),
                    true => self.add_wide(weight, x, output, &mut columns),
                }
            }
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

fn part(values: &[f32], number: usize, parts: usize) -> &[f32] {
    let length = values.len() / parts;
    &values[number * length..][..length]
}

fn part_mut(values: &mut [f32], number: usize, parts: usize) -> &mut [f32] {
    let length = values.len() / parts;
    &mut values[number * length..][..length]
}
