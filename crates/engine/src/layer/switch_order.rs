//! Pictures with their channels last: a row of channel after channel becomes one of pixel after
//! pixel. Of one picture several rows can be made, one for each line or for each pixel.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_row};
use crate::argument::Argument;
use crate::column_sums::pick_columns;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchOrder {
    /// 1: a row for each picture; 2: for each line; 3: for each pixel.
    reshape_axis: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SwitchOrder>(layer)?))
}

impl SwitchOrder {
    fn size(&self, image: &Image) -> Result<usize> {
        match self.reshape_axis {
            1 => Ok(image.size()),
            2 => Ok(image.width * image.channels),
            3 => Ok(image.channels),
            axis => {
                Err(Error::invalid("reshape_axis must be 1, 2 or 3").with("reshape_axis", axis))
            }
        }
    }
}

impl Layer for SwitchOrder {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        expect_one_row(&inputs[0])?;
        Ok(Plan::of(Shape::dense(self.size(&Image::known(&inputs[0])?)?)))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = Image::known(&run.shapes[0])?;
        let columns = (0..image.size()).map(|column| {
            let (pixel, channel) = (column / image.channels, column % image.channels);
            Some(channel * image.pixels() + pixel)
        });
        let switched = pick_columns(inputs[0].dense()?, columns);
        let (numbers, size) = (switched.dims()[0] * image.size(), self.size(&image)?);
        Ok(Argument::single(switched.reshape([numbers / size, size])))
    }
}
