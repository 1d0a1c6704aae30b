//! A picture with zeros around it: before and after its channels, lines and columns.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::column_sums::pick_columns;
use crate::image::{Image, SIDE_MAX};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

/// Pairs are zeros before and after.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pad {
    channels: [usize; 2],
    height: [usize; 2],
    width: [usize; 2],
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Pad>(layer)?))
}

impl Pad {
    fn images(&self, input: &Shape) -> Result<[Image; 2]> {
        let image = Image::known(input)?;
        let all = [self.channels, self.height, self.width];
        if let Some(side) = all.iter().flatten().find(|side| **side > SIDE_MAX) {
            return Err(Error::invalid(format!("a side is padded by at most {SIDE_MAX}"))
                .with("padding", side));
        }
        let [channels, height, width] = all.map(|pair| pair[0] + pair[1]);
        let padded = Image {
            channels: image.channels + channels,
            height: image.height + height,
            width: image.width + width,
        };
        Ok([image, padded])
    }
}

impl Layer for Pad {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let [_, padded] = self.images(&inputs[0])?;
        Ok(Plan::of(padded.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let [image, padded] = self.images(&run.shapes[0])?;
        let from = |place: usize, before: usize, length: usize| {
            place.checked_sub(before).filter(|place| *place < length)
        };
        let columns = padded.places().map(|[channel, y, x]| {
            let channel = from(channel, self.channels[0], image.channels)?;
            let y = from(y, self.height[0], image.height)?;
            Some(image.at(channel, y, from(x, self.width[0], image.width)?))
        });
        Ok(Argument::like(inputs[0], pick_columns(inputs[0].dense()?, columns)))
    }
}
