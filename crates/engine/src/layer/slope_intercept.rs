//! `slope·x + intercept`, of every number.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlopeIntercept {
    slope: f32,
    intercept: f32,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SlopeIntercept>(layer)?))
}

impl Layer for SlopeIntercept {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let line = inputs[0].dense()?.mul_scalar(self.slope).add_scalar(self.intercept);
        Ok(Argument::like(inputs[0], line))
    }
}
