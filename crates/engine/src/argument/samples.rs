//! Some of the samples of an argument, and arguments put one behind the other.

use super::{Argument, Offsets, Origin, Value, tensor};
use crate::batch::Lists;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Level, Shape, Value as Kind};
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

    /// Splits the samples at `offsets`. Halves are split again, so that the gradient of each part is
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
        let picked = |tensor: &Tensor<2>| {
            let rows = rows.iter().map(|row| *row as u32).collect();
            row_sums(tensor.clone(), RowLists::one_each(rows))
        };
        let value = match &self.value {
            Value::Dense(tensor) => Value::Dense(picked(tensor)),
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
        let origin = self.origin.as_ref().and_then(|origin| origin.with_tensor(picked));
        Argument { value, sequences, nests, origin }
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
        let parts: Vec<&Argument> = parts.iter().filter(|part| part.samples() > 0).collect();
        let mut tensors = Vec::new();
        let mut origins = Vec::new();
        let mut offsets = vec![0];
        for part in &parts {
            if let (Value::Dense(tensor), true) = (&part.value, part.rows() > 0) {
                tensors.push(tensor.clone());
                origins.extend(part.origin.as_ref().and_then(Origin::tensor).cloned());
            }
            if let Some(sequences) = &part.sequences {
                crate::batch::append_offsets(&mut offsets, sequences);
            }
        }
        let has_origin = !tensors.is_empty() && origins.len() == tensors.len();
        let origin = parts.last().and_then(|part| part.origin.as_ref()).filter(|_| has_origin);
        let origin = origin.and_then(|origin| origin.with_tensor(|_| Tensor::cat(origins, 0)));
        let value = match tensors.is_empty() {
            true => tensor(Vec::new(), [0, shape.size], device),
            false => Tensor::cat(tensors, 0),
        };
        let sequences = (shape.level != Level::Single).then(|| Arc::from(offsets));
        Argument { sequences, origin, ..Argument::single(value) }
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
