//! Precision, recall and F1 score: of `positive_label`, or the mean over all labels (macro) and
//! over all rows (micro).

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    positive_label: Option<usize>,
}

/// Weights of rows, of one label.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    right: f64,
    /// Rows that were taken for it.
    predicted: f64,
    /// Rows that are it.
    actual: f64,
}

struct PrecisionRecall {
    positive_label: Option<usize>,
    counts: Vec<Counts>,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    let Attributes { positive_label } = attributes(evaluator)?;
    Ok(Box::new(PrecisionRecall { positive_label, counts: Vec::new() }))
}

impl Counts {
    /// Precision, recall, F1 score. As in the original, a label that is never predicted has a
    /// precision of 1, and one that never occurs a recall of 1: nothing was done wrong.
    fn scores(self) -> [f64; 3] {
        let share = |whole: f64| if whole > 0.0 { self.right / whole } else { 1.0 };
        let (precision, recall) = (share(self.predicted), share(self.actual));
        [precision, recall, f1(precision, recall)]
    }
}

fn f1(precision: f64, recall: f64) -> f64 {
    let sum = precision + recall;
    if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 }
}

impl Evaluator for PrecisionRecall {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        super::expect_prediction_and_label(inputs)?;
        let labels = inputs[0].size.max(2);
        match self.positive_label {
            Some(label) if label >= labels => Err(Error::invalid(format!(
                "positive_label is {label} but the input has {labels} classes"
            ))),
            _ => Ok(()),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let scores = inputs[0].dense()?;
        let [rows, width] = scores.dims();
        let labels = super::labels(inputs[1], rows)?;
        let weights = super::weights(inputs.get(2).copied(), rows)?;
        self.counts.resize(width.max(2), Counts::default());
        for (row, scores) in numbers(scores).chunks_exact(width).enumerate() {
            let weight = weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
            let better = |best: usize, place: usize| {
                if scores[place] > scores[best] { place } else { best }
            };
            let predicted = match width {
                1 => usize::from(scores[0] > 0.5),
                _ => (0..width).reduce(better).unwrap_or(0),
            };
            let actual = labels[row];
            self.counts[predicted].predicted += weight;
            if let Some(counts) = self.counts.get_mut(actual) {
                counts.actual += weight;
                counts.right += if actual == predicted { weight } else { 0.0 };
            }
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        // Nothing was counted yet: figures of nothing are 0.
        let is_empty = self.counts.iter().all(|counts| counts.predicted == 0.0);
        let figures = self.figures().into_iter();
        figures.map(|(name, figure)| (name, if is_empty { 0.0 } else { figure })).collect()
    }

    fn clear(&mut self) {
        self.counts.fill(Counts::default());
    }
}

impl PrecisionRecall {
    fn figures(&self) -> Vec<(&'static str, f64)> {
        if let Some(label) = self.positive_label {
            let counts = self.counts.get(label).copied().unwrap_or_default();
            let [precision, recall, f1] = counts.scores();
            return vec![("precision", precision), ("recall", recall), ("F1-score", f1)];
        }
        let labels = self.counts.len().max(1) as f64;
        let mut sum = Counts::default();
        let (mut precision, mut recall) = (0.0, 0.0);
        for counts in &self.counts {
            let [own_precision, own_recall, _] = counts.scores();
            precision += own_precision / labels;
            recall += own_recall / labels;
            sum.right += counts.right;
            sum.predicted += counts.predicted;
            sum.actual += counts.actual;
        }
        let [micro_precision, micro_recall, micro_f1] = sum.scores();
        vec![
            ("macro-average-precision", precision),
            ("macro-average-recall", recall),
            ("macro-average-F1-score", f1(precision, recall)),
            ("micro-average-precision", micro_precision),
            ("micro-average-recall", micro_recall),
            ("micro-average-F1-score", micro_f1),
        ]
    }
}
