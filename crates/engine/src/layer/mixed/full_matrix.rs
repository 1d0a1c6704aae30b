//! `x·w`, where x is dense or a list of ids.

use super::super::{Run, Slot};
use super::{Projection, Wiring, size_of};
use crate::argument::{self, Argument};
use crate::row_sums::row_sums;
use crate::shape::{Shape, Value};
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullMatrix {
    /// Absent: that of the layer.
    size: Option<usize>,
}

impl Projection for FullMatrix {
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        let input = &inputs[0];
        let wanted = size_of(self.size, wanted)?;
        let slot = match input.value {
            Value::Dense => Slot::weight(place, [input.size, wanted]),
            Value::SparseBinary | Value::SparseFloat => Slot::table(place, input, wanted),
            Value::Integer => {
                return Err(Error::invalid(format!(
                    "a full matrix projection takes numbers but its input is {input}; look its \
                     ids up with a table projection"
                )));
            }
        };
        Ok((wanted, Some(slot)))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let weight = run.parameter(at.slot);
        Ok(match &inputs[0].value {
            argument::Value::Dense(x) => x.clone().matmul(weight),
            _ => row_sums(weight, run.lists(at.slot, inputs[0])?),
        })
    }
}
