//! No figure: it keeps the outputs of layers, and their gradients where that is asked for, so that
//! they can be looked at after a step.

use super::{Evaluator, attributes};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

/// The kind of this evaluator.
pub(crate) const KIND: &str = "watch";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Watch {
    /// Whether the gradient of each layer's output is kept too.
    #[serde(default)]
    gradient: bool,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    Ok(Box::new(attributes::<Watch>(evaluator)?))
}

/// Whether an evaluator wants the gradients of its layers' outputs.
pub(crate) fn wants_gradient(evaluator: &topology::Evaluator) -> bool {
    let said = evaluator.attributes.get("gradient").and_then(serde_json::Value::as_bool);
    evaluator.kind == KIND && said == Some(true)
}

impl Evaluator for Watch {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        if inputs.is_empty() {
            return Err(Error::invalid("watches one layer or more"));
        }
        let has_ids = inputs.iter().find(|shape| shape.value != crate::shape::Value::Dense);
        match has_ids.filter(|_| self.gradient) {
            None => Ok(()),
            Some(shape) => Err(Error::invalid(format!("{shape} has no gradient"))),
        }
    }

    fn add(&mut self, _inputs: &[&Argument]) -> Result<()> {
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn clear(&mut self) {}
}
