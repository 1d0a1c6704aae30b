//! `Σ(x − y)²` of each row.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows, expect_same_size,
};
use super::{Coefficient, expect_weight, plan_rows, weighted};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;

struct SquareError(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(SquareError(attributes(layer)?)))
}

impl Layer for SquareError {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=3)?;
        expect_dense("the input", &inputs[0])?;
        expect_dense("the label", &inputs[1])?;
        expect_same_size(["the input", "the label"], [&inputs[0], &inputs[1]])?;
        expect_weight(inputs)?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let difference = inputs[0].dense()? - inputs[1].dense()?;
        weighted((difference.clone() * difference).sum_dim(1), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
