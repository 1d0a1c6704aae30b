//! A part of each picture: from an offset on, as large as is said or as another input is.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::column_sums::pick_columns;
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

/// Sides are channels, height and width.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Crop {
    /// Sides before this one stay whole.
    axis: usize,
    /// One for each side from `axis` on.
    offsets: Vec<usize>,
    /// The sides from `axis` on; absent where a second input says them.
    shape: Option<Vec<usize>>,
}

const SIDES: [&str; 3] = ["channels", "height", "width"];

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Crop>(layer)?))
}

impl Crop {
    /// Where the part begins, and its sides.
    fn part(&self, inputs: &[Shape]) -> Result<([usize; 3], Image)> {
        let image = Image::known(&inputs[0])?;
        let whole = [image.channels, image.height, image.width];
        let kept = SIDES.len().saturating_sub(self.axis);
        let wanted = match (&self.shape, inputs.get(1)) {
            (Some(shape), None) => shape.clone(),
            (None, Some(like)) => {
                let like = Image::known(like)?;
                [like.channels, like.height, like.width][SIDES.len() - kept..].to_vec()
            }
            _ => {
                return Err(Error::invalid(
                    "give either shape or a second input, whose size is taken",
                ));
            }
        };
        if kept == 0 || wanted.len() != kept || self.offsets.len() != kept {
            return Err(Error::invalid("needs an offset and a size for each side from axis on")
                .with("sides", kept)
                .with("offsets", self.offsets.len())
                .with("sizes", wanted.len()));
        }
        let (mut begin, mut sides) = ([0; 3], whole);
        for (side, (offset, size)) in (self.axis..).zip(self.offsets.iter().zip(wanted)) {
            if size == 0 || offset.checked_add(size).is_none_or(|end| end > whole[side]) {
                return Err(Error::invalid(format!(
                    "{size} of the {} from {offset} on are not in the picture, which has {}",
                    SIDES[side], whole[side]
                )));
            }
            (begin[side], sides[side]) = (*offset, size);
        }
        let [channels, height, width] = sides;
        Ok((begin, Image { channels, height, width }))
    }
}

impl Layer for Crop {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=2)?;
        expect_dense("the input", &inputs[0])?;
        let (_, part) = self.part(inputs)?;
        Ok(Plan::of(part.shape(&inputs[0])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = Image::known(&run.shapes[0])?;
        let (begin, part) = self.part(run.shapes)?;
        let columns = part.places().map(|place| {
            let [channel, y, x] = [0, 1, 2].map(|side| begin[side] + place[side]);
            Some(image.at(channel, y, x))
        });
        Ok(Argument::like(inputs[0], pick_columns(inputs[0].dense()?, columns)))
    }
}
