//! Some ranges of columns of the input, side by side.

use super::super::{Run, Slot, expect_dense};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slice {
    /// The first column of each, and the one behind its last.
    slices: Vec<(usize, usize)>,
}

impl Projection for Slice {
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
        expect_dense("the input of a slice projection", input)?;
        if self.slices.is_empty() {
            return Err(Error::invalid("slices must have at least one pair"));
        }
        let mut size = 0_usize;
        for (start, end) in &self.slices {
            if start >= end || *end > input.size {
                return Err(Error::invalid(format!(
                    "the slice ({start}, {end}) is not a range of columns of the input, which has \
                     size {}",
                    input.size
                )));
            }
            size = size.saturating_add(end - start);
        }
        Ok((size, None))
    }

    fn forward(&self, _run: &Run<'_>, _at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let input = inputs[0].dense()?;
        let parts = self.slices.iter();
        let parts = parts.map(|(start, end)| input.clone().narrow(1, *start, end - start));
        Ok(Tensor::cat(parts.collect(), 1))
    }
}
