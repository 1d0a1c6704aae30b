//! Parts of each sequence, from where a number says: up to where another says (`seq_slice`), or as
//! many rows as another says (`sub_seq`). With several numbers a sequence, a part for each.

use super::places::{expect_places, read_places};
use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::Argument;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Level, Shape, Value};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceSlice {
    /// What the inputs after the first are, in this order.
    bounds: Vec<Bound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    /// The first row, from 0.
    First,
    /// The last row, which is taken too.
    Last,
    /// How many rows.
    Count,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequenceSlice>(layer)?))
}

impl SequenceSlice {
    /// For each sequence the parts of it that are taken: their first row, and the one after their
    /// last.
    fn parts(&self, inputs: &[&Argument]) -> Result<Vec<Vec<[usize; 2]>>> {
        let offsets = inputs[0].offsets()?;
        let given = inputs[1..].iter().map(|input| read_places(input, offsets.len() - 1));
        let given = given.collect::<Result<Vec<_>>>()?;
        let sequences = offsets.windows(2).enumerate();
        sequences
            .map(|(sequence, pair)| {
                let length = pair[1] - pair[0];
                let count = given.iter().map(|bounds| bounds[sequence].len()).min().unwrap_or(0);
                let part = |number: usize| {
                    let bound = |bound: Bound| {
                        let place = self.bounds.iter().position(|own| *own == bound)?;
                        Some(given[place][sequence][number])
                    };
                    let first = bound(Bound::First).unwrap_or(0);
                    let end = match (bound(Bound::Last), bound(Bound::Count)) {
                        (Some(last), _) => last.saturating_add(1),
                        (None, Some(count)) => first.saturating_add(count),
                        (None, None) => length,
                    };
                    if first > end || end > length {
                        return Err(Error::invalid(format!(
                            "rows {first} to {end} are not all in a sequence of {length} rows"
                        ))
                        .with("sample", sequence));
                    }
                    Ok([pair[0] + first, pair[0] + end])
                };
                (0..count).map(part).collect()
            })
            .collect()
    }
}

impl Layer for SequenceSlice {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, self.bounds.len() + 1..=self.bounds.len() + 1)?;
        expect_dense("the input", &inputs[0])?;
        expect_sequence(&inputs[0])?;
        if self.bounds.is_empty() {
            return Err(Error::invalid("give starts, ends or both"));
        }
        // A row of bounds for each sequence: a sample has one, or, of nested sequences, several.
        let level = match inputs[0].level {
            Level::Nested => Level::Sequence,
            Level::Sequence | Level::Single => Level::Single,
        };
        for bound in &inputs[1..] {
            expect_places("a bound", bound)?;
            if bound.level != level {
                return Err(Error::invalid(format!(
                    "rows are counted by one row of numbers for each sequence but this is {bound}, \
                     and the input {}",
                    inputs[0]
                )));
            }
        }
        let width = |bound: &Shape| if bound.value == Value::Integer { 1 } else { bound.size };
        if let Some(pair) = inputs[1..].windows(2).find(|pair| width(&pair[0]) != width(&pair[1])) {
            return Err(Error::invalid(format!(
                "both bounds must have as many numbers, but one has {} and the other {}",
                width(&pair[0]),
                width(&pair[1])
            )));
        }
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let parts = self.parts(inputs)?;
        let (mut rows, mut offsets, mut ends) = (Vec::new(), vec![0], vec![0]);
        for parts in parts {
            for [first, end] in parts {
                rows.extend((first..end).map(|row| row as u32));
                offsets.push(rows.len());
            }
            // How many parts there are up to the end of this sequence.
            ends.push(offsets.len() - 1);
        }
        let value = row_sums(inputs[0].dense()?, RowLists::one_each(rows));
        let nests = inputs[0].nests.as_ref();
        let nests: Option<Arc<[usize]>> =
            nests.map(|nests| nests.iter().map(|sequence| ends[*sequence]).collect());
        Ok(Argument { nests, ..Argument::sequence(value, offsets) })
    }
}
