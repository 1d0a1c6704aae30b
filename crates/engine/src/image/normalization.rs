//! Batch normalization: each channel, over all pixels of all samples, with mean 0 and variance 1,
//! then times its scale and plus its bias.

use crate::argument::numbers;
use crate::fused::{self, Fused};
use burn::tensor::Tensor;
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// How rows are normalized.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normalization {
    pub(crate) channels: usize,
    /// Numbers of a channel in a row.
    pub(crate) pixels: usize,
    /// What is added to the variance, so that its root can be divided by.
    pub(crate) epsilon: f32,
}

/// Mean and variance of each channel; the variance is that of these numbers, not an estimate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) mean: Vec<f32>,
    pub(crate) variance: Vec<f32>,
}

impl Normalization {
    /// Normalizes rows by their own statistics, which it also gives.
    pub(crate) fn apply(self, inputs: [Tensor<2>; 3]) -> (Tensor<2>, Statistics) {
        if !fused::is_supported(&inputs[0].device()) {
            return self.composed(inputs);
        }
        let applied = Arc::new(Applied { how: self, found: OnceLock::new() });
        let operation: Arc<dyn Fused> = Arc::<Applied>::clone(&applied);
        let output = fused::apply(operation, inputs.into());
        let nothing = Statistics { mean: Vec::new(), variance: Vec::new() };
        (output, applied.found.get().cloned().unwrap_or(nothing))
    }

    pub(super) fn composed(self, inputs: [Tensor<2>; 3]) -> (Tensor<2>, Statistics) {
        let [x, scale, bias] = inputs;
        let rows = x.dims()[0];
        let count = (rows * self.pixels) as f32;
        let x: Tensor<3> = x.reshape([rows, self.channels, self.pixels]);
        let mean_of = |x: Tensor<3>| x.sum_dim(2).sum_dim(0).div_scalar(count);
        let mean = mean_of(x.clone());
        let centred = x - mean.clone();
        let variance = mean_of(centred.clone() * centred.clone());
        let factor = self.per_channel(scale) / (variance.clone() + self.epsilon).sqrt();
        let y = (centred * factor + self.per_channel(bias)).reshape([rows, self.width()]);
        (y, Statistics { mean: numbers(mean), variance: numbers(variance) })
    }

    /// Normalizes rows by statistics that are known.
    pub(crate) fn apply_known(
        self,
        x: Tensor<2>,
        [mean, variance]: [Tensor<2>; 2],
        [scale, bias]: [Tensor<2>; 2],
    ) -> Tensor<2> {
        let rows = x.dims()[0];
        let factor = scale / (variance.clamp_min(0.0) + self.epsilon).sqrt();
        let shift = bias - mean * factor.clone();
        let x: Tensor<3> = x.reshape([rows, self.channels, self.pixels]);
        let y = x * self.per_channel(factor) + self.per_channel(shift);
        y.reshape([rows, self.width()])
    }

    fn per_channel(&self, values: Tensor<2>) -> Tensor<3> {
        values.reshape([1, self.channels, 1])
    }

    fn width(&self) -> usize {
        self.channels * self.pixels
    }

    /// For each channel, the sum of what `of` makes of its numbers in each row.
    fn sums(&self, rows: usize, of: impl Fn(usize, usize) -> f32 + Sync) -> Vec<f32> {
        let sum = |channel: usize| -> f32 {
            let all = (0..rows).map(|row| f64::from(of(channel, self.begin(row, channel))));
            all.sum::<f64>() as f32
        };
        (0..self.channels).into_par_iter().map(sum).collect()
    }

    /// Where the numbers of a channel begin.
    fn begin(&self, row: usize, channel: usize) -> usize {
        row * self.width() + channel * self.pixels
    }

    fn measure(&self, x: &[f32]) -> Statistics {
        let rows = x.len() / self.width();
        let share = 1.0 / (rows * self.pixels) as f32;
        let mut mean = self.sums(rows, |_, begin| super::sum(&x[begin..][..self.pixels]));
        mean.iter_mut().for_each(|mean| *mean *= share);
        let mut variance = self.sums(rows, |channel, begin| {
            super::sum_of(&x[begin..][..self.pixels], |x| (x - mean[channel]) * (x - mean[channel]))
        });
        variance.iter_mut().for_each(|variance| *variance *= share);
        Statistics { mean, variance }
    }
}

/// One application.
#[derive(Debug)]
struct Applied {
    how: Normalization,
    found: OnceLock<Statistics>,
}

impl Applied {
    /// The mean of each channel, and what its distance from that is multiplied with.
    fn centre_and_spread(&self, x: &[f32]) -> (&[f32], Vec<f32>) {
        let Statistics { mean, variance } = self.found.get_or_init(|| self.how.measure(x));
        let spread = variance.iter().map(|variance| 1.0 / (variance + self.how.epsilon).sqrt());
        (mean, spread.collect())
    }
}

impl Fused for Applied {
    fn width(&self) -> usize {
        self.how.width()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (x, scale, bias) = (inputs[0], inputs[1], inputs[2]);
        let (mean, spread) = self.centre_and_spread(x);
        let mut output = vec![0.0; x.len()];
        let pixels = self.how.pixels;
        let channels = output.par_chunks_mut(pixels).zip(x.par_chunks(pixels)).enumerate();
        channels.for_each(|(place, (output, x))| {
            let channel = place % self.how.channels;
            let factor = scale[channel] * spread[channel];
            let shift = bias[channel] - mean[channel] * factor;
            output.iter_mut().zip(x).for_each(|(output, x)| *output = x * factor + shift);
        });
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let (x, scale) = (inputs[0], inputs[1]);
        let (mean, spread) = self.centre_and_spread(x);
        let pixels = self.how.pixels;
        let rows = x.len() / self.how.width();
        let bias_gradient =
            self.how.sums(rows, |_, begin| super::sum(&gradient[begin..][..pixels]));
        let scale_gradient = self.how.sums(rows, |channel, begin| {
            let (x, gradient) = (&x[begin..][..pixels], &gradient[begin..][..pixels]);
            super::sum_of_two(x, gradient, |x, gradient| (x - mean[channel]) * gradient)
                * spread[channel]
        });
        let mut found = Vec::new();
        if wanted[0] {
            let share = 1.0 / (rows * pixels) as f32;
            let mut own = vec![0.0; x.len()];
            let channels = own.par_chunks_mut(pixels).zip(x.par_chunks(pixels));
            let channels = channels.zip(gradient.par_chunks(pixels)).enumerate();
            channels.for_each(|(place, ((own, x), gradient))| {
                let channel = place % self.how.channels;
                let factor = scale[channel] * spread[channel];
                // factor·(gradient − mean of gradients − x' · mean of x'·gradient), x' normalized.
                let slope = -factor * spread[channel] * share * scale_gradient[channel];
                let shift = -factor * share * bias_gradient[channel] - slope * mean[channel];
                let numbers = own.iter_mut().zip(x).zip(gradient);
                numbers
                    .for_each(|((own, x), gradient)| *own = factor * gradient + slope * x + shift);
            });
            found.push(own);
        }
        found.extend(wanted[1].then_some(scale_gradient));
        found.extend(wanted[2].then_some(bias_gradient));
        found
    }
}
