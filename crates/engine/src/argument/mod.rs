//! What flows between layers: rows of the whole batch, and where the samples' sequences lie.
//!
//! Sequences are not padded: all rows follow one another, and offsets tell them apart. Of nested
//! sequences these are the inner ones, so that layers over sequences take each of them by itself;
//! a second row of offsets says which of them make a sample.

mod fed;
mod samples;

use crate::batch::{Lists, Output, Rows};
use crate::fused;
use crate::shape::{Shape, Value as Kind};
use burn::backend::Flex;
use burn::tensor::{Device, Tensor, TensorData};
use contract::{Error, Result};
use std::sync::Arc;

/// Where each sequence begins, and where the last one ends.
pub(crate) type Offsets = [usize];

/// The output of a layer for one batch.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) value: Value,
    /// Where each sequence begins in the rows.
    pub(crate) sequences: Option<Arc<Offsets>>,
    /// Where each sample of nested sequences begins in the sequences.
    pub(crate) nests: Option<Arc<Offsets>>,
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
    /// All outputs of a group whose step gives several, not all of them rows; the numbers are the
    /// first.
    Outputs(Arc<[Argument]>),
}

impl Origin {
    /// What a function was applied to, if it is that.
    fn tensor(&self) -> Option<&Tensor<2>> {
        match self {
            Origin::Softmax(x) | Origin::Sigmoid(x) => Some(x),
            Origin::Ids(_) | Origin::Outputs(_) => None,
        }
    }

    /// The same of other rows.
    fn with_tensor(&self, change: impl FnOnce(&Tensor<2>) -> Tensor<2>) -> Option<Origin> {
        match self {
            Origin::Softmax(x) => Some(Origin::Softmax(change(x))),
            Origin::Sigmoid(x) => Some(Origin::Sigmoid(change(x))),
            Origin::Ids(_) | Origin::Outputs(_) => None,
        }
    }
}

impl Argument {
    /// One row of numbers a sample.
    pub(crate) fn single(value: Tensor<2>) -> Self {
        Argument { value: Value::Dense(value), sequences: None, nests: None, origin: None }
    }

    /// Rows made from those of `like`, one by one.
    pub(crate) fn like(like: &Argument, value: Tensor<2>) -> Self {
        like.with_value(Value::Dense(value))
    }

    /// Other rows in the same sequences.
    pub(crate) fn with_value(&self, value: Value) -> Self {
        let (sequences, nests) = (self.sequences.clone(), self.nests.clone());
        Argument { value, sequences, nests, origin: None }
    }

    /// Rows of numbers in sequences, of which a sample has one.
    pub(crate) fn sequence(value: Tensor<2>, offsets: Vec<usize>) -> Self {
        Argument { sequences: Some(Arc::from(offsets)), ..Argument::single(value) }
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
        like.with_value(value)
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

    /// Replaces the numbers. What the former ones were made of says nothing about these: a cost
    /// computed from it would pass by whatever was done to them.
    pub(crate) fn set_dense(&mut self, value: Tensor<2>) {
        self.value = Value::Dense(value);
        self.origin = None;
    }

    /// The offsets of its sequences.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn offsets(&self) -> Result<&Offsets> {
        self.sequences.as_deref().ok_or_else(|| Error::invalid("needs a sequence as input"))
    }

    /// Where each sample begins in the rows, be its sequences nested or not.
    ///
    /// # Errors
    /// If a sample is one row.
    pub(crate) fn sample_offsets(&self) -> Result<Arc<Offsets>> {
        let sequences = self.offsets()?;
        Ok(match &self.nests {
            None => Arc::from(sequences),
            Some(nests) => nests.iter().map(|sequence| sequences[*sequence]).collect(),
        })
    }

    /// Where each sample begins in the sequences.
    ///
    /// # Errors
    /// If sequences are not nested.
    pub(crate) fn sample_nests(&self) -> Result<&Offsets> {
        self.nests.as_deref().ok_or_else(|| Error::invalid("needs sequences of sequences"))
    }

    /// How many samples there are.
    pub(crate) fn samples(&self) -> usize {
        match (&self.nests, &self.sequences) {
            (Some(offsets), _) | (None, Some(offsets)) => offsets.len() - 1,
            (None, None) => self.rows(),
        }
    }

    /// Rows of all samples.
    pub(crate) fn rows(&self) -> usize {
        match &self.value {
            Value::Dense(tensor) => tensor.dims()[0],
            Value::Integer(ids) => ids.len(),
            Value::Sparse(lists) => lists.offsets.len().saturating_sub(1),
        }
    }

    /// Copied out of the network.
    pub(crate) fn to_output(&self) -> Output {
        let copied =
            |offsets: &Option<Arc<Offsets>>| offsets.as_ref().map(|offsets| offsets.to_vec());
        let (rows, width) = match &self.value {
            Value::Dense(tensor) => (Rows::Dense(numbers(tensor.clone())), tensor.dims()[1]),
            Value::Integer(ids) => (Rows::Integer(ids.to_vec()), 1),
            Value::Sparse(lists) => (Rows::Sparse(lists.as_ref().clone()), 0),
        };
        let ids = match &self.origin {
            Some(Origin::Ids(ids)) => Some(ids.to_vec()),
            _ => None,
        };
        let (sequences, nests) = (copied(&self.sequences), copied(&self.nests));
        Output { rows, width, ids, sequences, nests }
    }
}

/// A tensor of numbers, without copying them.
pub(crate) fn tensor(values: Vec<f32>, dims: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, dims), device)
}

/// Shows the numbers of a tensor, on the CPU where they lie.
pub(crate) fn look_at<const D: usize, T>(tensor: Tensor<D>, see: impl FnOnce(&[f32]) -> T) -> T {
    let tensor = tensor.without_autodiff();
    match tensor.clone().try_into_primitive::<Flex>() {
        Ok(held) => see(fused::contiguous(&held.to_contiguous())),
        Err(_) => see(&numbers(tensor)),
    }
}

/// The numbers of a tensor; copied only if it is shared.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.without_autodiff().into_data();
    data.try_into_vec().unwrap_or_else(|error| panic!("tensors hold f32: {error:?}"))
}
