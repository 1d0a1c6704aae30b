//! The loss of SSD, divided by the number of boxes that answer for an object in the batch. Every
//! sample shows the loss of the whole batch, whose gradient counts once.

use super::super::boxes::{expect_boxes, join, read_priors};
use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_sequence,
};
use crate::argument::{Argument, numbers};
use crate::detection::loss::MultiBoxLoss;
use crate::detection::{LABEL_NUMBERS, Truth};
use crate::fused;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MultiBox {
    classes: usize,
    background: usize,
    overlap_threshold: f32,
    negative_overlap: f32,
    negatives: f32,
    #[serde(default = "super::one")]
    coeff: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<MultiBox>(layer)?))
}

impl MultiBox {
    /// The objects of each sample.
    fn truths(&self, label: &Argument) -> Result<Vec<Vec<Truth>>> {
        let rows = numbers(label.dense()?);
        let samples = label.offsets()?.windows(2).enumerate();
        samples
            .map(|(sample, pair)| {
                let rows = &rows[pair[0] * LABEL_NUMBERS..pair[1] * LABEL_NUMBERS];
                let truths = Truth::all(rows).map_err(|error| error.with("sample", sample))?;
                match truths.iter().find(|truth| truth.class >= self.classes) {
                    None => Ok(truths),
                    Some(truth) => Err(Error::invalid(format!(
                        "an object has class {} but num_classes is {}",
                        truth.class, self.classes
                    ))
                    .with("sample", sample)),
                }
            })
            .collect()
    }
}

impl Layer for MultiBox {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 4..=usize::MAX)?;
        let label = &inputs[1];
        expect_dense("the label", label)?;
        expect_one_sequence(label)?;
        if label.size != LABEL_NUMBERS {
            return Err(Error::invalid(format!(
                "the label has a row of {LABEL_NUMBERS} numbers for each object (class, left, top, \
                 right, bottom, difficult) but is {label}"
            )));
        }
        expect_boxes(&inputs[0], &inputs[2..], self.classes, self.background)?;
        let numbers = [self.overlap_threshold, self.negative_overlap, self.negatives];
        if numbers.iter().any(|number| number.is_nan() || *number < 0.0) {
            return Err(Error::invalid("thresholds and neg_pos_ratio must be 0 or more"));
        }
        Ok(Plan::of(Shape::dense(1)))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let [locations, scores] = join(run, inputs, 2)?;
        let truths = self.truths(inputs[1])?;
        if truths.len() != scores.dims()[0] {
            return Err(Error::invalid("needs a sequence of labels for each sample"));
        }
        let loss = MultiBoxLoss {
            priors: read_priors(inputs[0])?,
            truths,
            classes: self.classes,
            background: self.background,
            overlap_threshold: self.overlap_threshold,
            negative_overlap: self.negative_overlap,
            negatives: self.negatives,
        };
        Ok(Argument::single(fused::apply_saving(loss, vec![locations, scores], 1)))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }

    fn is_sample_by_sample(&self) -> bool {
        false
    }
}
