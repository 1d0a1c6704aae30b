//! How far what a network reads is from the label: the edit distance, per label. What is read are
//! the best classes of the rows, once repeats and then blanks, the last class, are left out.

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::shape::{self, Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

#[derive(Default)]
struct CtcError {
    distance: f64,
    labels: f64,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(CtcError::default()))
}

/// The fewest labels to change, leave out or put in to make one of the other.
fn edit_distance(a: &[u64], b: &[u64]) -> usize {
    let mut before: Vec<usize> = (0..=b.len()).collect();
    for (row, own) in a.iter().enumerate() {
        let mut after = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let changed = before[column] + usize::from(own != other);
            after.push(changed.min(before[column + 1] + 1).min(after[column] + 1));
        }
        before = after;
    }
    before[b.len()]
}

/// What rows of scores read.
fn read_rows(rows: &[f32], width: usize) -> Vec<u64> {
    let better = |row: &[f32], best: usize, place: usize| match row[place] > row[best] {
        true => place,
        false => best,
    };
    let best = |row: &[f32]| (0..width).reduce(|a, b| better(row, a, b)).unwrap_or(0) as u64;
    let mut read: Vec<u64> = rows.chunks_exact(width).map(best).collect();
    read.dedup();
    read.retain(|class| *class != width as u64 - 1);
    read
}

impl Evaluator for CtcError {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        match inputs {
            [input, label]
                if input.value == shape::Value::Dense
                    && label.value == shape::Value::Integer
                    && [input.level, label.level] == [Level::Sequence; 2] =>
            {
                Ok(())
            }
            _ => Err(Error::invalid("takes a dense sequence and an integer sequence as label")),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let scores = inputs[0].dense()?;
        let [_, width] = scores.dims();
        let (scores, labels) = (numbers(scores), inputs[1].ids()?);
        let sequences = inputs[0].offsets()?.windows(2).zip(inputs[1].offsets()?.windows(2));
        for (rows, wanted) in sequences {
            let read = read_rows(&scores[rows[0] * width..rows[1] * width], width);
            let wanted = &labels[wanted[0]..wanted[1]];
            self.distance += edit_distance(&read, wanted) as f64;
            self.labels += wanted.len() as f64;
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        vec![("", if self.labels > 0.0 { self.distance / self.labels } else { 0.0 })]
    }

    fn clear(&mut self) {
        *self = CtcError::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_changes_omissions_and_insertions() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("sunday", "saturday", 3),
            ("ab", "ba", 2),
        ] {
            let [a, b] = [a, b].map(|text| text.bytes().map(u64::from).collect::<Vec<_>>());
            assert_eq!(edit_distance(&a, &b), expected);
            assert_eq!(edit_distance(&b, &a), expected);
        }
    }

    #[test]
    fn repeats_go_before_blanks() {
        let one_hot = |class: usize| (0..3).map(move |place| f32::from(u8::from(place == class)));
        let rows: Vec<f32> = [0, 0, 2, 0, 1, 2, 2].into_iter().flat_map(one_hot).collect();
        assert_eq!(read_rows(&rows, 3), [0, 0, 1]);
    }
}
