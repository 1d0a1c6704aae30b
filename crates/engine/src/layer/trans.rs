//! The whole batch as a matrix, transposed: rows become columns.
//!
//! The number of rows of a batch is not known beforehand, so what follows must take any; the
//! declared size stays that of the input, and a batch that is not square is refused.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trans {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Trans>(layer)?))
}

impl Layer for Trans {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        if inputs[0].level != Level::Single {
            return Err(Error::invalid(format!("cannot transpose a {}", inputs[0])));
        }
        Ok(Plan::of(Shape::dense(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let input = inputs[0].dense()?;
        let [rows, width] = input.dims();
        if rows != width {
            return Err(Error::invalid(format!(
                "the batch has {rows} samples but a row has {width} numbers; \
                 only a square batch can be transposed"
            )));
        }
        Ok(Argument::single(input.transpose()))
    }

    fn is_sample_by_sample(&self) -> bool {
        false
    }
}
