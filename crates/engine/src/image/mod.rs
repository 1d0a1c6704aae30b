//! Pictures in rows: channel after channel, each line after line. What layers over pictures do with
//! slices is here; what they are in a network is in `layer`.

pub(crate) mod convolution;
pub(crate) mod normalization;
pub(crate) mod pooling;
pub(crate) mod volume;

#[cfg(test)]
mod agreement;
mod columns;
mod direct;
mod fold;

use crate::shape::Shape;
use contract::{Error, Result};

/// A picture in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Image {
    /// The picture that a layer gives. Without a height and width it is square, and the number of
    /// channels must be said.
    pub(crate) fn of(shape: &Shape, channels: Option<usize>) -> Result<Image> {
        let size = shape.size;
        if let Some(depth) = shape.depth.filter(|depth| *depth > 1) {
            return Err(Error::invalid(format!(
                "the input has pictures of {depth} planes; use the layers for three dimensions, \
                 img_conv3d and img_pool3d"
            )));
        }
        if let Some((height, width)) = shape.frame {
            let found = size / (height * width);
            return match channels {
                Some(channels) if channels != found => Err(Error::invalid(format!(
                    "the input has {found} channels of {height} x {width} but num_channels is \
                     {channels}; leave num_channels out, or make it {found}"
                ))),
                _ => Ok(Image { channels: found, height, width }),
            };
        }
        let Some(channels) = channels else {
            return Err(Error::invalid(format!(
                "the input of size {size} is not known to be a picture; say num_channels, or give \
                 its data layer height and width"
            )));
        };
        let side = size.checked_div(channels).unwrap_or(0).isqrt();
        if side == 0 || channels * side * side != size {
            return Err(Error::invalid(format!(
                "the input of size {size} is not {channels} square channels; correct num_channels, \
                 or give its data layer height and width"
            )));
        }
        Ok(Image { channels, height: side, width: side })
    }

    /// The picture that a layer gives, whose height and width must be known.
    pub(crate) fn known(shape: &Shape) -> Result<Image> {
        if shape.frame.is_some() {
            return Image::of(shape, None);
        }
        Err(Error::invalid(format!(
            "the input of size {} is not known to be a picture; give its data layer height and \
             width, or take the output of a layer over pictures",
            shape.size
        )))
    }

    /// Where a pixel of a channel is in the row.
    pub(crate) fn at(&self, channel: usize, y: usize, x: usize) -> usize {
        (channel * self.height + y) * self.width + x
    }

    /// Channel, line and column of each number of the row.
    pub(crate) fn places(self) -> impl Iterator<Item = [usize; 3]> {
        (0..self.size()).map(move |place| {
            let (channel, pixel) = (place / self.pixels(), place % self.pixels());
            [channel, pixel / self.width, pixel % self.width]
        })
    }

    /// Numbers in a channel.
    pub(crate) fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Numbers in the row.
    pub(crate) fn size(&self) -> usize {
        self.channels * self.pixels()
    }

    /// The output of a layer that takes rows of `input` and gives such pictures.
    pub(crate) fn shape(&self, input: &Shape) -> Shape {
        Shape { frame: Some((self.height, self.width)), ..input.with_size(self.size()) }
    }
}

/// A window that moves along one side of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    /// The length of the side that it moves along.
    pub(crate) length: usize,
    /// Pixels in the window.
    pub(crate) window: usize,
    pub(crate) stride: usize,
    /// Pixels beyond each end, which count nothing.
    pub(crate) padding: usize,
    /// The distance between pixels of the window.
    pub(crate) dilation: usize,
    /// The number of places where it stops.
    pub(crate) places: usize,
}

/// How a window moves, as users say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    pub(crate) window: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    /// Whether a last window may reach beyond the padding.
    pub(crate) is_rounded_up: bool,
}

impl Moves {
    /// The way of the window along a side of `length` pixels.
    pub(crate) fn along(self, length: usize) -> Result<Axis> {
        let reach = self.check()?;
        let Moves { window, stride, padding, dilation, .. } = self;
        let room = (length + 2 * padding).checked_sub(reach).ok_or_else(|| {
            Error::invalid(format!(
                "a window of {reach} pixels does not fit a side of {length} with {padding} pixels \
                 of padding at each end"
            ))
        })?;
        let steps = if self.is_rounded_up { room.div_ceil(stride) } else { room / stride };
        Ok(Axis { length, window, stride, padding, dilation, places: steps + 1 })
    }

    /// The way along the side on which the window stops at so many places.
    pub(crate) fn stopping(self, places: usize) -> Result<Axis> {
        let reach = self.check()?;
        let Moves { window, stride, padding, dilation, .. } = self;
        let length = ((places - 1) * stride + reach).checked_sub(2 * padding);
        let length = length.filter(|length| *length > 0).ok_or_else(|| {
            Error::invalid(format!(
                "a side of {places} pixels would become one of none with {padding} pixels of \
                 padding taken away at each end"
            ))
        })?;
        Ok(Axis { length, window, stride, padding, dilation, places })
    }

    /// The pixels from the window's first to its last.
    fn check(&self) -> Result<usize> {
        let Moves { window, stride, padding, dilation, .. } = *self;
        for (what, value) in [("window", window), ("stride", stride), ("dilation", dilation)] {
            if value == 0 || value > SIDE_MAX {
                return Err(Error::invalid(format!("the {what} must be 1 to {SIDE_MAX} pixels"))
                    .with(what, value));
            }
        }
        if padding > SIDE_MAX {
            return Err(Error::invalid(format!("the padding must be at most {SIDE_MAX} pixels"))
                .with("padding", padding));
        }
        Ok((window - 1) * dilation + 1)
    }
}

/// The most pixels of a window, of its steps and of the padding: products of them are far from
/// overflowing.
pub(crate) const SIDE_MAX: usize = 1 << 16;

impl Axis {
    /// The pixels that the window sees at a place.
    pub(crate) fn seen(&self, place: usize) -> std::ops::Range<usize> {
        let begin = place * self.stride;
        let end = (begin + self.window).saturating_sub(self.padding).min(self.length);
        let begin = begin.saturating_sub(self.padding);
        begin.min(end)..end
    }

    /// The places from which the window's pixel `tap` is on the picture, and the pixel that the
    /// first of them sees.
    pub(crate) fn reach(&self, tap: usize) -> (std::ops::Range<usize>, usize) {
        let offset = tap * self.dilation;
        let first = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.length + self.padding).saturating_sub(offset).div_ceil(self.stride);
        let end = end.min(self.places);
        if first >= end {
            return (0..0, 0);
        }
        (first..end, first * self.stride + offset - self.padding)
    }
}

/// Sums that are made side by side, so that the processor can add many numbers at once.
const LANES: usize = 16;

#[inline(always)]
fn sum(numbers: &[f32]) -> f32 {
    sum_of(numbers, |number| number)
}

/// The sum of a function of numbers.
#[inline(always)]
fn sum_of(numbers: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (many, rest) = numbers.as_chunks::<LANES>();
    for numbers in many {
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += of(*number));
    }
    sums.iter().sum::<f32>() + rest.iter().map(|number| of(*number)).sum::<f32>()
}

/// The sums of two functions of pairs of numbers.
#[inline(always)]
fn sums_of_two(a: &[f32], b: &[f32], of: impl Fn(f32, f32) -> [f32; 2]) -> [f32; 2] {
    let mut sums = [[0.0_f32; LANES]; 2];
    let ((many_a, rest_a), (many_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in many_a.iter().zip(many_b) {
        for lane in 0..LANES {
            let [first, second] = of(a[lane], b[lane]);
            sums[0][lane] += first;
            sums[1][lane] += second;
        }
    }
    let mut found = sums.map(|sums| sums.iter().sum::<f32>());
    for (a, b) in rest_a.iter().zip(rest_b) {
        found.iter_mut().zip(of(*a, *b)).for_each(|(sum, number)| *sum += number);
    }
    found
}
