//! Its inputs side by side.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Concat {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Concat>(layer)?))
}

impl Layer for Concat {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=usize::MAX)?;
        expect_same_level(inputs)?;
        for (place, input) in inputs.iter().enumerate() {
            expect_dense(&format!("input {place}"), input)?;
        }
        let shape = inputs[0].with_size(inputs.iter().map(|input| input.size).sum());
        // Pictures of one height and width become one of all their channels.
        let sides = |input: &Shape| (input.frame, input.depth);
        let is_same = inputs.iter().all(|input| sides(input) == sides(&inputs[0]));
        Ok(Plan::of(if is_same { shape.with_sides_of(&inputs[0]) } else { shape }))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let parts = inputs.iter().map(|input| input.dense()).collect::<Result<_>>()?;
        Ok(Argument::like(inputs[0], Tensor::cat(parts, 1)))
    }
}
