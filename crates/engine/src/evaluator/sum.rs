//! The sum of all numbers of a layer, per row: the mean of `sum` costs and of errors counted as 1.

use super::{Evaluator, attributes};
use crate::argument::{Argument, Value, numbers};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

#[derive(Default)]
struct Sum {
    sum: f64,
    rows: f64,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(Sum::default()))
}

impl Evaluator for Sum {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        match inputs {
            [input] | [input, _] if !input.is_sparse() => super::expect_weight(inputs.get(1)),
            _ => Err(Error::invalid("takes one dense or integer input and perhaps a weight")),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let rows = inputs[0].rows();
        let weights = super::weights(inputs.get(1).copied(), rows)?;
        let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
        match &inputs[0].value {
            Value::Dense(tensor) => {
                let [_, width] = tensor.dims();
                let values = numbers(tensor.clone());
                for (row, values) in values.chunks_exact(width).enumerate() {
                    let sum: f64 = values.iter().map(|value| f64::from(*value)).sum();
                    self.sum += weight(row) * sum;
                }
            }
            Value::Integer(ids) => {
                for (row, id) in ids.iter().enumerate() {
                    self.sum += weight(row) * *id as f64;
                }
            }
            Value::Sparse(_) => {}
        }
        self.rows += (0..rows).map(weight).sum::<f64>();
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        vec![("", if self.rows > 0.0 { self.sum / self.rows } else { 0.0 })]
    }

    fn clear(&mut self) {
        *self = Sum::default();
    }
}
