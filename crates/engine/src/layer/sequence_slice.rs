//! A part of each sequence, from where a number of the sample says: up to where another says
//! (`seq_slice`), or as many rows as another says (`sub_seq`).

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_sequence};
use crate::argument::{Argument, Value, numbers};
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{self, Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

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
    /// What the bound says for each sample; `None` where it is not given.
    fn read(&self, bound: Bound, inputs: &[&Argument]) -> Result<Option<Vec<usize>>> {
        let Some(place) = self.bounds.iter().position(|own| *own == bound) else {
            return Ok(None);
        };
        let whole = |number: &f32| {
            if *number < 0.0 || number.fract() != 0.0 {
                return Err(Error::invalid("rows are counted in whole numbers from 0")
                    .with("number", number));
            }
            Ok(*number as usize)
        };
        Ok(Some(match &inputs[place + 1].value {
            Value::Integer(ids) => ids.iter().map(|id| *id as usize).collect(),
            _ => numbers(inputs[place + 1].dense()?).iter().map(whole).collect::<Result<_>>()?,
        }))
    }
}

impl Layer for SequenceSlice {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, self.bounds.len() + 1..=self.bounds.len() + 1)?;
        expect_dense("the input", &inputs[0])?;
        expect_one_sequence(&inputs[0])?;
        if self.bounds.is_empty() {
            return Err(Error::invalid("give starts, ends or both"));
        }
        for bound in &inputs[1..] {
            let is_number = match bound.value {
                shape::Value::Dense => bound.size == 1,
                shape::Value::Integer => true,
                shape::Value::SparseBinary | shape::Value::SparseFloat => false,
            };
            if !is_number || bound.level != Level::Single {
                return Err(Error::invalid(format!(
                    "rows are counted by one number a sample but this is {bound}"
                )));
            }
        }
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let [firsts, lasts, counts] = [
            self.read(Bound::First, inputs)?,
            self.read(Bound::Last, inputs)?,
            self.read(Bound::Count, inputs)?,
        ];
        let mut rows = Vec::new();
        let mut offsets = vec![0];
        for (sample, pair) in inputs[0].offsets()?.windows(2).enumerate() {
            let length = pair[1] - pair[0];
            let first = firsts.as_ref().map_or(0, |firsts| firsts[sample]);
            let end = match (&lasts, &counts) {
                (Some(lasts), _) => lasts[sample].saturating_add(1),
                (None, Some(counts)) => first.saturating_add(counts[sample]),
                (None, None) => length,
            };
            if first > end || end > length {
                return Err(Error::invalid(format!(
                    "rows {first} to {end} are not all in a sequence of {length} rows"
                ))
                .with("sample", sample));
            }
            rows.extend((pair[0] + first..pair[0] + end).map(|row| row as u32));
            offsets.push(rows.len());
        }
        let value = row_sums(inputs[0].dense()?, RowLists::one_each(rows));
        Ok(Argument::sequence(value, offsets))
    }
}
