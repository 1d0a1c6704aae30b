//! Each row several times side by side: the whole row (1 2 1 2), or every column (1 1 2 2).

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    times: usize,
    is_by_column: bool,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Repeat>(layer)?))
}

impl Layer for Repeat {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        if self.times == 0 {
            return Err(Error::invalid("num_repeats must be 1 or more"));
        }
        Ok(Plan::of(inputs[0].with_size(inputs[0].size.saturating_mul(self.times))))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let [rows, width] = x.dims();
        let repeated = if self.is_by_column {
            let columns: Tensor<2> = x.reshape([rows * width, 1]);
            columns.repeat_dim(1, self.times).reshape([rows, width * self.times])
        } else {
            x.repeat_dim(1, self.times)
        };
        Ok(Argument::like(inputs[0], repeated))
    }
}
