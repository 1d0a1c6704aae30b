//! The first or the last row of a sequence.

use super::pooling::plan_one_row;
use super::{Layer, Plan, Run, attributes};
use crate::argument::Argument;
use crate::sequence::{self, End};
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceEnd {
    end: End,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequenceEnd>(layer)?))
}

impl Layer for SequenceEnd {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        plan_one_row(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        Ok(Argument::single(sequence::end(inputs[0].dense()?, inputs[0].offsets()?, self.end)))
    }
}
