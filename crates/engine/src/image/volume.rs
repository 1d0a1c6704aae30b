//! Three-dimensional pictures in rows: channel after channel, each plane after plane. What windows
//! do with them is composed of what they do with the planes.

use super::convolution::Convolution;
use super::pooling::{Pool, Pooling};
use super::{Axis, Image};
use crate::column_sums::{column_sums, pick_columns};
use crate::row_sums::RowLists;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};

/// A three-dimensional picture in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) channels: usize,
    pub(crate) depth: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Volume {
    /// The picture that a layer gives.
    pub(crate) fn of(shape: &Shape, channels: Option<usize>) -> Result<Volume> {
        let Some((height, width)) = shape.frame else {
            return Err(Error::invalid(format!(
                "the input of size {} is not known to be a three-dimensional picture; give its \
                 data layer depth, height and width",
                shape.size
            )));
        };
        let depth = shape.depth.unwrap_or(1);
        let found = shape.size / (depth * height * width);
        match channels {
            Some(said) if said != found => Err(Error::invalid(format!(
                "the input has {found} channels of {depth} x {height} x {width} but num_channels \
                 is {said}; leave num_channels out, or make it {found}"
            ))),
            _ => Ok(Volume { channels: found, depth, height, width }),
        }
    }

    /// Numbers in a plane of a channel.
    fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Numbers in the row.
    pub(crate) fn size(&self) -> usize {
        self.channels * self.depth * self.pixels()
    }

    /// The output of a layer that takes rows of `input` and gives such pictures.
    pub(crate) fn shape(&self, input: &Shape) -> Shape {
        let frame = Some((self.height, self.width));
        Shape { frame, depth: Some(self.depth), ..input.with_size(self.size()) }
    }
}

/// A convolution of three-dimensional pictures: what a window sees through the planes counts as
/// channels of a flat picture.
pub(crate) struct DeepConvolution {
    pub(crate) input: Volume,
    pub(crate) output: Volume,
    /// The way of the window through the planes.
    pub(crate) through: Axis,
    /// From a plane's channels, or to them, times the planes of the window.
    pub(crate) flat: Convolution,
}

impl DeepConvolution {
    /// As [`Convolution::apply`].
    pub(crate) fn apply(&self, x: Tensor<2>, weight: Tensor<2>, bias: Tensor<2>) -> Tensor<2> {
        let rows = x.dims()[0];
        let none = Tensor::zeros([1, self.flat.output().channels], &x.device());
        let y = match self.flat.is_transposed {
            false => {
                let planes = self.flat.apply(self.unfold(x), weight, none);
                planes_last(planes, rows, self.output)
            }
            true => {
                let planes = self.flat.apply(planes_first(x, self.input), weight, none);
                self.fold(planes, rows)
            }
        };
        let channels = self.output.channels;
        let y: Tensor<3> = y.reshape([rows, channels, self.output.size() / channels]);
        (y + bias.reshape([1, channels, 1])).reshape([rows, self.output.size()])
    }

    /// A row for each place of the window: every channel, as the window's planes.
    fn unfold(&self, x: Tensor<2>) -> Tensor<2> {
        let (input, axis, rows) = (self.input, self.through, x.dims()[0]);
        let (taps, pixels) = (axis.window, input.pixels());
        let width = input.channels * taps * pixels;
        let columns = (0..axis.places * width).map(|column| {
            let (place, rest) = (column / width, column % width);
            let (channel, tap) = (rest / (taps * pixels), rest / pixels % taps);
            let plane = (place * axis.stride + tap).checked_sub(axis.padding)?;
            let plane = (plane < axis.length).then_some(plane)?;
            Some((channel * input.depth + plane) * pixels + rest % pixels)
        });
        pick_columns(x, columns).reshape([rows * axis.places, width])
    }

    /// Adds up the planes that windows at all places give.
    fn fold(&self, planes: Tensor<2>, rows: usize) -> Tensor<2> {
        let (output, axis) = (self.output, self.through);
        let pixels = output.pixels();
        let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
        for column in 0..output.size() {
            let (channel, plane) =
                (column / (output.depth * pixels), column / pixels % output.depth);
            for place in 0..axis.places {
                let tap = (plane + axis.padding).checked_sub(place * axis.stride);
                if let Some(tap) = tap.filter(|tap| *tap < axis.window) {
                    let from = (place * output.channels + channel) * axis.window + tap;
                    lists.rows.push((from * pixels + column % pixels) as u32);
                }
            }
            lists.offsets.push(lists.rows.len());
        }
        let width = axis.places * output.channels * axis.window * pixels;
        column_sums(planes.reshape([rows, width]), lists)
    }
}

/// A row for each plane.
fn planes_first(x: Tensor<2>, volume: Volume) -> Tensor<2> {
    let Volume { channels, depth, .. } = volume;
    let rows = x.dims()[0];
    let x: Tensor<4> = x.reshape([rows, channels, depth, volume.pixels()]);
    x.swap_dims(1, 2).reshape([rows * depth, channels * volume.pixels()])
}

/// The way back.
fn planes_last(planes: Tensor<2>, rows: usize, volume: Volume) -> Tensor<2> {
    let Volume { channels, depth, .. } = volume;
    let planes: Tensor<4> = planes.reshape([rows, depth, channels, volume.pixels()]);
    planes.swap_dims(1, 2).reshape([rows, volume.size()])
}

/// Pooling of three-dimensional pictures: within each plane, then through the planes. Means of
/// means are right because all planes of a window see as many pixels.
pub(crate) struct DeepPool {
    pub(crate) input: Volume,
    /// Through the planes, down, across.
    pub(crate) window: [Axis; 3],
    pub(crate) pooling: Pooling,
}

impl DeepPool {
    pub(crate) fn output(&self) -> Volume {
        let [depth, height, width] = self.window.map(|axis| axis.places);
        Volume { channels: self.input.channels, depth, height, width }
    }

    pub(crate) fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        let Volume { channels, depth, height, width } = self.input;
        let [through, down, across] = self.window;
        let planes = Image { channels: channels * depth, height, width };
        let within = Pool { input: planes, window: [down, across], pooling: self.pooling };
        let places = down.places * across.places;
        let stack = Image { channels, height: depth, width: places };
        let along = Axis { length: places, window: 1, stride: 1, padding: 0, dilation: 1, places };
        let through = Pool { input: stack, window: [through, along], pooling: self.pooling };
        through.apply(within.apply(x))
    }
}
