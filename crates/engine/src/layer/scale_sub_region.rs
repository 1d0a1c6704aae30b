//! Pictures of which a part is multiplied by a number. The second input says which part: a row of
//! six numbers, the first and last channel, line and column, counted from 1 as in the original.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
};
use crate::argument::{Argument, numbers, tensor};
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScaleSubRegion {
    value: f32,
}

/// Numbers that name a part.
const ENDS: usize = 6;

const SIDES: [&str; 3] = ["channels", "lines", "columns"];

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<ScaleSubRegion>(layer)?))
}

/// Whether a place, counted from 0, is in the part that the row names.
fn is_inside(row: &[f32], place: [usize; 3]) -> bool {
    let mut ends = row.chunks_exact(2).zip(place);
    ends.all(|(ends, at)| (ends[0]..=ends[1]).contains(&((at + 1) as f32)))
}

/// Checks that a row names a part of the picture.
fn check(row: &[f32], image: Image) -> Result<()> {
    let lengths = [image.channels, image.height, image.width];
    for ((ends, length), side) in row.chunks_exact(2).zip(lengths).zip(SIDES) {
        let (first, last) = (ends[0], ends[1]);
        let is_whole = first.fract() == 0.0 && last.fract() == 0.0;
        if !is_whole || first < 1.0 || first > last || last > length as f32 {
            return Err(Error::invalid(format!(
                "the {side} from {first} to {last} are not in the picture, which has 1 to {length}"
            )));
        }
    }
    Ok(())
}

impl Layer for ScaleSubRegion {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_dense("the input", &inputs[0])?;
        expect_dense("indices", &inputs[1])?;
        if inputs[1].size != ENDS {
            return Err(Error::invalid(format!(
                "indices has the first and last channel, line and column, {ENDS} numbers, but is {}",
                inputs[1]
            )));
        }
        if !self.value.is_finite() {
            return Err(Error::invalid("value must be a finite number").with("value", self.value));
        }
        Ok(Plan::of(Image::known(&inputs[0])?.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let image = Image::known(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let mut factors = Vec::with_capacity(x.dims()[0] * image.size());
        for row in numbers(inputs[1].dense()?).chunks_exact(ENDS) {
            check(row, image)?;
            let factor = |place| if is_inside(row, place) { self.value } else { 1.0 };
            factors.extend(image.places().map(factor));
        }
        let factors = tensor(factors, x.dims(), &x.device());
        Ok(Argument::like(inputs[0], x * factors))
    }
}
