//! A sequence's rows become one row.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::sequence::{self, Pooling};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequencePooling {
    pooling: Pooling,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequencePooling>(layer)?))
}

/// The plan of a layer that makes one row of each sequence.
pub(super) fn plan_one_row(inputs: &[Shape]) -> Result<Plan> {
    expect_inputs(inputs, 1..=1)?;
    let input = &inputs[0];
    expect_dense("the input", input)?;
    if input.level == Level::Single {
        return Err(Error::invalid(format!("needs a sequence but its input is {input}")));
    }
    Ok(Plan::of(Shape::dense(input.size)))
}

impl Layer for SequencePooling {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        plan_one_row(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let pooled = sequence::pool(inputs[0].dense()?, inputs[0].offsets()?, self.pooling);
        Ok(Argument::single(pooled))
    }
}
