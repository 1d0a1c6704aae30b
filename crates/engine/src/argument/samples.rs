//! Some of the samples of an argument, and arguments put one behind the other.

use super::{Argument, Offsets, Value, tensor};
use crate::batch::Lists;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Shape, Value as Kind};
use burn::tensor::{Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

impl Argument {
    /// The rows of some samples.
    fn rows_of(&self, samples: Range<usize>) -> Range<usize> {
        let within = |offsets: &Option<Arc<Offsets>>, range: Range<usize>| match offsets {
            Some(offsets) => offsets[range.start]..offsets[range.end],
            None => range,
        };
        within(&self.sequences, within(&self.nests, samples))
    }

    /// The ids of some samples, as places in all ids.
    pub(crate) fn entries(&self, samples: Range<usize>) -> Range<usize> {
        let rows = self.rows_of(samples);
        match &self.value {
            Value::Sparse(lists) => lists.offsets[rows.start]..lists.offsets[rows.end],
            Value::Integer(_) | Value::Dense(_) => rows,
        }
    }

    /// Some samples of it.
    pub(crate) fn cut(&self, samples: Range<usize>) -> Argument {
        let (rows, entries) = (self.rows_of(samples.clone()), self.entries(samples.clone()));
        let value = match &self.value {
            Value::Dense(tensor) => Value::Dense(tensor.clone().slice([rows])),
            Value::Integer(ids) => Value::Integer(Arc::from(&ids[rows])),
            Value::Sparse(lists) => Value::Sparse(Arc::new(Lists {
                offsets: rebased(&lists.offsets[rows.start..=rows.end]),
                ids: lists.ids[entries.clone()].to_vec(),
                values: lists.values.as_ref().map(|values| values[entries].to_vec()),
            })),
        };
        let cut = |offsets: &Offsets, range: Range<usize>| -> Arc<Offsets> {
            Arc::from(rebased(&offsets[range.start..=range.end]))
        };
        let held = match &self.nests {
            Some(nests) => nests[samples.start]..nests[samples.end],
            None => samples.clone(),
        };
        let sequences = self.sequences.as_ref().map(|offsets| cut(offsets, held));
        let nests = self.nests.as_ref().map(|offsets| cut(offsets, samples));
        Argument { value, sequences, nests, origin: None }
    }

    /// The first samples.
    pub(crate) fn first(&self, samples: usize) -> Argument {
        if samples == self.samples() { self.clone() } else { self.cut(0..samples) }
    }

    /// It, cut where `offsets` say. Halves are halved again, so that the gradient of each part is
    /// added to ever larger ones and not to the whole.
    pub(crate) fn split(&self, offsets: &Offsets) -> Vec<Argument> {
        match offsets {
            [] | [_] => Vec::new(),
            [from, to] => vec![self.cut(from - offsets[0]..to - offsets[0])],
            _ => {
                let (begin, half) = (offsets[0], offsets.len() / 2);
                let [middle, end] = [offsets[half], offsets[offsets.len() - 1]];
                let mut parts = self.cut(0..middle - begin).split(&offsets[..=half]);
                parts.extend(self.cut(middle - begin..end - begin).split(&offsets[half..]));
                parts
            }
        }
    }

    /// Some samples, in any order.
    pub(crate) fn select(&self, samples: &[usize]) -> Argument {
        let (sequences, nests, rows) = match (&self.sequences, &self.nests) {
            (None, _) => (None, None, samples.to_vec()),
            (Some(sequences), None) => {
                let (offsets, rows) = members(sequences, samples);
                (Some(offsets), None, rows)
            }
            (Some(sequences), Some(nests)) => {
                let (nests, held) = members(nests, samples);
                let (offsets, rows) = members(sequences, &held);
                (Some(offsets), Some(nests), rows)
            }
        };
        let value = match &self.value {
            Value::Dense(tensor) => {
                let rows = rows.iter().map(|row| *row as u32).collect();
                Value::Dense(row_sums(tensor.clone(), RowLists::one_each(rows)))
            }
            Value::Integer(ids) => Value::Integer(rows.iter().map(|row| ids[*row]).collect()),
            Value::Sparse(lists) => {
                let (offsets, entries) = members(&lists.offsets, &rows);
                Value::Sparse(Arc::new(Lists {
                    offsets: offsets.to_vec(),
                    ids: entries.iter().map(|entry| lists.ids[*entry]).collect(),
                    values: lists
                        .values
                        .as_ref()
                        .map(|values| entries.iter().map(|entry| values[*entry]).collect()),
                }))
            }
        };
        Argument { value, sequences, nests, origin: None }
    }

    /// What a sample consists of as samples: the rows of sequences, the sequences of nested ones.
    /// Also where each sample begins among them.
    pub(crate) fn unnested(&self) -> (Argument, Option<&Arc<Offsets>>) {
        let (sequences, offsets) = match &self.nests {
            Some(nests) => (self.sequences.clone(), Some(nests)),
            None => (None, self.sequences.as_ref()),
        };
        let value = self.value.clone();
        (Argument { value, sequences, nests: None, origin: None }, offsets)
    }

    /// The opposite: samples that each consist of some of these.
    pub(crate) fn nested(self, offsets: Arc<Offsets>) -> Argument {
        match self.sequences {
            None => Argument { sequences: Some(offsets), ..self },
            Some(_) => Argument { nests: Some(offsets), ..self },
        }
    }

    /// Rows of numbers, or sequences of them, one behind the other.
    pub(crate) fn join(parts: &[Argument], shape: &Shape, device: &Device) -> Argument {
        debug_assert_eq!(shape.value, Kind::Dense);
        let tensors =
            parts.iter().filter(|part| part.rows() > 0).filter_map(|part| part.dense().ok());
        let tensors: Vec<Tensor<2>> = tensors.collect();
        let value = match tensors.is_empty() {
            true => tensor(Vec::new(), [0, shape.size], device),
            false => Tensor::cat(tensors, 0),
        };
        let mut offsets = parts.first().and_then(|part| part.sequences.as_ref()).map(|_| vec![0]);
        if let Some(offsets) = &mut offsets {
            for part in parts.iter().filter_map(|part| part.sequences.as_ref()) {
                crate::batch::append_offsets(offsets, part);
            }
        }
        Argument { sequences: offsets.map(Arc::from), ..Argument::single(value) }
    }
}

/// What some of the parts that `offsets` tell apart consist of, and where each of them begins then.
fn members(offsets: &Offsets, parts: &[usize]) -> (Arc<Offsets>, Vec<usize>) {
    let mut all = Vec::new();
    let mut begins = vec![0];
    for &part in parts {
        all.extend(offsets[part]..offsets[part + 1]);
        begins.push(all.len());
    }
    (Arc::from(begins), all)
}

/// Offsets that begin at 0 again.
fn rebased(offsets: &[usize]) -> Vec<usize> {
    offsets.iter().map(|offset| offset - offsets[0]).collect()
}
