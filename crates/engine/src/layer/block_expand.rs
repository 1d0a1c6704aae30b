//! A picture as a sequence: what a window sees at each of its places, line after line, is a row,
//! its channels one after the other. Pixels beyond the edge are 0.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_row};
use crate::argument::Argument;
use crate::column_sums::pick_columns;
use crate::image::{Axis, Image, Moves};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::Result;
use serde::Deserialize;

/// Pairs are the way down, then the way across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockExpand {
    block: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    channels: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<BlockExpand>(layer)?))
}

impl BlockExpand {
    fn window(&self, input: &Shape) -> Result<(Image, [Axis; 2])> {
        let image = Image::of(input, self.channels)?;
        let moves = |side: usize| Moves {
            window: self.block[side],
            stride: self.stride[side],
            padding: self.padding[side],
            dilation: 1,
            is_rounded_up: true,
        };
        Ok((image, [moves(0).along(image.height)?, moves(1).along(image.width)?]))
    }
}

/// The pixel of a side that a place's tap sees, if it is on the side.
fn seen(axis: &Axis, place: usize, tap: usize) -> Option<usize> {
    let pixel = (place * axis.stride + tap).checked_sub(axis.padding)?;
    (pixel < axis.length).then_some(pixel)
}

impl Layer for BlockExpand {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        expect_one_row(&inputs[0])?;
        let (image, window) = self.window(&inputs[0])?;
        let size = image.channels * window[0].window * window[1].window;
        Ok(Plan::of(Shape { level: Level::Sequence, ..Shape::dense(size) }))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let (image, [down, across]) = self.window(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let (samples, places) = (x.dims()[0], down.places * across.places);
        let (taps, size) =
            (down.window * across.window, image.channels * down.window * across.window);
        let columns = (0..places * size).map(|column| {
            let (place, channel, tap) = (column / size, column % size / taps, column % taps);
            let y = seen(&down, place / across.places, tap / across.window)?;
            let x = seen(&across, place % across.places, tap % across.window)?;
            Some(image.at(channel, y, x))
        });
        let rows = pick_columns(x, columns).reshape([samples * places, size]);
        let offsets = (0..=samples).map(|sample| sample * places).collect();
        Ok(Argument::sequence(rows, offsets))
    }
}
