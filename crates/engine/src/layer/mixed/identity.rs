//! The input itself, or some of its columns.

use super::super::{Run, Slot, expect_dense};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// The first column. Absent: all of them.
    offset: Option<usize>,
    /// Columns. Absent: all from the first.
    size: Option<usize>,
}

impl Projection for Identity {
    fn has_parameter(&self) -> bool {
        false
    }

    fn plan(
        &self,
        _place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        let input = &inputs[0];
        expect_dense("the input of an identity projection", input)?;
        let Some(offset) = self.offset else { return Ok((input.size, None)) };
        let size = self.size.unwrap_or(input.size.saturating_sub(offset));
        if offset.checked_add(size).is_none_or(|end| end > input.size) || size == 0 {
            return Err(Error::invalid(format!(
                "columns {offset} to {} are not all in the input, which has size {}",
                offset.saturating_add(size),
                input.size
            )));
        }
        Ok((size, None))
    }

    fn forward(&self, _run: &Run<'_>, _at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let input = inputs[0].dense()?;
        let [_, width] = input.dims();
        Ok(match self.offset {
            None => input,
            Some(offset) => input.narrow(1, offset, self.size.unwrap_or(width - offset)),
        })
    }
}
