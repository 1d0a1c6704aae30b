//! The input times one learnt number.

use super::super::{Run, Slot, expect_dense};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scaling {}

impl Projection for Scaling {
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        expect_dense("the input of a scaling projection", &inputs[0])?;
        Ok((inputs[0].size, Some(Slot::weight(place, [1, 1]))))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        Ok(inputs[0].dense()? * run.parameter(at.slot))
    }
}
