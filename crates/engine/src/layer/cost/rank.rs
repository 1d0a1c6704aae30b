//! Of two scores and a label that says how probably the first belongs above the second: the cross entropy of `sigmoid(left − right)` and the label.

use super::super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows};
use super::{Coefficient, plan_rows};
use crate::activation::softplus;
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};

struct Rank(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(Rank(attributes(layer)?)))
}

impl Layer for Rank {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 3..=4)?;
        for (what, input) in ["the left", "the right", "the label", "the weight"].iter().zip(inputs)
        {
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
        let cost = softplus(difference.clone()) - difference * inputs[2].dense()?;
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
