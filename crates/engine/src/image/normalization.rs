//! Batch normalization: each channel, over all pixels of all samples, with mean 0 and variance 1,
//! then times its scale and plus its bias; and ReLU of that, which costs no walk of its own.

use crate::argument::numbers;
use crate::fresh;
use crate::fused::{self, Fused};
use crate::vector::widely;
use burn::tensor::{Tensor, activation};
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
    /// Normalizes rows by their own statistics, which it also gives; then, if `is_relu`, ReLU.
    pub(crate) fn apply(self, inputs: [Tensor<2>; 3], is_relu: bool) -> (Tensor<2>, Statistics) {
        if !fused::is_supported(&inputs[0].device()) {
            let (y, found) = self.composed(inputs);
            return (if is_relu { activation::relu(y) } else { y }, found);
        }
        let applied = Arc::new(Applied { how: self, is_relu, found: OnceLock::new() });
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

    /// For each channel, what `of` makes of it.
    fn each<T: Send>(&self, of: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        let of = |channel| {
            widely(
                #[inline(always)]
                || of(channel),
            )
        };
        (0..self.channels).into_par_iter().map(of).collect()
    }

    /// The numbers of a channel, row by row.
    #[inline(always)]
    fn rows<'a>(&self, x: &'a [f32], channel: usize) -> impl Iterator<Item = &'a [f32]> {
        let (begin, pixels) = (channel * self.pixels, self.pixels);
        x.chunks_exact(self.width()).map(move |row| &row[begin..begin + pixels])
    }

    fn measure(&self, x: &[f32]) -> Statistics {
        let count = (x.len() / self.width() * self.pixels) as f64;
        let found = self.each(
            #[inline(always)]
            |channel| {
                let sums = self.rows(x, channel).map(|x| f64::from(super::sum(x)));
                let mean = (sums.sum::<f64>() / count) as f32;
                let squares = self.rows(x, channel).map(
                    #[inline(always)]
                    |x| f64::from(super::sum_of(x, |x| (x - mean) * (x - mean))),
                );
                (mean, (squares.sum::<f64>() / count) as f32)
            },
        );
        let (mean, variance) = found.into_iter().unzip();
        Statistics { mean, variance }
    }
}

/// One application.
#[derive(Debug)]
struct Applied {
    how: Normalization,
    is_relu: bool,
    found: OnceLock<Statistics>,
}

/// How the numbers of a channel become those of the output: times the factor, plus the shift.
#[derive(Debug, Clone, Copy)]
struct Line {
    mean: f32,
    spread: f32,
    factor: f32,
    shift: f32,
}

impl Line {
    /// The output before ReLU.
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        x * self.factor + self.shift
    }
}

impl Applied {
    /// By channel.
    fn lines(&self, x: &[f32], scale: &[f32], bias: &[f32]) -> Vec<Line> {
        let Statistics { mean, variance } = self.found.get_or_init(|| self.how.measure(x));
        let all = mean.iter().zip(variance).zip(scale.iter().zip(bias));
        let lines = all.map(|((&mean, variance), (scale, bias))| {
            let spread = 1.0 / (variance + self.how.epsilon).sqrt();
            let factor = scale * spread;
            Line { mean, spread, factor, shift: bias - mean * factor }
        });
        lines.collect()
    }

    /// What ReLU lets through of a gradient, which is 0 or all of it.
    #[inline(always)]
    fn through(&self, line: Line, x: f32, gradient: f32) -> f32 {
        if self.is_relu && line.of(x) <= 0.0 { 0.0 } else { gradient }
    }
}

impl Fused for Applied {
    fn width(&self) -> usize {
        self.how.width()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (x, scale, bias) = (inputs[0], inputs[1], inputs[2]);
        let (lines, pixels) = (self.lines(x, scale, bias), self.how.pixels);
        // NaN stays NaN, so that it is found.
        let least = if self.is_relu { 0.0 } else { f32::NEG_INFINITY };
        fresh::pieces(x.len(), pixels, |place| {
            let line = lines[place % self.how.channels];
            let numbers = x[place * pixels..][..pixels].iter();
            numbers.map(move |x| if line.of(*x) <= least { least } else { line.of(*x) })
        })
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let (x, scale, bias) = (inputs[0], inputs[1], inputs[2]);
        let (lines, pixels) = (self.lines(x, scale, bias), self.how.pixels);
        let sums = self.how.each(
            #[inline(always)]
            |channel| {
                let (line, mut sums) = (lines[channel], [0.0; 2]);
                let rows = self.how.rows(x, channel).zip(self.how.rows(gradient, channel));
                for (x, gradient) in rows {
                    let found = super::sums_of_two(
                        x,
                        gradient,
                        #[inline(always)]
                        |x, gradient| {
                            let gradient = self.through(line, x, gradient);
                            [gradient, (x - line.mean) * gradient]
                        },
                    );
                    sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += f64::from(found));
                }
                [sums[0] as f32, sums[1] as f32 * line.spread]
            },
        );
        let mut found = Vec::new();
        if wanted[0] {
            let share = 1.0 / (x.len() / self.how.channels) as f32;
            found.push(fresh::pieces(x.len(), pixels, |place| {
                let channel = place % self.how.channels;
                let (line, [bias_gradient, scale_gradient]) = (lines[channel], sums[channel]);
                let factor = line.factor;
                // factor·(gradient − mean of gradients − x' · mean of x'·gradient), x' normalized.
                let slope = -factor * line.spread * share * scale_gradient;
                let shift = -factor * share * bias_gradient - slope * line.mean;
                let begin = place * pixels;
                let numbers = x[begin..][..pixels].iter().zip(&gradient[begin..][..pixels]);
                numbers.map(move |(x, gradient)| {
                    factor * self.through(line, *x, *gradient) + slope * x + shift
                })
            }));
        }
        found.extend(wanted[1].then(|| sums.iter().map(|sums| sums[1]).collect()));
        found.extend(wanted[2].then(|| sums.iter().map(|sums| sums[0]).collect()));
        found
    }
}
