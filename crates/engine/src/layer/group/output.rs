//! One of the layers that the step of a group gives, where rows and sequences are among them.

use super::super::{Layer, Plan, Run, attributes, expect_inputs, expect_sequence};
use crate::argument::{Argument, Origin};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupOutput {
    /// Its place among what the step gives.
    place: usize,
    size: usize,
    /// What it is outside of the group.
    level: Level,
}

pub(in super::super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<GroupOutput>(layer)?))
}

impl Layer for GroupOutput {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_sequence(&inputs[0])?;
        if self.size == 0 || self.level == Level::Single {
            return Err(Error::invalid("an output of a group has numbers in sequences"));
        }
        Ok(Plan::of(Shape { level: self.level, ..Shape::dense(self.size) }))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let found = match &inputs[0].origin {
            Some(Origin::Outputs(outputs)) => outputs.get(self.place),
            _ => None,
        };
        let found = found.ok_or_else(|| {
            Error::invalid("its input is no group that gives so many layers")
                .with("place", self.place)
        })?;
        let level = if found.nests.is_some() { Level::Nested } else { Level::Sequence };
        let width = found.dense()?.dims()[1];
        if (width, level) != (self.size, self.level) {
            return Err(Error::invalid("the group gives another kind of layer at this place")
                .with("place", self.place)
                .with("size", width));
        }
        Ok(found.clone())
    }

    fn runs_without_rows(&self, _inputs: &[Shape]) -> bool {
        true
    }
}
