//! Two inputs multiplied column by column, times `scale`.

use super::super::{Run, Slot, expect_dense, expect_same_size};
use super::{Projection, Wiring};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DotmulOperator {
    scale: f32,
}

impl Projection for DotmulOperator {
    fn inputs(&self) -> usize {
        2
    }

    fn has_parameter(&self) -> bool {
        false
    }

    fn plan(
        &self,
        _place: usize,
        inputs: &[Shape],
        _wanted: Option<usize>,
    ) -> Result<(usize, Option<Slot>)> {
        expect_dense("the first input of a dotmul operator", &inputs[0])?;
        expect_dense("the second input of a dotmul operator", &inputs[1])?;
        expect_same_size(["the first input", "the second"], [&inputs[0], &inputs[1]])?;
        Ok((inputs[0].size, None))
    }

    fn forward(&self, _run: &Run<'_>, _at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        Ok((inputs[0].dense()? * inputs[1].dense()?).mul_scalar(self.scale))
    }
}
