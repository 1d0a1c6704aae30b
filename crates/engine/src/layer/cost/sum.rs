//! The sum of each row, as a cost.

use super::super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use super::plan_rows;
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Sum>(layer)?))
}

impl Layer for Sum {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        Ok(Argument::like(inputs[0], inputs[0].dense()?.sum_dim(1)))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(1.0)
    }
}
