//! The area under the ROC curve: how probably a row labelled 1 scores above one labelled 0.
//!
//! Scores, which are probabilities, are counted in bins, so that memory stays the same however
//! many rows there are; rows of one bin count as ties.

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

const BINS: usize = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

struct Auc {
    /// Weight of the rows labelled 0 and 1, by score.
    counts: Vec<[f64; 2]>,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(Auc { counts: Vec::new() }))
}

impl Evaluator for Auc {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        super::expect_prediction_and_label(inputs)
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let scores = inputs[0].dense()?;
        let [rows, width] = scores.dims();
        let labels = super::labels(inputs[1], rows)?;
        let weights = super::weights(inputs.get(2).copied(), rows)?;
        self.counts.resize(BINS, [0.0; 2]);
        // The last column is the probability of 1, be it the only one or the second of two.
        for (row, scores) in numbers(scores).chunks_exact(width).enumerate() {
            let score = f64::from(scores[width - 1]).clamp(0.0, 1.0);
            let bin = (score * (BINS - 1) as f64).round() as usize;
            let weight = weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
            self.counts[bin][usize::from(labels[row] != 0)] += weight;
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        let mut below = 0.0;
        let mut area = 0.0;
        let mut totals = [0.0; 2];
        for [zeros, ones] in &self.counts {
            area += ones * (below + zeros / 2.0);
            below += zeros;
            totals[0] += zeros;
            totals[1] += ones;
        }
        let pairs = totals[0] * totals[1];
        // Without both labels there is nothing to tell apart; the original says 0 then.
        vec![("", if pairs > 0.0 { area / pairs } else { 0.0 })]
    }

    fn clear(&mut self) {
        self.counts.fill([0.0; 2]);
    }
}
