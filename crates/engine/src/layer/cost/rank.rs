//! Of two scores and a label that says how probably the first belongs above the second: the cross
//! entropy of `sigmoid(left − right)` and the label, which is a number or an id, 0 or 1.

use super::super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows};
use super::{Coefficient, expect_known, plan_rows};
use crate::activation::softplus;
use crate::argument::{self, Argument, tensor};
use crate::shape::{Shape, Value};
use crate::topology;
use contract::{Error, Result};

struct Rank(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(Rank(attributes(layer)?)))
}

/// Checks that the ids of a label are 0 and 1.
fn expect_binary(label: &Shape) -> Result<()> {
    if label.size == 2 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an integer label must be integer_value(2), 1 where left belongs above right and 0 where \
         below, but is {label}"
    )))
}

impl Layer for Rank {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 3..=4)?;
        for (what, input) in ["the left", "the right", "the label", "the weight"].iter().zip(inputs)
        {
            if *what == "the label" && input.value == Value::Integer {
                expect_binary(input)?;
                continue;
            }
            expect_dense(what, input)?;
            if input.size != 1 {
                return Err(Error::invalid(format!(
                    "{what} must have size 1 but has {}",
                    input.size
                )));
            }
        }
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let difference = inputs[0].dense()? - inputs[1].dense()?;
        let label = match &inputs[2].value {
            argument::Value::Integer(ids) => {
                expect_known(ids)?;
                let ids = ids.iter().map(|id| *id as f32).collect();
                tensor(ids, difference.dims(), &difference.device())
            }
            _ => inputs[2].dense()?,
        };
        let cost = softplus(difference.clone()) - difference * label;
        let cost = match inputs.get(3) {
            None => cost,
            Some(weight) => cost * weight.dense()?,
        };
        Ok(Argument::like(inputs[0], cost))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
