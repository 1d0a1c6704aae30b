//! Connectionist temporal classification: the probability that rows, each showing a label or the
//! blank, show a sequence of labels once repeats and blanks are left out.
//!
//! The labels are written with a blank around each. A walk through them stays, goes on by one, or
//! skips a blank between different labels; sums over walks are made in logarithms and in double
//! precision.

use crate::argument::Offsets;
use crate::fused::Operation;
use contract::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Minus the logarithm of the probability of the labels, for each sequence. Input: the logarithms
/// of the rows' probabilities.
#[derive(Debug)]
pub(crate) struct Alignment {
    pub(crate) rows: Arc<Offsets>,
    pub(crate) labels: Arc<[u64]>,
    pub(crate) label_offsets: Arc<Offsets>,
    pub(crate) classes: usize,
    pub(crate) blank: usize,
    /// Whether gradients are divided by the number of rows.
    pub(crate) is_normed_by_rows: bool,
}

impl Alignment {
    /// Checks that every sequence has rows for its labels.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(label) = self.labels.iter().find(|label| **label as usize == self.blank) {
            return Err(Error::invalid("a label must not be the blank").with("blank", label));
        }
        for (sample, (rows, labels)) in self.sequences().enumerate() {
            let repeats = labels.windows(2).filter(|pair| pair[0] == pair[1]).count();
            if rows.len() < labels.len() + repeats {
                return Err(Error::invalid(format!(
                    "a sequence of {} rows cannot show {} labels, {repeats} of them repeats, which \
                     need a blank between; give it more rows or leave the sample out",
                    rows.len(),
                    labels.len()
                ))
                .with("sample", sample));
            }
        }
        Ok(())
    }

    /// The rows and labels of each sequence.
    fn sequences(&self) -> impl Iterator<Item = (Range<usize>, &[u64])> {
        let rows = self.rows.windows(2).map(|pair| pair[0]..pair[1]);
        rows.zip(self.label_offsets.windows(2).map(|pair| &self.labels[pair[0]..pair[1]]))
    }

    /// The labels with a blank around each.
    fn spread(&self, labels: &[u64]) -> Vec<usize> {
        let mut spread = vec![self.blank];
        spread.extend(labels.iter().flat_map(|label| [*label as usize, self.blank]));
        spread
    }
}

fn add_logarithms(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Whether a walk may come to `place` over the blank before it.
fn may_skip(spread: &[usize], place: usize) -> bool {
    place >= 2 && place % 2 == 1 && spread[place] != spread[place - 2]
}

/// For each row and place: the logarithm of the sum over walks from the beginning to there.
fn walk(spread: &[usize], score: impl Fn(usize, usize) -> f64, rows: usize) -> Vec<f64> {
    let places = spread.len();
    let mut sums = vec![f64::NEG_INFINITY; rows * places];
    for row in 0..rows {
        for place in 0..places {
            let arrived = match row {
                0 if place < 2 => 0.0,
                0 => f64::NEG_INFINITY,
                _ => {
                    let before = &sums[(row - 1) * places..row * places];
                    let mut sum = before[place];
                    if place > 0 {
                        sum = add_logarithms(sum, before[place - 1]);
                    }
                    if may_skip(spread, place) {
                        sum = add_logarithms(sum, before[place - 2]);
                    }
                    sum
                }
            };
            sums[row * places + place] = arrived + score(row, spread[place]);
        }
    }
    sums
}

impl Operation for Alignment {
    /// For each sequence, where walks are, from the beginning; and the logarithm of all of them.
    type Saved = Vec<(Vec<f64>, f64)>;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Self::Saved) {
        let mut costs = Vec::new();
        let mut saved = Vec::new();
        for (rows, labels) in self.sequences() {
            if rows.is_empty() {
                costs.push(0.0);
                saved.push((Vec::new(), 0.0));
                continue;
            }
            let spread = self.spread(labels);
            let score =
                |row, class| f64::from(inputs[0][(rows.start + row) * self.classes + class]);
            let sums = walk(&spread, score, rows.len());
            let last = &sums[(rows.len() - 1) * spread.len()..];
            let ends = last.iter().rev().take(2).copied();
            let all = ends.reduce(add_logarithms).unwrap_or(f64::NEG_INFINITY);
            costs.push(-all as f32);
            saved.push((sums, all));
        }
        (costs, saved)
    }

    fn backward(&self, inputs: &[&[f32]], saved: &Self::Saved, gradient: &[f32]) -> Vec<Vec<f32>> {
        let mut to_scores = vec![0.0; inputs[0].len()];
        let each = self.sequences().zip(saved).zip(gradient);
        for (((rows, labels), (forwards, all)), gradient) in each {
            if rows.is_empty() {
                continue;
            }
            let spread = self.spread(labels);
            let places = spread.len();
            let count = rows.len();
            let score =
                |row, class| f64::from(inputs[0][(rows.start + row) * self.classes + class]);
            // Read from the end the labels are as good a sequence.
            let turned: Vec<usize> = spread.iter().rev().copied().collect();
            let backwards = walk(&turned, |row, class| score(count - 1 - row, class), count);
            let share = match self.is_normed_by_rows {
                true => gradient / count as f32,
                false => *gradient,
            };
            for row in 0..count {
                for (place, class) in spread.iter().enumerate() {
                    let back = backwards[(count - 1 - row) * places + places - 1 - place];
                    // Both ways count the row itself.
                    let through = forwards[row * places + place] + back - score(row, *class) - all;
                    let sum = &mut to_scores[(rows.start + row) * self.classes + class];
                    *sum -= share * through.exp() as f32;
                }
            }
        }
        vec![to_scores]
    }
}
