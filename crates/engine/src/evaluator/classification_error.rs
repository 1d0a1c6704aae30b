//! The share of rows whose label is not among the best `top_k` columns; a single column is
//! compared with `threshold` instead.

use super::{Evaluator, attributes};
use crate::argument::{Argument, look_at};
use crate::shape::Shape;
use crate::topology;
use crate::vector::widely;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    #[serde(default = "one")]
    top_k: usize,
    #[serde(default = "half")]
    threshold: f32,
}

fn one() -> usize {
    1
}

fn half() -> f32 {
    0.5
}

struct ClassificationError {
    attributes: Attributes,
    wrong: f64,
    rows: f64,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    let attributes: Attributes = attributes(evaluator)?;
    if attributes.top_k == 0 {
        return Err(Error::invalid("top_k must be 1 or more"));
    }
    Ok(Box::new(ClassificationError { attributes, wrong: 0.0, rows: 0.0 }))
}

impl Evaluator for ClassificationError {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        super::expect_prediction_and_label(inputs)?;
        if self.attributes.top_k > inputs[0].size {
            return Err(Error::invalid(format!(
                "top_k is {} but the input has only {} columns",
                self.attributes.top_k, inputs[0].size
            )));
        }
        Ok(())
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let scores = inputs[0].dense()?;
        let [rows, width] = scores.dims();
        let labels = super::labels(inputs[1], rows)?;
        let weights = super::weights(inputs.get(2).copied(), rows)?;
        look_at(scores, |scores| {
            for (row, scores) in scores.chunks_exact(width).enumerate() {
                let weight = weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
                self.wrong += if self.is_right(scores, labels[row]) { 0.0 } else { weight };
                self.rows += weight;
            }
        });
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        vec![("", if self.rows > 0.0 { self.wrong / self.rows } else { 0.0 })]
    }

    fn clear(&mut self) {
        (self.wrong, self.rows) = (0.0, 0.0);
    }
}

impl ClassificationError {
    fn is_right(&self, scores: &[f32], label: usize) -> bool {
        if let [score] = scores {
            return (*score > self.attributes.threshold) == (label != 0);
        }
        // Neither a label without a column nor a score that is no number is right.
        let own = scores.get(label).copied().filter(|score| !score.is_nan());
        own.is_some_and(|own| {
            let better = count(scores, |score| score > own);
            let as_good_before = count(&scores[..label], |score| score == own);
            better + as_good_before < self.attributes.top_k
        })
    }
}

/// How many scores are such.
fn count(scores: &[f32], is_such: impl Fn(f32) -> bool) -> usize {
    widely(
        #[inline(always)]
        || scores.iter().map(|score| u32::from(is_such(*score))).sum::<u32>() as usize,
    )
}
