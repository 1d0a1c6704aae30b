//! What flows between layers: rows of the whole batch, and where the samples' sequences lie.
//!
//! Sequences are not padded: all rows follow one another, and offsets tell them apart. Nested
//! sequences will be a second row of offsets here.

use crate::batch::{self, Input, Lists, Output, Rows};
use crate::shape::{Level, Shape, Value as Kind};
use burn::tensor::{Device, Tensor, TensorData};
use contract::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Where each sequence begins, and where the last one ends.
pub(crate) type Offsets = [usize];

/// The output of a layer for one batch.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) value: Value,
    pub(crate) sequences: Option<Arc<Offsets>>,
    /// What the numbers were made of, where somebody may want to know.
    pub(crate) origin: Option<Origin>,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one a layer, and nearly all are dense")]
pub(crate) enum Value {
    Dense(Tensor<2>),
    Integer(Arc<[u64]>),
    Sparse(Arc<Lists>),
}

/// What numbers were made of.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// What softmax was applied to: costs are computed from it, where small probabilities are not
    /// rounded to 0.
    Softmax(Tensor<2>),
    /// The same of sigmoid.
    Sigmoid(Tensor<2>),
    /// The ids that were found right or wrong: evaluators look at them.
    Ids(Arc<[u64]>),
}

impl Argument {
    /// One row of numbers a sample.
    pub(crate) fn single(value: Tensor<2>) -> Self {
        Argument { value: Value::Dense(value), sequences: None, origin: None }
    }

    /// Rows made from those of `like`, one by one.
    pub(crate) fn like(like: &Argument, value: Tensor<2>) -> Self {
        Argument { value: Value::Dense(value), sequences: like.sequences.clone(), origin: None }
    }

    /// No rows, as many as `like` has.
    pub(crate) fn without_rows(like: &Argument, shape: &Shape, device: &Device) -> Self {
        let value = match shape.value {
            Kind::Dense => Value::Dense(tensor(Vec::new(), [0, shape.size], device)),
            Kind::Integer => Value::Integer(Arc::from([])),
            Kind::SparseBinary | Kind::SparseFloat => {
                Value::Sparse(Arc::new(Lists { offsets: vec![0], ..Lists::default() }))
            }
        };
        Argument { value, sequences: like.sequences.clone(), origin: None }
    }

    /// The numbers.
    ///
    /// # Errors
    /// If it has ids: a layer's plan should have refused it.
    pub(crate) fn dense(&self) -> Result<Tensor<2>> {
        match &self.value {
            Value::Dense(tensor) => Ok(tensor.clone()),
            Value::Integer(_) | Value::Sparse(_) => {
                Err(Error::invalid("needs numbers but its input has ids"))
            }
        }
    }

    /// The ids.
    ///
    /// # Errors
    /// If it has numbers or lists.
    pub(crate) fn ids(&self) -> Result<&Arc<[u64]>> {
        match &self.value {
            Value::Integer(ids) => Ok(ids),
            Value::Dense(_) | Value::Sparse(_) => {
                Err(Error::invalid("needs one id a row but its input has other values"))
            }
        }
    }

    /// The numbers, be they of rows or of lists.
    pub(crate) fn numbers(&self) -> Option<Vec<f32>> {
        match &self.value {
            Value::Dense(tensor) => Some(numbers(tensor.clone())),
            Value::Integer(_) => None,
            Value::Sparse(lists) => lists.values.clone(),
        }
    }

    pub(crate) fn set_dense(&mut self, value: Tensor<2>) {
        self.value = Value::Dense(value);
    }

    /// The offsets of its sequences.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn offsets(&self) -> Result<&Offsets> {
        self.sequences.as_deref().ok_or_else(|| Error::invalid("needs a sequence as input"))
    }

    /// Rows of all samples.
    pub(crate) fn rows(&self) -> usize {
        match &self.value {
            Value::Dense(tensor) => tensor.dims()[0],
            Value::Integer(ids) => ids.len(),
            Value::Sparse(lists) => lists.offsets.len().saturating_sub(1),
        }
    }

    /// The rows of some samples.
    fn rows_of(&self, samples: Range<usize>) -> Range<usize> {
        match &self.sequences {
            Some(offsets) => offsets[samples.start]..offsets[samples.end],
            None => samples,
        }
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
        let sequences = self.sequences.as_ref();
        let sequences =
            sequences.map(|offsets| Arc::from(rebased(&offsets[samples.start..=samples.end])));
        Argument { value, sequences, origin: None }
    }

    /// From what is fed, after checking that it fits.
    pub(crate) fn from_input(
        input: Input,
        shape: &Shape,
        samples: usize,
        device: &Device,
    ) -> Result<Argument> {
        let rows = input.rows.len(shape.size);
        let value = match (shape.value, input.rows) {
            (Kind::Dense, Rows::Dense(values)) => {
                if values.len() != rows * shape.size {
                    return Err(Error::invalid(format!(
                        "needs rows of {} numbers but is fed {} numbers in all",
                        shape.size,
                        values.len()
                    )));
                }
                Value::Dense(tensor(values, [rows, shape.size], device))
            }
            (Kind::Integer, Rows::Integer(ids)) => {
                check_ids(&ids, shape.size)?;
                Value::Integer(Arc::from(ids))
            }
            (Kind::SparseBinary | Kind::SparseFloat, Rows::Sparse(lists)) => {
                batch::check_offsets(&lists.offsets, lists.ids.len())?;
                check_ids(&lists.ids, shape.size)?;
                let has_values = lists.values.as_ref().map(Vec::len);
                let needs_values = (shape.value == Kind::SparseFloat).then_some(lists.ids.len());
                if has_values != needs_values {
                    return Err(Error::invalid(
                        "sparse float rows, and only they, have a number \
                         for each id",
                    ));
                }
                Value::Sparse(Arc::new(lists))
            }
            (_, rows) => {
                let found = match rows {
                    Rows::Dense(_) => "numbers",
                    Rows::Integer(_) => "ids",
                    Rows::Sparse(_) => "lists of ids",
                };
                return Err(Error::invalid(format!("needs {shape} but is fed {found}")));
            }
        };
        let sequences = match (shape.level, input.sequences) {
            (Level::Single, None) if rows == samples => None,
            (Level::Single, None) => {
                return Err(Error::invalid("needs one row a sample")
                    .with("rows", rows)
                    .with("samples", samples));
            }
            (Level::Single, Some(_)) => {
                return Err(Error::invalid("needs one row a sample but is fed sequences"));
            }
            (_, Some(offsets)) if offsets.len().checked_sub(1) == Some(samples) => {
                batch::check_offsets(&offsets, rows)?;
                Some(Arc::from(offsets))
            }
            (_, offsets) => {
                return Err(Error::invalid("needs a sequence a sample")
                    .with("sequences", offsets.map_or(0, |offsets| offsets.len().max(1) - 1))
                    .with("samples", samples));
            }
        };
        Ok(Argument { value, sequences, origin: None })
    }

    /// Copied out of the network.
    pub(crate) fn to_output(&self) -> Output {
        let sequences = self.sequences.as_ref().map(|offsets| offsets.to_vec());
        let (rows, width) = match &self.value {
            Value::Dense(tensor) => (Rows::Dense(numbers(tensor.clone())), tensor.dims()[1]),
            Value::Integer(ids) => (Rows::Integer(ids.to_vec()), 1),
            Value::Sparse(lists) => (Rows::Sparse(lists.as_ref().clone()), 0),
        };
        Output { rows, width, sequences }
    }
}

/// Offsets that begin at 0 again.
fn rebased(offsets: &[usize]) -> Vec<usize> {
    offsets.iter().map(|offset| offset - offsets[0]).collect()
}

fn check_ids(ids: &[u64], size: usize) -> Result<()> {
    let bad = |id: &&u64| size != 0 && **id >= size as u64 && **id != batch::NO_ID;
    match ids.iter().find(bad) {
        None => Ok(()),
        Some(id) => Err(Error::invalid(format!("id {id} is not below the layer's size {size}"))),
    }
}

/// A tensor of numbers, without copying them.
pub(crate) fn tensor(values: Vec<f32>, dims: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, dims), device)
}

/// The numbers of a tensor; copied only if it is shared.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.without_autodiff().into_data();
    data.try_into_vec().unwrap_or_else(|error| panic!("tensors hold f32: {error:?}"))
}
