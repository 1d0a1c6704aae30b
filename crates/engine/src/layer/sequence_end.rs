//! The first or the last row of a sequence.

use super::pooling::Taken;
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
    #[serde(default)]
    of: Taken,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequenceEnd>(layer)?))
}

impl Layer for SequenceEnd {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        self.of.plan(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let offsets = self.of.offsets(inputs[0])?;
        let ends = sequence::end(inputs[0].dense()?, &offsets, self.end);
        Ok(self.of.rows(inputs[0], ends))
    }
}
