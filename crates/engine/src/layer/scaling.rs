//! Each row of the input times its weight, one number.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scaling {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Scaling>(layer)?))
}

/// Checks that an input is one number a row.
pub(super) fn expect_weight(weight: &Shape) -> Result<()> {
    expect_dense("the weight", weight)?;
    if weight.size == 1 {
        return Ok(());
    }
    Err(Error::invalid(format!("the weight must have size 1 but has {}", weight.size)))
}

impl Layer for Scaling {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_dense("the input", &inputs[0])?;
        expect_weight(&inputs[1])?;
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        Ok(Argument::like(inputs[0], inputs[0].dense()? * inputs[1].dense()?))
    }
}
