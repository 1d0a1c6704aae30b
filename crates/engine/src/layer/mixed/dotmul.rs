//! Every column times its own learnt number.

use super::super::{Run, Slot, expect_dense};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dotmul {}

impl Projection for Dotmul {
    fn plan(
        &self,
        place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        expect_dense("the input of a dotmul projection", &inputs[0])?;
        Ok((inputs[0].size, Some(Slot::weight(place, [1, inputs[0].size]))))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        Ok(inputs[0].dense()? * run.parameter(at.slot))
    }
}
