//! Windows that move over each channel of a picture and give the largest or the mean of what they
//! see. Pixels beyond the edge count nothing; a window that sees none gives 0.

use super::Image;
use super::fold::{self, Window};
use crate::fused::{self, Fused};
use burn::tensor::{Int, Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// What is made of the pixels of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pooling {
    Max,
    Average,
}

/// Pooling of pictures of known size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) input: Image,
    pub(crate) window: Window,
    pub(crate) pooling: Pooling,
}

impl Pool {
    pub(crate) fn output(&self) -> Image {
        let [height, width] = self.window.map(|axis| axis.places);
        Image { height, width, ..self.input }
    }

    pub(crate) fn apply(self, x: Tensor<2>) -> Tensor<2> {
        match fused::is_supported(&x.device()) {
            true => fused::apply(Arc::new(Applied { pool: self, best: OnceLock::new() }), vec![x]),
            false => self.composed(x),
        }
    }

    /// Picks what each window sees, side by side, where a column beyond the picture is the padding.
    pub(super) fn composed(self, x: Tensor<2>) -> Tensor<2> {
        let (rows, pixels, device) = (x.dims()[0], self.input.pixels(), x.device());
        let channels = rows * self.input.channels;
        let (places, taps) = (fold::places(&self.window), fold::taps(&self.window));
        let mut picked = Vec::with_capacity(places * taps);
        let mut shares = Vec::with_capacity(places);
        for seen in self.views() {
            let begin = picked.len();
            picked.extend(seen.map(|pixel| pixel as i32));
            let count = picked.len() - begin;
            picked.resize(begin + taps, pixels as i32);
            shares.push(match self.pooling {
                Pooling::Max => f32::from(u8::from(count > 0)),
                Pooling::Average => 1.0 / count.max(1) as f32,
            });
        }
        let beyond = if self.pooling == Pooling::Max { f32::MIN } else { 0.0 };
        let beyond = Tensor::full([channels, 1], beyond, &device);
        let x = Tensor::cat(vec![x.reshape([channels, pixels]), beyond], 1);
        let picked = Tensor::<1, Int>::from_data(TensorData::new(picked, [places * taps]), &device);
        let seen: Tensor<3> = x.select(1, picked).reshape([channels, places, taps]);
        let shares = Tensor::<3>::from_data(TensorData::new(shares, [1, places, 1]), &device);
        let pooled = match self.pooling {
            Pooling::Max => seen.max_dim(2),
            Pooling::Average => seen.sum_dim(2),
        };
        (pooled * shares).reshape([rows, self.output().size()])
    }

    /// The pixels of a channel that the window sees, place by place.
    fn views(&self) -> impl Iterator<Item = impl Iterator<Item = usize> + Clone> {
        let [down, across] = self.window;
        let width = across.length;
        (0..down.places).flat_map(move |line| {
            (0..across.places).map(move |stop| {
                let pixels = across.seen(stop);
                down.seen(line)
                    .flat_map(move |line| pixels.clone().map(move |at| line * width + at))
            })
        })
    }
}

/// One application.
#[derive(Debug)]
struct Applied {
    pool: Pool,
    /// For each pixel of the output, which of its channel it is; `NOTHING` if it saw none.
    best: OnceLock<Vec<u32>>,
}

const NOTHING: u32 = u32::MAX;

impl Applied {
    fn forward_max(&self, x: &[f32], output: &mut [f32]) {
        let (pixels, places) = (self.pool.input.pixels(), fold::places(&self.pool.window));
        let mut best = vec![NOTHING; output.len()];
        let outputs = output.par_chunks_mut(places).zip(best.par_chunks_mut(places));
        let [down, across] = &self.pool.window;
        let stops: Vec<_> = (0..across.places).map(|stop| across.seen(stop)).collect();
        outputs.zip(x.par_chunks(pixels)).for_each(|((output, best), channel)| {
            let lines =
                output.chunks_exact_mut(stops.len()).zip(best.chunks_exact_mut(stops.len()));
            for (line, (output, best)) in lines.enumerate() {
                let rows = down.seen(line);
                for ((output, best), stop) in output.iter_mut().zip(best).zip(&stops) {
                    let mut largest = f32::NEG_INFINITY;
                    for row in rows.clone() {
                        let begin = row * across.length + stop.start;
                        for (at, &number) in channel[begin..][..stop.len()].iter().enumerate() {
                            // The first of equals; and NaN is not lost. Without
                            // branches, which would be guessed wrong.
                            let is_best = (*best == NOTHING) | (number > largest) | number.is_nan();
                            largest = if is_best { number } else { largest };
                            *best = if is_best { (begin + at) as u32 } else { *best };
                        }
                    }
                    *output = if *best == NOTHING { 0.0 } else { largest };
                }
            }
        });
        // Each application runs forward once.
        self.best.get_or_init(|| best);
    }

    fn forward_average(&self, x: &[f32], output: &mut [f32]) {
        let (pixels, places) = (self.pool.input.pixels(), fold::places(&self.pool.window));
        let outputs = output.par_chunks_mut(places);
        outputs.zip(x.par_chunks(pixels)).for_each(|(output, channel)| {
            for (output, seen) in output.iter_mut().zip(self.pool.views()) {
                let count = seen.clone().count().max(1) as f32;
                *output = seen.map(|pixel| channel[pixel]).sum::<f32>() / count;
            }
        });
    }
}

impl Fused for Applied {
    fn width(&self) -> usize {
        self.pool.output().size()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let x = inputs[0];
        let places = fold::places(&self.pool.window);
        let mut output = vec![0.0; x.len() / self.pool.input.pixels() * places];
        match self.pool.pooling {
            Pooling::Max => self.forward_max(x, &mut output),
            Pooling::Average => self.forward_average(x, &mut output),
        }
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], _wanted: &[bool]) -> Vec<Vec<f32>> {
        let (pixels, places) = (self.pool.input.pixels(), fold::places(&self.pool.window));
        let mut found = vec![0.0; inputs[0].len()];
        let channels = found.par_chunks_mut(pixels).zip(gradient.par_chunks(places));
        match self.best.get() {
            Some(best) => {
                channels.zip(best.par_chunks(places)).for_each(|((found, gradient), best)| {
                    for (gradient, best) in gradient.iter().zip(best) {
                        if *best != NOTHING {
                            found[*best as usize] += gradient;
                        }
                    }
                });
            }
            None => channels.for_each(|(found, gradient)| {
                for (gradient, seen) in gradient.iter().zip(self.pool.views()) {
                    let share = gradient / seen.clone().count().max(1) as f32;
                    seen.for_each(|pixel| found[pixel] += share);
                }
            }),
        }
        vec![found]
    }
}
