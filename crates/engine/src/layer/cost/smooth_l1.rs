//! `Σ f(x − y)` of each row, f(d) being `½d²` where |d| < 1, else `|d| − ½`.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows, expect_same_size,
};
use super::{Coefficient, plan_rows, weighted};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;

struct SmoothL1(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(SmoothL1(attributes(layer)?)))
}

impl Layer for SmoothL1 {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        expect_dense("the label", &inputs[1])?;
        expect_same_size(["the input", "the label"], [&inputs[0], &inputs[1]])?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let distance = (inputs[0].dense()? - inputs[1].dense()?).abs();
        // ½·m² + (|d| − m), m being the smaller of |d| and 1, is both branches in one.
        let near = distance.clone().clamp_max(1.0);
        let cost = (near.clone() * near.clone()).mul_scalar(0.5) + (distance - near);
        weighted(cost.sum_dim(1), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
