//! Each channel of a picture turned by 90 degrees clockwise.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::column_sums::pick_columns;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    height: usize,
    width: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Rotate>(layer)?))
}

impl Rotate {
    fn image(&self, input: &Shape) -> Result<Image> {
        let Rotate { height, width } = *self;
        let pixels = height.checked_mul(width).filter(|pixels| *pixels > 0);
        let channels = pixels.filter(|pixels| input.size.is_multiple_of(*pixels));
        let channels = channels.map(|pixels| input.size / pixels).ok_or_else(|| {
            Error::invalid(format!(
                "height {height} times width {width} does not divide the size of the input, {}",
                input.size
            ))
        })?;
        Ok(Image { channels, height, width })
    }
}

impl Layer for Rotate {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let image = self.image(&inputs[0])?;
        let turned = Image { height: image.width, width: image.height, ..image };
        Ok(Plan::of(turned.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = self.image(&run.shapes[0])?;
        let turned = Image { height: image.width, width: image.height, ..image };
        // The first column, read upwards, becomes the first line.
        let columns =
            turned.places().map(|[channel, y, x]| Some(image.at(channel, image.height - 1 - x, y)));
        Ok(Argument::like(inputs[0], pick_columns(inputs[0].dense()?, columns)))
    }
}
