//! `x·w`.

use super::super::{Run, Slot, expect_dense};
use super::{Projection, Wiring, size_of};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;
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
        expect_dense("the input of a full matrix projection", input)?;
        let wanted = size_of(self.size, wanted)?;
        Ok((wanted, Some(Slot::weight(place, [input.size, wanted]))))
    }

    fn forward(&self, run: &Run<'_>, at: &Wiring, inputs: &[&Argument]) -> Result<Tensor<2>> {
        Ok(inputs[0].dense()?.matmul(run.parameter(at.slot)))
    }
}
