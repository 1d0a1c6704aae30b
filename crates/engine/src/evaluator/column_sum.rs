//! The mean over rows of a layer's last column.

use super::{Evaluator, attributes};
use crate::argument::{Argument, numbers};
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {}

#[derive(Default)]
struct ColumnSum {
    sum: f64,
    rows: f64,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    attributes::<Attributes>(evaluator)?;
    Ok(Box::new(ColumnSum::default()))
}

impl Evaluator for ColumnSum {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        match inputs {
            [input] | [input, _] if input.value == shape::Value::Dense => {
                super::expect_weight(inputs.get(1))
            }
            _ => Err(Error::invalid("takes one dense input and perhaps a weight")),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let input = inputs[0].dense()?;
        let [rows, width] = input.dims();
        let weights = super::weights(inputs.get(1).copied(), rows)?;
        for (row, values) in numbers(input).chunks_exact(width).enumerate() {
            let weight = weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
            self.sum += weight * f64::from(values[width - 1]);
            self.rows += weight;
        }
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        vec![("", if self.rows > 0.0 { self.sum / self.rows } else { 0.0 })]
    }

    fn clear(&mut self) {
        *self = ColumnSum::default();
    }
}
