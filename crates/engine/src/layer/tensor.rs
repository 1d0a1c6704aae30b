//! The tensor product of two rows: `yₖ = a·Wₖ·bᵀ`. The weight has the matrices Wₖ one below the
//! other.

use super::{
    Initial, Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs, expect_same_level,
    expect_same_rows,
};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorProduct {
    size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<TensorProduct>(layer)?))
}

impl Layer for TensorProduct {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_dense("a", &inputs[0])?;
        expect_dense("b", &inputs[1])?;
        if self.size == 0 {
            return Err(Error::invalid("size must be 1 or more"));
        }
        let slot = Slot::weight(0, [self.size.saturating_mul(inputs[0].size), inputs[1].size]);
        let initial = Initial::Normal { mean: 0.0, std: 1.0 / (inputs[0].size as f64).sqrt() };
        let shape = inputs[0].with_size(self.size);
        Ok(Plan { shape, parameters: vec![Slot { initial, ..slot }] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let (a, b) = (inputs[0].dense()?, inputs[1].dense()?);
        let ([rows, down], [_, across]) = (a.dims(), b.dims());
        let weight: Tensor<3> = run.parameter(0).reshape([self.size, down, across]);
        let weight = weight.swap_dims(0, 1).reshape([down, self.size * across]);
        let products: Tensor<3> = a.matmul(weight).reshape([rows, self.size, across]);
        let products = products * b.reshape([rows, 1, across]);
        Ok(Argument::like(inputs[0], products.sum_dim(2).reshape([rows, self.size])))
    }
}
