//! The cosine of the angle between two rows, times `scale`. The second input may hold `size` rows
//! side by side; each is compared with the first.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CosSim {
    #[serde(default = "one")]
    scale: f32,
    #[serde(default = "single")]
    size: usize,
}

fn one() -> f32 {
    1.0
}

fn single() -> usize {
    1
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<CosSim>(layer)?))
}

impl Layer for CosSim {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_dense("the first input", &inputs[0])?;
        expect_dense("the second input", &inputs[1])?;
        if inputs[0].size.checked_mul(self.size) != Some(inputs[1].size) || self.size == 0 {
            return Err(Error::invalid(format!(
                "the second input has size {} but must have {} times the first's {}",
                inputs[1].size, self.size, inputs[0].size
            )));
        }
        Ok(Plan::of(inputs[0].with_size(self.size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let (a, b) = (inputs[0].dense()?, inputs[1].dense()?);
        let [_, width] = a.dims();
        let length = length_of(a.clone());
        let cosines = (0..self.size).map(|part| {
            let other = b.clone().narrow(1, part * width, width);
            let product = (a.clone() * other.clone()).sum_dim(1);
            product / (length.clone() * length_of(other))
        });
        let cosines = Tensor::cat(cosines.collect(), 1).mul_scalar(self.scale);
        Ok(Argument::like(inputs[0], cosines))
    }
}

/// The length of each row. That of zeros counts as 1: its cosine is 0, and its gradient a number.
pub(super) fn length_of(x: Tensor<2>) -> Tensor<2> {
    let squares = (x.clone() * x).sum_dim(1);
    let is_zero = squares.clone().equal_elem(0.0);
    squares.mask_fill(is_zero, 1.0).sqrt()
}
