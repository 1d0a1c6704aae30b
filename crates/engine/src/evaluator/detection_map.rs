//! How well objects are found: the mean over classes of the average precision, in percent.
//!
//! Of the boxes of a class, best first, one is right if it overlaps an object of the class that no
//! better box has found. The average precision is that over the recall: at its eleven tenths, or
//! wherever it changes. A class that has objects counts also if none is found.

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::detection::{FOUND_NUMBERS, LABEL_NUMBERS, Rectangle, Truth};
use crate::shape::{self, Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    overlap_threshold: f32,
    background: usize,
    /// Whether objects that are difficult to see count too.
    evaluate_difficult: bool,
    ap_type: AveragePrecision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum AveragePrecision {
    /// The mean of the best precisions from recalls of 0, 0.1, …, 1 on.
    #[serde(rename = "11point")]
    ElevenPoints,
    /// The area under precision by recall.
    Integral,
}

struct DetectionMap {
    settings: Attributes,
    classes: BTreeMap<usize, Class>,
}

/// What was counted of a class.
#[derive(Default)]
struct Class {
    objects: usize,
    /// Scores of boxes, and whether they are right.
    boxes: Vec<(f32, bool)>,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    let settings: Attributes = attributes(evaluator)?;
    if !(0.0..=1.0).contains(&settings.overlap_threshold) {
        return Err(Error::invalid("overlap_threshold must be 0 to 1")
            .with("overlap_threshold", settings.overlap_threshold));
    }
    Ok(Box::new(DetectionMap { settings, classes: BTreeMap::new() }))
}

impl DetectionMap {
    /// Counts a picture.
    fn add_sample(&mut self, found: &[f32], truths: &[Truth]) {
        let counts = |truth: &Truth| self.settings.evaluate_difficult || !truth.is_difficult;
        for truth in truths.iter().filter(|truth| counts(truth)) {
            self.classes.entry(truth.class).or_default().objects += 1;
        }
        let mut boxes: Vec<&[f32]> = found.chunks_exact(FOUND_NUMBERS).collect();
        boxes.sort_by(|a, b| b[2].total_cmp(&a[2]));
        let mut is_found = vec![false; truths.len()];
        for row in boxes {
            let (class, score) = (row[1] as usize, row[2]);
            if class == self.settings.background {
                continue;
            }
            let rectangle = Rectangle::of(&row[3..]).clipped();
            let overlap = |place: &usize| truths[*place].rectangle.overlap(&rectangle);
            let same = (0..truths.len()).filter(|place| truths[*place].class == class);
            let best = same.max_by(|a, b| overlap(a).total_cmp(&overlap(b)));
            let best = best.filter(|best| overlap(best) > self.settings.overlap_threshold);
            let is_right = match best {
                // One that is difficult and does not count is neither right nor wrong.
                Some(best) if truths[best].is_difficult && !self.settings.evaluate_difficult => {
                    continue;
                }
                Some(best) => !std::mem::replace(&mut is_found[best], true),
                None => false,
            };
            self.classes.entry(class).or_default().boxes.push((score, is_right));
        }
    }

    /// The average precision of a class.
    fn precision(&self, class: &Class) -> f64 {
        let mut boxes = class.boxes.clone();
        boxes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut right = 0.0;
        let points: Vec<(f64, f64)> = boxes
            .iter()
            .enumerate()
            .map(|(place, (_, is_right))| {
                right += f64::from(u8::from(*is_right));
                (right / class.objects as f64, right / (place + 1) as f64)
            })
            .collect();
        match self.settings.ap_type {
            AveragePrecision::ElevenPoints => {
                let best_from = |tenths: u32| {
                    let from = f64::from(tenths) / 10.0;
                    let far = points.iter().filter(|(recall, _)| *recall >= from);
                    far.map(|(_, precision)| *precision).fold(0.0, f64::max)
                };
                (0..=10).map(best_from).sum::<f64>() / 11.0
            }
            AveragePrecision::Integral => {
                let mut before = 0.0;
                let mut area = 0.0;
                for (recall, precision) in points {
                    area += (recall - before) * precision;
                    before = recall;
                }
                area
            }
        }
    }
}

impl Evaluator for DetectionMap {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        let is_rows = |shape: &Shape, size: usize| {
            shape.value == shape::Value::Dense
                && shape.level == Level::Sequence
                && shape.size == size
        };
        match inputs {
            [found, label] if is_rows(found, FOUND_NUMBERS) && is_rows(label, LABEL_NUMBERS) => {
                Ok(())
            }
            _ => Err(Error::invalid(
                "takes the output of detection_output and a dense sequence of rows of class, left, \
                 top, right, bottom, difficult",
            )),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let (found, labels) = (numbers(inputs[0].dense()?), numbers(inputs[1].dense()?));
        let (own, other) = (inputs[0].offsets()?, inputs[1].offsets()?);
        if own.len() != other.len() {
            return Err(Error::invalid("input and label have different samples"));
        }
        for (found_rows, label_rows) in own.windows(2).zip(other.windows(2)) {
            let label = label_rows[0] * LABEL_NUMBERS..label_rows[1] * LABEL_NUMBERS;
            let truths = Truth::all(&labels[label])?;
            let range = found_rows[0] * FOUND_NUMBERS..found_rows[1] * FOUND_NUMBERS;
            self.add_sample(&found[range], &truths);
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        let with_objects: Vec<&Class> =
            self.classes.values().filter(|class| class.objects > 0).collect();
        let sum: f64 = with_objects.iter().map(|class| self.precision(class)).sum();
        vec![("", 100.0 * sum / with_objects.len().max(1) as f64)]
    }

    fn clear(&mut self) {
        self.classes.clear();
    }
}
