//! The row of each sample once for every row of a sequence.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::Argument;
use crate::sequence;
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expand {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Expand>(layer)?))
}

impl Layer for Expand {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        let (input, like) = (&inputs[0], &inputs[1]);
        expect_dense("the input", input)?;
        if input.level != Level::Single {
            return Err(Error::invalid(format!(
                "the input must be one row a sample but is {input}"
            )));
        }
        expect_sequence(like)?;
        Ok(Plan::of(like.with_size(input.size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let expanded = sequence::expand(inputs[0].dense()?, inputs[1].offsets()?);
        Ok(Argument::like(inputs[1], expanded))
    }
}
