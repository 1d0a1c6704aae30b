//! The objects that a network finds: for each sample a sequence of rows with the sample's number,
//! class, score, and left, top, right and bottom in shares of the picture.

use super::boxes::{expect_boxes, join, read_priors};
use super::{Layer, Plan, Run, attributes, expect_inputs};
use crate::argument::{Argument, numbers, tensor};
use crate::detection::matching::keep_apart;
use crate::detection::{FOUND_NUMBERS, Prior, Rectangle};
use crate::shape::{Level, Shape};
use crate::topology;
use burn::tensor::activation::softmax;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetectionOutput {
    classes: usize,
    background: usize,
    /// Of two boxes of a class that overlap by more, the one with the lower score is dropped.
    nms_threshold: f32,
    /// The best boxes of a class that are looked at.
    nms_top_k: usize,
    /// The best boxes of a sample that are kept.
    keep_top_k: usize,
    /// Boxes with lower scores are dropped.
    confidence_threshold: f32,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<DetectionOutput>(layer)?))
}

/// A box that was found.
struct Found {
    class: usize,
    score: f32,
    rectangle: Rectangle,
}

impl DetectionOutput {
    /// The objects of a sample, class by class, each class best first.
    fn find(&self, priors: &[Prior], locations: &[f32], scores: &[f32]) -> Vec<Found> {
        let pairs = priors.iter().zip(locations.chunks_exact(4));
        let boxes: Vec<Rectangle> = pairs.map(|(prior, answer)| prior.decode(answer)).collect();
        let mut all = Vec::new();
        for class in (0..self.classes).filter(|class| *class != self.background) {
            let score = |place: usize| scores[place * self.classes + class];
            let mut places: Vec<usize> =
                (0..boxes.len()).filter(|at| score(*at) > self.confidence_threshold).collect();
            places.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
            places.truncate(self.nms_top_k);
            let kept = keep_apart(&boxes, &places, self.nms_threshold).into_iter();
            all.extend(kept.map(|place| Found {
                class,
                score: score(place),
                rectangle: boxes[place].clipped(),
            }));
        }
        if all.len() > self.keep_top_k {
            all.sort_by(|a, b| b.score.total_cmp(&a.score));
            all.truncate(self.keep_top_k);
            all.sort_by_key(|found| found.class);
        }
        all
    }
}

impl Layer for DetectionOutput {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 3..=usize::MAX)?;
        expect_boxes(&inputs[0], &inputs[1..], self.classes, self.background)?;
        if self.nms_top_k == 0 || self.keep_top_k == 0 {
            return Err(Error::invalid("nms_top_k and keep_top_k must be 1 or more"));
        }
        Ok(Plan::of(Shape { level: Level::Sequence, ..Shape::dense(FOUND_NUMBERS) }))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let priors = read_priors(inputs[0])?;
        let [locations, scores] = join(run, inputs, 1)?;
        let samples = scores.dims()[0];
        let scores = softmax(scores.reshape([samples * priors.len(), self.classes]), 1);
        let (locations, scores) = (numbers(locations), numbers(scores));
        let (mut rows, mut offsets) = (Vec::new(), vec![0]);
        for sample in 0..samples {
            let locations = &locations[sample * priors.len() * 4..][..priors.len() * 4];
            let width = priors.len() * self.classes;
            for found in self.find(&priors, locations, &scores[sample * width..][..width]) {
                rows.extend([sample as f32, found.class as f32, found.score]);
                rows.extend(found.rectangle.numbers());
            }
            offsets.push(rows.len() / FOUND_NUMBERS);
        }
        let count = rows.len() / FOUND_NUMBERS;
        Ok(Argument::sequence(tensor(rows, [count, FOUND_NUMBERS], run.device), offsets))
    }

    /// The number of a sample is that in the whole batch.
    fn is_sample_by_sample(&self) -> bool {
        false
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
