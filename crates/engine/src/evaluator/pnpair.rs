//! The positive-negative pair rate of a ranking: pairs of rows of one query whose scores are in
//! the order of their labels, divided by the pairs whose scores are in the opposite order.
//!
//! A pair weighs the mean of its rows' weights. Pairs of equal labels or equal scores count as
//! neither, and so does a score that is NaN. Without any pair in the wrong order the figure is the
//! weight of those in the right one, as in the original.
//!
//! The rows of a query may lie in different batches, so all rows of a period are kept; pairs are
//! counted when the figure is read, in n log n. Memory is bounded: beyond [`ROWS_MAX`] rows the
//! pairs so far are counted and the rows dropped, so that a query that goes on loses those pairs of
//! which one row came before.

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Mutex;

/// The most rows that are kept: about 100 MB.
const ROWS_MAX: usize = 1 << 22;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

struct Pnpair {
    /// Reading sorts, which leaves the figure as it is.
    rows: Mutex<Rows>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    query: u64,
    label: u64,
    score: f32,
    weight: f32,
}

/// Weights of pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pairs {
    positive: f64,
    negative: f64,
}

/// The rows so far.
struct Rows {
    kept: Vec<Row>,
    limit: usize,
    /// Pairs of rows that are not kept any more.
    dropped: Pairs,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(Pnpair { rows: Mutex::new(Rows::new(ROWS_MAX)) }))
}

impl Evaluator for Pnpair {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        if !(3..=4).contains(&inputs.len()) {
            return Err(Error::invalid("takes input, label, query_id and perhaps a weight")
                .with("inputs", inputs.len()));
        }
        super::expect_prediction_and_label(&inputs[..2])?;
        if inputs[2].value != shape::Value::Integer {
            return Err(Error::invalid(format!(
                "its query_id must be integer but is {}",
                inputs[2]
            )));
        }
        super::expect_weight(inputs.get(3))
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let scores = inputs[0].dense()?;
        let [rows, width] = scores.dims();
        let labels = super::labels(inputs[1], rows)?;
        let queries = inputs[2].ids()?;
        if queries.len() != rows {
            return Err(Error::invalid("input and query_id have different rows")
                .with("input", rows)
                .with("query_id", queries.len()));
        }
        let weights = super::weights(inputs.get(3).copied(), rows)?;
        let own = self.rows.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The last column is the score, be it the only one or the second of two.
        for (row, scores) in numbers(scores).chunks_exact(width).enumerate() {
            let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
            let label = labels[row] as u64;
            own.add(Row { query: queries[row], label, score: scores[width - 1], weight });
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        let mut rows = self.rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Pairs { positive, negative } = rows.pairs();
        vec![("", positive / if negative > 0.0 { negative } else { 1.0 })]
    }

    fn clear(&mut self) {
        let own = self.rows.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        own.kept.clear();
        own.dropped = Pairs::default();
    }
}

impl Rows {
    fn new(limit: usize) -> Rows {
        Rows { kept: Vec::new(), limit, dropped: Pairs::default() }
    }

    fn add(&mut self, row: Row) {
        // A row that is above, below and equal to none makes no pair.
        if row.score.is_nan() {
            return;
        }
        if self.kept.len() >= self.limit {
            self.dropped = self.pairs();
            self.kept.clear();
        }
        self.kept.push(row);
    }

    fn pairs(&mut self) -> Pairs {
        self.kept.sort_unstable_by_key(|row| (row.query, row.label));
        let mut pairs = self.dropped;
        for query in self.kept.chunk_by(|a, b| a.query == b.query) {
            count(query, &mut pairs);
        }
        pairs
    }
}

/// Counts the pairs of one query, whose rows are in the order of their labels.
fn count(rows: &[Row], pairs: &mut Pairs) {
    let mut scores: Vec<f32> = rows.iter().map(|row| row.score).collect();
    scores.sort_unstable_by(f32::total_cmp);
    // Ranks by comparison, so that 0 and -0 are equal.
    let below = |score: f32| scores.partition_point(|other| *other < score);
    let up_to = |score: f32| scores.partition_point(|other| *other <= score);
    let mut lower = Ranked::new(rows.len());
    for label in rows.chunk_by(|a, b| a.label == b.label) {
        for row in label {
            let weight = f64::from(row.weight);
            let of = |[count, sum]: [f64; 2]| (weight * count + sum) / 2.0;
            let (under, not_above) = (lower.sum(below(row.score)), lower.sum(up_to(row.score)));
            let all = lower.sum(scores.len());
            pairs.positive += of(under);
            pairs.negative += of([all[0] - not_above[0], all[1] - not_above[1]]);
        }
        for row in label {
            lower.add(below(row.score), f64::from(row.weight));
        }
    }
}

/// Counts and weights by rank, summed up to any rank in log n: a Fenwick tree.
struct Ranked {
    nodes: Vec<[f64; 2]>,
}

impl Ranked {
    fn new(ranks: usize) -> Ranked {
        Ranked { nodes: vec![[0.0; 2]; ranks + 1] }
    }

    fn add(&mut self, rank: usize, weight: f64) {
        let mut node = rank + 1;
        while node < self.nodes.len() {
            self.nodes[node][0] += 1.0;
            self.nodes[node][1] += weight;
            node += node & node.wrapping_neg();
        }
    }

    /// Over all ranks below `rank`.
    fn sum(&self, rank: usize) -> [f64; 2] {
        let (mut sum, mut node) = ([0.0; 2], rank);
        while node > 0 {
            sum[0] += self.nodes[node][0];
            sum[1] += self.nodes[node][1];
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u32) -> Vec<Row> {
        let mixed = |row: u32, salt: u32| {
            (row ^ salt).wrapping_mul(0x9e37_79b1).rotate_left(15).wrapping_mul(0x85eb_ca77) >> 16
        };
        let row = |row| Row {
            query: u64::from(mixed(row, 1) % 7),
            label: u64::from(mixed(row, 2 << 8) % 4),
            score: (mixed(row, 3 << 16) % 13) as f32 / 4.0 - 1.0,
            weight: (mixed(row, 4 << 20) % 3) as f32,
        };
        (0..count).map(row).collect()
    }

    /// The definition, over all pairs.
    fn by_pairs(rows: &[Row]) -> Pairs {
        let mut pairs = Pairs::default();
        for high in rows {
            for low in rows.iter().filter(|low| low.query == high.query && low.label < high.label) {
                let weight = f64::from(high.weight + low.weight) / 2.0;
                pairs.positive += if high.score > low.score { weight } else { 0.0 };
                pairs.negative += if high.score < low.score { weight } else { 0.0 };
            }
        }
        pairs
    }

    fn fed(rows: &[Row], limit: usize) -> Rows {
        let mut own = Rows::new(limit);
        rows.iter().for_each(|row| own.add(*row));
        own
    }

    #[test]
    fn every_pair_of_a_query_is_counted_once() {
        let rows = rows(500);
        let expected = by_pairs(&rows);
        assert!(expected.positive > 0.0 && expected.negative > 0.0);
        let mut own = fed(&rows, ROWS_MAX);
        assert_eq!(own.pairs(), expected);
        // Reading changes nothing.
        assert_eq!(own.pairs(), expected);
    }

    #[test]
    fn memory_is_bounded_and_only_pairs_across_the_limit_are_lost() {
        let rows = rows(500);
        let mut own = fed(&rows, 200);
        assert!(own.kept.len() <= 200);
        let parts = rows.chunks(200).map(by_pairs);
        let sum = parts.fold(Pairs::default(), |sum, part| Pairs {
            positive: sum.positive + part.positive,
            negative: sum.negative + part.negative,
        });
        assert_eq!(own.pairs(), sum);
    }

    #[test]
    fn a_score_that_is_no_number_makes_no_pair() {
        let row = |label, score| Row { query: 0, label, score, weight: 1.0 };
        let given = [row(0, f32::NAN), row(1, 0.0), row(2, -0.0), row(3, f32::INFINITY)];
        let found = fed(&given, ROWS_MAX).pairs();
        assert_eq!(found, Pairs { positive: 2.0, negative: 0.0 });
    }
}
