//! Fully connected: the sum over inputs of `x·w`, where x is dense or a list of ids.

use super::{
    Layer, Plan, Run, Slot, attributes, expect_inputs, expect_same_level, expect_same_rows,
};
use crate::activation::Activation;
use crate::argument::{Argument, Value};
use crate::fully_connected::fully_connected;
use crate::fused;
use crate::row_sums::row_sums;
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fc {
    size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Fc>(layer)?))
}

impl Layer for Fc {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=usize::MAX)?;
        expect_same_level(inputs)?;
        if self.size == 0 {
            return Err(Error::invalid("size must be 1 or more").with("size", self.size));
        }
        let mut plan = Plan::of(inputs[0].with_size(self.size));
        for (place, input) in inputs.iter().enumerate() {
            plan.parameters.push(match input.value {
                shape::Value::Dense => Slot::weight(place, [input.size, self.size]),
                shape::Value::SparseBinary | shape::Value::SparseFloat => {
                    Slot::table(place, input, self.size)
                }
                shape::Value::Integer => {
                    return Err(Error::invalid(format!(
                        "fc takes numbers but input {place} is {input}; look its ids up with \
                         paddle.layer.embedding first"
                    )));
                }
            });
        }
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let mut sum = None;
        for (slot, input) in inputs.iter().enumerate() {
            let product = match &input.value {
                Value::Dense(x) => x.clone().matmul(run.parameter(slot)),
                _ => row_sums(run.parameter(slot), run.lists(slot, input)?),
            };
            sum = Some(match sum {
                None => product,
                Some(sum) => sum + product,
            });
        }
        let sum = sum.ok_or_else(|| Error::invalid("fc has no inputs"))?;
        Ok(Argument::like(inputs[0], sum))
    }

    fn forward_finished(
        &self,
        run: &Run<'_>,
        inputs: &[&Argument],
        activation: Activation,
    ) -> Option<Result<Argument>> {
        let ([Argument { value: Value::Dense(x), .. }], [w, b]) = (inputs, run.parameters) else {
            return None;
        };
        if !fused::is_supported(&x.device()) {
            return None;
        }
        let is_relu = activation == Activation::Relu;
        let output = fully_connected(x.clone(), w.clone(), b.clone(), is_relu);
        let output = Argument::like(inputs[0], output);
        Some(match activation {
            Activation::Linear | Activation::Relu => Ok(output),
            other => other.apply(output),
        })
    }
}
