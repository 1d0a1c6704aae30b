//! Samples, column by column, as lines are parsed into them.

use crate::plan::Plan;
use engine::batch::{Batch, Input, Lists, Rows};
use std::ops::Range;

/// Some samples: what each data layer gets of them.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) samples: usize,
    pub(crate) inputs: Vec<Input>,
}

impl Columns {
    /// None yet, with room for some.
    pub(crate) fn new(plan: &Plan, samples: usize) -> Columns {
        Columns { samples: 0, inputs: plan.empty_inputs(samples) }
    }

    /// Forgets what a line that turned out to be malformed has added.
    pub(crate) fn take_back(&mut self, plan: &Plan) {
        for (column, input) in self.inputs.iter_mut().enumerate() {
            let mut rows = self.samples;
            if let Some(sequences) = &mut input.sequences {
                sequences.truncate(self.samples + 1);
                rows = sequences[self.samples];
            }
            match &mut input.rows {
                Rows::Dense(values) => values.truncate(rows * plan.shape(column).size),
                Rows::Integer(ids) => ids.truncate(rows),
                Rows::Sparse(lists) => {
                    lists.offsets.truncate(rows + 1);
                    lists.ids.truncate(lists.offsets[rows]);
                }
            }
        }
    }

    /// Adds some samples of others.
    pub(crate) fn append(&mut self, plan: &Plan, others: &Columns, samples: Range<usize>) {
        self.samples += samples.len();
        let both = self.inputs.iter_mut().zip(&others.inputs);
        for (column, (input, other)) in both.enumerate() {
            let rows = match (&mut input.sequences, &other.sequences) {
                (Some(offsets), Some(more)) => {
                    extend_offsets(offsets, &more[samples.start..=samples.end]);
                    more[samples.start]..more[samples.end]
                }
                _ => samples.clone(),
            };
            match (&mut input.rows, &other.rows) {
                (Rows::Dense(values), Rows::Dense(more)) => {
                    let size = plan.shape(column).size;
                    values.extend_from_slice(&more[rows.start * size..rows.end * size]);
                }
                (Rows::Integer(ids), Rows::Integer(more)) => ids.extend_from_slice(&more[rows]),
                (Rows::Sparse(lists), Rows::Sparse(more)) => {
                    let Lists { offsets, ids, .. } = more;
                    extend_offsets(&mut lists.offsets, &offsets[rows.start..=rows.end]);
                    lists.ids.extend_from_slice(&ids[offsets[rows.start]..offsets[rows.end]]);
                }
                _ => unreachable!("a column keeps its kind"),
            }
        }
    }

    /// Bytes of memory that the samples take.
    pub(crate) fn bytes(&self) -> usize {
        let of_input = |input: &Input| {
            let rows = match &input.rows {
                Rows::Dense(values) => values.capacity() * size_of::<f32>(),
                Rows::Integer(ids) => ids.capacity() * size_of::<u64>(),
                Rows::Sparse(lists) => (lists.offsets.capacity() + lists.ids.capacity()) * 8,
            };
            rows + input.sequences.as_ref().map_or(0, |offsets| offsets.capacity() * 8)
        };
        self.inputs.iter().map(of_input).sum()
    }

    pub(crate) fn into_batch(self, plan: &Plan) -> Batch {
        plan.to_batch(self.samples, self.inputs)
    }
}

/// Goes on where `offsets` ends with parts as large as those of `more`.
fn extend_offsets(offsets: &mut Vec<usize>, more: &[usize]) {
    let (end, from) = (offsets.last().copied().unwrap_or(0), more[0]);
    offsets.extend(more[1..].iter().map(|offset| end + offset - from));
}
