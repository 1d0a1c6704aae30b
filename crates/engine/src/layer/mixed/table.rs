//! The rows of a table that the input's ids ask for; lists of ids give the sum of their rows.

use super::super::{Run, Slot};
use super::{Projection, Wiring, size_of};
use crate::argument::Argument;
use crate::row_sums::row_sums;
use crate::shape::{Shape, Value};
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Absent: that of the layer.
    size: Option<usize>,
}

impl Projection for Table {
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        let input = &inputs[0];
        if input.value == Value::Dense {
            return Err(Error::invalid(format!(
                "a table is looked up by ids, so its input must be integer or sparse but is {input}"
            )));
        }
        let wanted = size_of(self.size, wanted)?;
        Ok((wanted, Some(Slot::table(place, input, wanted))))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        Ok(row_sums(run.parameter(at.slot), run.lists(at.slot, inputs[0])?))
    }
}
