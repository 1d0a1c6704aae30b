//! What pairs of the input's columns add beyond their own effects: `Σᵢ<ⱼ ⟨vᵢ, vⱼ⟩·xᵢ·xⱼ`, computed
//! as `½·Σ((x·v)² − x²·v²)`.

use super::{Layer, Plan, Run, Slot, attributes, expect_inputs};
use crate::argument::{Argument, Value};
use crate::row_sums::row_sums;
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FactorizationMachine {
    factor_size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<FactorizationMachine>(layer)?))
}

impl Layer for FactorizationMachine {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        let input = &inputs[0];
        if self.factor_size == 0 {
            return Err(Error::invalid("factor_size must be 1 or more"));
        }
        let slot = match input.value {
            shape::Value::Dense => Slot::weight(0, [input.size, self.factor_size]),
            shape::Value::SparseBinary | shape::Value::SparseFloat => {
                Slot::table(0, input, self.factor_size)
            }
            shape::Value::Integer => {
                return Err(Error::invalid(format!(
                    "takes dense or sparse input but it is {input}"
                )));
            }
        };
        Ok(Plan { shape: input.with_size(1), parameters: vec![slot] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let factors = run.parameter(0);
        let squares = factors.clone() * factors.clone();
        let (sums, sums_of_squares) = match &inputs[0].value {
            Value::Dense(x) => (x.clone().matmul(factors), (x.clone() * x.clone()).matmul(squares)),
            _ => {
                let lists = run.lists(0, inputs[0])?;
                let mut squared = lists.clone();
                squared.weights.iter_mut().flatten().for_each(|weight| *weight *= *weight);
                (row_sums(factors, lists), row_sums(squares, squared))
            }
        };
        let pairs = (sums.clone() * sums - sums_of_squares).sum_dim(1).mul_scalar(0.5);
        Ok(Argument::like(inputs[0], pairs))
    }
}
