//! Of regions of pictures, each cut into the same number of cells, the largest pixel of each cell
//! and channel. A region is a row: the number of its sample, then left, top, right and bottom in
//! pixels of the original picture.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_row};
use crate::argument::{Argument, numbers};
use crate::fused::{self, Operation};
use crate::image::Image;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::ops::Range;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoiPool {
    height: usize,
    width: usize,
    /// Pixels of the feature map for each of the picture.
    spatial_scale: f32,
    channels: Option<usize>,
}

/// Numbers of a region that are used.
const REGION_NUMBERS: usize = 5;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<RoiPool>(layer)?))
}

impl RoiPool {
    fn regions(&self, rois: &Argument, samples: usize) -> Result<Vec<Region>> {
        let rois = rois.dense()?;
        let [_, width] = rois.dims();
        let region = |row: &[f32]| {
            let sample = row[0];
            if !(0.0..samples as f32).contains(&sample) || sample.fract() != 0.0 {
                return Err(Error::invalid(format!(
                    "a region's first number is its sample, 0 to {}, but is {sample}",
                    samples.saturating_sub(1)
                )));
            }
            if row[1..REGION_NUMBERS].iter().any(|side| !side.is_finite()) {
                return Err(Error::invalid("the sides of a region must be finite numbers"));
            }
            let side = |place: usize| (row[place] * self.spatial_scale).round() as i64;
            let [left, top, right, bottom] = [1, 2, 3, 4].map(side);
            Ok(Region { sample: sample as usize, across: [left, right], down: [top, bottom] })
        };
        numbers(rois).chunks_exact(width).map(region).collect()
    }
}

impl Layer for RoiPool {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        expect_one_row(&inputs[0])?;
        expect_dense("rois", &inputs[1])?;
        if inputs[1].size < REGION_NUMBERS {
            return Err(Error::invalid(format!(
                "rois has a row of sample, left, top, right, bottom for each region but is {}",
                inputs[1]
            )));
        }
        if self.height == 0 || self.width == 0 {
            return Err(Error::invalid("pooled_height and pooled_width must be 1 or more"));
        }
        if self.spatial_scale.is_nan() || self.spatial_scale <= 0.0 {
            return Err(Error::invalid("spatial_scale must be above 0"));
        }
        let image = Image::of(&inputs[0], self.channels)?;
        let pooled = Image { height: self.height, width: self.width, ..image };
        Ok(Plan::of(pooled.shape(&inputs[1])))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let image = Image::of(&run.shapes[0], self.channels)?;
        let pooled = Image { height: self.height, width: self.width, ..image };
        let x = inputs[0].dense()?;
        let regions = self.regions(inputs[1], x.dims()[0])?;
        let pool = RegionPool { image, pooled, regions };
        Ok(Argument::like(inputs[1], fused::apply_saving(pool, vec![x], pooled.size())))
    }

    /// Regions name samples of the whole batch.
    fn is_sample_by_sample(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Region {
    sample: usize,
    /// The first and the last pixel each way, which may lie outside.
    across: [i64; 2],
    down: [i64; 2],
}

#[derive(Debug)]
struct RegionPool {
    image: Image,
    pooled: Image,
    regions: Vec<Region>,
}

/// The pixels of cell `cell` of `cells` between two pixels of a side.
fn pixels(ends: [i64; 2], cell: usize, cells: usize, length: usize) -> Range<usize> {
    let reach = (ends[1].saturating_sub(ends[0]).saturating_add(1)).max(1) as f64;
    let size = reach / cells as f64;
    let at = |offset: f64| (offset as i64).saturating_add(ends[0]).clamp(0, length as i64) as usize;
    at((cell as f64 * size).floor())..at(((cell + 1) as f64 * size).ceil())
}

/// A cell that sees no pixel.
const NOTHING: u32 = u32::MAX;

impl Operation for RegionPool {
    /// For each number of the output, the place of its pixel in the input.
    type Saved = Vec<u32>;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Vec<u32>) {
        let RegionPool { image, pooled, regions } = self;
        let mut output = Vec::with_capacity(regions.len() * pooled.size());
        let mut best = Vec::with_capacity(regions.len() * pooled.size());
        for region in regions {
            for [channel, line, stop] in pooled.places() {
                let mut found = NOTHING;
                for y in pixels(region.down, line, pooled.height, image.height) {
                    for x in pixels(region.across, stop, pooled.width, image.width) {
                        let place = region.sample * image.size() + image.at(channel, y, x);
                        if found == NOTHING || inputs[0][place] > inputs[0][found as usize] {
                            found = place as u32;
                        }
                    }
                }
                output.push(if found == NOTHING { 0.0 } else { inputs[0][found as usize] });
                best.push(found);
            }
        }
        (output, best)
    }

    fn backward(&self, inputs: &[&[f32]], best: &Vec<u32>, gradient: &[f32]) -> Vec<Vec<f32>> {
        let mut found = vec![0.0; inputs[0].len()];
        for (place, gradient) in best.iter().zip(gradient).filter(|(place, _)| **place != NOTHING) {
            found[*place as usize] += gradient;
        }
        vec![found]
    }
}
