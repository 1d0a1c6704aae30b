//! The sum of its inputs.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
    expect_same_size,
};
use crate::activation::Activation;
use crate::argument::{Argument, Value};
use crate::elementwise;
use crate::fused;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addto {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Addto>(layer)?))
}

impl Layer for Addto {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=usize::MAX)?;
        expect_same_level(inputs)?;
        for (place, input) in inputs.iter().enumerate() {
            expect_dense(&format!("input {place}"), input)?;
            expect_same_size(["input 0", &format!("input {place}")], [&inputs[0], input])?;
        }
        Ok(Plan::of(inputs[0].with_size(inputs[0].size).with_sides_of(&inputs[0])))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let terms = inputs.iter().map(|input| input.dense());
        let sum = terms.reduce(|sum, term| Ok(sum? + term?));
        let sum = sum.ok_or_else(|| Error::invalid("addto has no inputs"))??;
        Ok(Argument::like(inputs[0], sum))
    }

    fn forward_finished(
        &self,
        run: &Run<'_>,
        inputs: &[&Argument],
        activation: Activation,
    ) -> Option<Result<Argument>> {
        let (&[a, b], [], Activation::Relu) = (inputs, run.parameters, activation) else {
            return None;
        };
        let (Value::Dense(x), Value::Dense(y)) = (&a.value, &b.value) else { return None };
        if x.dims() != y.dims() || !fused::is_supported(&x.device()) {
            return None;
        }
        Some(Ok(Argument::like(a, elementwise::add_relu(x.clone(), y.clone()))))
    }
}
