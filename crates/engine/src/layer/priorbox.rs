//! The prior boxes of SSD: around the middle of every pixel of a feature map, rectangles of some
//! sizes and proportions, in shares of the picture. They depend on sizes alone, so there is one row
//! of them for the whole batch.

use super::{Layer, Plan, Run, attributes, expect_inputs};
use crate::argument::{Argument, tensor};
use crate::detection::{PRIOR_NUMBERS, Rectangle};
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

/// Sizes are in pixels of the picture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriorBox {
    min_size: Vec<f64>,
    max_size: Vec<f64>,
    /// Width by height, each also the other way round.
    aspect_ratio: Vec<f64>,
    variance: [f32; 4],
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<PriorBox>(layer)?))
}

impl PriorBox {
    /// Width and height of the boxes of a pixel, in the original's order.
    fn sizes(&self) -> Vec<[f64; 2]> {
        let mut sizes = Vec::new();
        for least in &self.min_size {
            sizes.push([*least; 2]);
            // The original cuts these off to whole pixels, and trained models count on it.
            sizes.extend(self.max_size.iter().map(|most| [(least * most).sqrt().trunc(); 2]));
        }
        let last = self.min_size.last().copied().unwrap_or(0.0);
        let flipped = self.aspect_ratio.iter().map(|ratio| 1.0 / ratio);
        for ratio in self.aspect_ratio.iter().copied().chain(flipped) {
            if (ratio - 1.0).abs() >= 1e-6 {
                sizes.push([last * ratio.sqrt(), last / ratio.sqrt()]);
            }
        }
        sizes
    }
}

impl Layer for PriorBox {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        let map = Image::known(&inputs[0])?;
        Image::known(&inputs[1])?;
        if self.min_size.is_empty() {
            return Err(Error::invalid("min_size must have one size or more"));
        }
        if !self.max_size.is_empty() && self.max_size.len() != self.min_size.len() {
            return Err(Error::invalid("max_size must have as many sizes as min_size, or none")
                .with("min_size", self.min_size.len())
                .with("max_size", self.max_size.len()));
        }
        let mut all = self.min_size.iter().chain(&self.max_size).chain(&self.aspect_ratio);
        if let Some(number) = all.find(|number| number.is_nan() || **number <= 0.0) {
            return Err(
                Error::invalid("sizes and aspect ratios must be above 0").with("number", number)
            );
        }
        if let Some(number) = self.variance.iter().find(|number| number.is_nan() || **number <= 0.0)
        {
            return Err(Error::invalid("variance must be above 0").with("variance", number));
        }
        Ok(Plan::of(Shape::dense(map.pixels() * self.sizes().len() * PRIOR_NUMBERS)))
    }

    fn forward(&self, run: &Run<'_>, _inputs: &[&Argument]) -> Result<Argument> {
        let (map, picture) = (Image::known(&run.shapes[0])?, Image::known(&run.shapes[1])?);
        let (across, down) = (picture.width as f64, picture.height as f64);
        let sizes = self.sizes();
        let mut row = Vec::with_capacity(map.pixels() * sizes.len() * PRIOR_NUMBERS);
        for pixel in 0..map.pixels() {
            let x = ((pixel % map.width) as f64 + 0.5) * across / map.width as f64;
            let y = ((pixel / map.width) as f64 + 0.5) * down / map.height as f64;
            for [width, height] in &sizes {
                let sides = [
                    (x - width / 2.0) / across,
                    (y - height / 2.0) / down,
                    (x + width / 2.0) / across,
                    (y + height / 2.0) / down,
                ];
                row.extend(Rectangle::of(&sides.map(|side| side as f32)).clipped().numbers());
                row.extend(self.variance);
            }
        }
        let size = row.len();
        Ok(Argument::single(tensor(row, [1, size], run.device)))
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
