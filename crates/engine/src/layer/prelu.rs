//! x where it is above 0, else x times a learnt number, which neighbouring columns may share.

use super::{Initial, Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::{Tensor, activation};
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prelu {
    /// Columns that share a number.
    partial_sum: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Prelu>(layer)?))
}

impl Layer for Prelu {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let size = inputs[0].size;
        if self.partial_sum == 0 || !size.is_multiple_of(self.partial_sum) {
            return Err(Error::invalid(format!(
                "partial_sum, {}, does not divide the size of the input, {size}",
                self.partial_sum
            )));
        }
        let slot = Slot::weight(0, [1, size / self.partial_sum]);
        let initial = Initial::Constant { value: 0.25 };
        let shape = inputs[0].with_size(size).with_sides_of(&inputs[0]);
        Ok(Plan { shape, parameters: vec![Slot { initial, ..slot }] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let [_, width] = x.dims();
        let slopes: Tensor<2> = run.parameter(0).reshape([width / self.partial_sum, 1]);
        let slopes = slopes.repeat_dim(1, self.partial_sum).reshape([1, width]);
        let y = activation::relu(x.clone()) - activation::relu(x.neg()) * slopes;
        Ok(Argument::like(inputs[0], y))
    }
}
