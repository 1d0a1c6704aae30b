//! The area under the ROC curve: how probably a row labelled 1 scores above one labelled 0. Rows
//! of equal score count as half.
//!
//! Scores are kept as they are, each different one once with the weight of its rows, sorted when
//! the figure is read: click rates of 1e-4 and below are told apart as well as any others. Memory
//! is bounded: beyond [`SCORES_MAX`] different scores, neighbours whose last bits differ become
//! one, again and again until there is room.

use super::{Evaluator, attributes};
use crate::argument::{Argument, look_at};
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;
use std::sync::Mutex;

/// The most different scores that are kept: about 100 MB.
const SCORES_MAX: usize = 1 << 22;
/// Rows that are collected before they are sorted in, at least.
const PENDING_MIN: usize = 1 << 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

struct Auc {
    /// Reading sorts, which leaves the figure as it is.
    scores: Mutex<Scores>,
}

/// The rows so far.
struct Scores {
    /// By score, ascending, each once.
    sorted: Vec<Weighed>,
    /// Not sorted in yet.
    pending: Vec<Weighed>,
    /// Bits of a score that are no longer looked at.
    dropped_bits: u32,
    limit: usize,
}

/// A score, and the weight of its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Weighed {
    /// The bits of a number that is not negative: they are in the order of the numbers.
    score: u32,
    /// Of those labelled 0, and of those labelled 1.
    weights: [f64; 2],
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(Auc { scores: Mutex::new(Scores::new(SCORES_MAX)) }))
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
        let own = self.scores.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The last column is the probability of 1, be it the only one or the second of two.
        look_at(scores, |scores| {
            for (row, scores) in scores.chunks_exact(width).enumerate() {
                let weight = weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
                own.add(scores[width - 1], labels[row] != 0, weight);
            }
        });
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        let mut scores = self.scores.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        vec![("", scores.area())]
    }

    fn clear(&mut self) {
        let own = self.scores.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        own.sorted.clear();
        own.pending.clear();
        own.dropped_bits = 0;
    }
}

impl Scores {
    fn new(limit: usize) -> Scores {
        Scores { sorted: Vec::new(), pending: Vec::new(), dropped_bits: 0, limit }
    }

    fn add(&mut self, score: f32, is_one: bool, weight: f64) {
        // A probability; what is not a number counts as 0, and so does -0.
        let score = if score > 0.0 { score.min(1.0) } else { 0.0 };
        let mut weights = [0.0; 2];
        weights[usize::from(is_one)] = weight;
        self.pending.push(Weighed { score: score.to_bits() >> self.dropped_bits, weights });
        // Sorting in takes as long as going through what is there: not too often.
        if self.pending.len() >= self.sorted.len().max(PENDING_MIN) {
            self.settle();
        }
    }

    /// Sorts the pending rows in.
    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_unstable_by_key(|weighed| weighed.score);
        merge_equals(&mut self.pending);
        if self.sorted.is_empty() {
            std::mem::swap(&mut self.sorted, &mut self.pending);
        } else {
            self.sorted.append(&mut self.pending);
            // Two sorted runs: the stable sort finds them and merges.
            self.sorted.sort_by_key(|weighed| weighed.score);
            merge_equals(&mut self.sorted);
        }
        self.pending.clear();
        while self.sorted.len() > self.limit {
            self.dropped_bits += 1;
            self.sorted.iter_mut().for_each(|weighed| weighed.score >>= 1);
            merge_equals(&mut self.sorted);
        }
    }

    fn area(&mut self) -> f64 {
        self.settle();
        let mut below = 0.0;
        let mut area = 0.0;
        let mut totals = [0.0; 2];
        for Weighed { weights: [zeros, ones], .. } in &self.sorted {
            area += ones * (below + zeros / 2.0);
            below += zeros;
            totals[0] += zeros;
            totals[1] += ones;
        }
        let pairs = totals[0] * totals[1];
        // Without both labels there is nothing to tell apart; the original says 0 then.
        if pairs > 0.0 { area / pairs } else { 0.0 }
    }
}

/// Makes one of neighbours with the same score.
fn merge_equals(sorted: &mut Vec<Weighed>) {
    sorted.dedup_by(|next, kept| {
        let is_equal = next.score == kept.score;
        if is_equal {
            kept.weights[0] += next.weights[0];
            kept.weights[1] += next.weights[1];
        }
        is_equal
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: of all pairs of a 1 and a 0, the share in which the 1 scores higher.
    fn by_pairs(rows: &[(f32, bool)]) -> f64 {
        let (mut won, mut pairs) = (0.0, 0.0);
        for (one, _) in rows.iter().filter(|(_, is_one)| *is_one) {
            for (zero, _) in rows.iter().filter(|(_, is_one)| !*is_one) {
                pairs += 1.0;
                won += if one > zero { 1.0 } else { f64::from(u8::from(one == zero)) / 2.0 };
            }
        }
        won / pairs
    }

    /// Scores below 1e-4, as click rates are, whose label is 1 the more often the higher they are.
    fn clicks(rows: u32) -> Vec<(f32, bool)> {
        let click = |row: u32| {
            let chance = |salt: u32| {
                let mixed = (row ^ salt).wrapping_mul(0x9e37_79b1).rotate_left(15);
                f64::from(mixed.wrapping_mul(0x85eb_ca77)) / f64::from(u32::MAX)
            };
            let score = chance(7) * 1e-4;
            (score as f32, chance(1 << 20) * 1e-4 < score)
        };
        (0..rows).map(click).collect()
    }

    fn area(rows: &[(f32, bool)], limit: usize) -> (f64, usize) {
        let mut scores = Scores::new(limit);
        rows.iter().for_each(|(score, is_one)| scores.add(*score, *is_one, 1.0));
        (scores.area(), scores.sorted.len())
    }

    #[test]
    fn small_scores_are_told_apart_exactly() {
        let rows = clicks(4000);
        let (found, _) = area(&rows, SCORES_MAX);
        assert!((found - by_pairs(&rows)).abs() < 1e-12, "{found}");
        // In bins of width 2^-16 nearly all of them would be ties.
        assert!(rows.iter().all(|(score, _)| *score < 1e-4));
    }

    #[test]
    fn memory_is_bounded_and_the_figure_hardly_changes() {
        let rows = clicks(4000);
        let (found, kept) = area(&rows, 500);
        assert!(kept <= 500, "{kept} are kept");
        assert!((found - by_pairs(&rows)).abs() < 2e-3, "{found}");
    }

    #[test]
    fn scores_that_are_no_probabilities_count_as_the_nearest() {
        let rows = [
            (f32::NAN, false),
            (-1.0, false),
            (-0.0, true),
            (0.0, false),
            (7.0, true),
            (1.0, true),
        ];
        // Four at 0, of which one is labelled 1; two at 1: (3·½ + 3 + 3) of 9 pairs.
        let (found, kept) = area(&rows, SCORES_MAX);
        assert_eq!(kept, 2);
        assert!((found - 7.5 / 9.0).abs() < 1e-12, "{found}");
    }
}
