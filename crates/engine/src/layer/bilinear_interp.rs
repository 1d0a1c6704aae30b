//! Pictures of another height and width, whose pixels are blended from the four nearest ones. The
//! corners stay the corners.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::column_sums::column_sums;
use crate::image::Image;
use crate::row_sums::RowLists;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BilinearInterpolation {
    height: usize,
    width: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<BilinearInterpolation>(layer)?))
}

/// The pixels of a side that pixel `place` of one of `to` pixels is blended from, with their
/// shares.
fn blend(place: usize, to: usize, from: usize) -> [(usize, f64); 2] {
    let ratio = if to > 1 { (from - 1) as f64 / (to - 1) as f64 } else { 0.0 };
    let exact = ratio * place as f64;
    let first = (exact as usize).min(from - 1);
    let share = exact - first as f64;
    [(first, 1.0 - share), ((first + 1).min(from - 1), share)]
}

impl BilinearInterpolation {
    fn lists(&self, image: &Image) -> RowLists {
        let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
        let mut weights = Vec::new();
        for pixel in 0..self.height * self.width {
            for (y, down) in blend(pixel / self.width, self.height, image.height) {
                for (x, across) in blend(pixel % self.width, self.width, image.width) {
                    if down * across > 0.0 {
                        lists.rows.push((y * image.width + x) as u32);
                        weights.push((down * across) as f32);
                    }
                }
            }
            lists.offsets.push(lists.rows.len());
        }
        RowLists { weights: Some(weights), ..lists }
    }
}

impl Layer for BilinearInterpolation {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let BilinearInterpolation { height, width } = *self;
        if height == 0 || width == 0 {
            return Err(Error::invalid("out_size_x and out_size_y must be 1 or more"));
        }
        let image = Image { height, width, ..Image::known(&inputs[0])? };
        Ok(Plan::of(image.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = Image::known(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let rows = x.dims()[0];
        let channels = x.reshape([rows * image.channels, image.pixels()]);
        let blended = column_sums(channels, self.lists(&image));
        let size = image.channels * self.height * self.width;
        Ok(Argument::like(inputs[0], blended.reshape([rows, size])))
    }
}
