//! Every number times one learnt number; the bias is one number too.

use super::{Layer, Plan, Run, Slot, expect_dense, expect_inputs, no_attributes};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;

struct ScaleShift;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(Box::new(ScaleShift))
}

impl Layer for ScaleShift {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let shape = inputs[0].with_size(inputs[0].size).with_sides_of(&inputs[0]);
        Ok(Plan { shape, parameters: vec![Slot::weight(0, [1, 1])] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let scaled = inputs[0].dense()? * run.parameter(0);
        let shifted = match run.parameters.get(1) {
            None => scaled,
            Some(bias) => scaled + bias.clone(),
        };
        Ok(Argument::like(inputs[0], shifted))
    }

    fn own_bias(&self, _output: &Shape) -> Option<usize> {
        Some(1)
    }
}
