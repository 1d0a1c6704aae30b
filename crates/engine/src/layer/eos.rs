//! Whether each id is that of the end of a sentence: 1 if it is, else 0.

use super::{Layer, Plan, Run, attributes, expect_inputs};
use crate::argument::{Argument, Value};
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Eos {
    eos_id: u64,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Eos>(layer)?))
}

impl Layer for Eos {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        if inputs[0].value != shape::Value::Integer {
            return Err(Error::invalid(format!("the input must be integer but is {}", inputs[0])));
        }
        let shape = inputs[0].with_size(2);
        Ok(Plan::of(Shape { value: shape::Value::Integer, ..shape }))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let ids = inputs[0].ids()?.iter().map(|id| u64::from(*id == self.eos_id));
        Ok(inputs[0].with_value(Value::Integer(ids.collect())))
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
