//! The row of each sample, or of each of its sequences, once for every row there.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::Argument;
use crate::sequence;
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Arc;

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
        expect_sequence(like)?;
        if input.level == Level::Nested || input.level >= like.level {
            return Err(Error::invalid(format!(
                "the input, {input}, must have fewer rows a sample than what it is expanded as, \
                 {like}"
            )));
        }
        Ok(Plan::of(like.with_size(input.size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let (input, like) = (inputs[0], inputs[1]);
        // A row for each sample, or one for each sequence of samples that have several.
        let offsets = match &input.sequences {
            None => like.sample_offsets()?,
            Some(_) => Arc::from(like.offsets()?),
        };
        if input.sequences.is_some() && input.sequences != like.nests {
            return Err(Error::invalid(
                "inputs are sequences of different lengths in the same sample; the first needs a \
                 row for each sequence of the second",
            )
            .with("rows", input.rows())
            .with("sequences", offsets.len() - 1));
        }
        Ok(Argument::like(like, sequence::expand(input.dense()?, &offsets)))
    }
}
