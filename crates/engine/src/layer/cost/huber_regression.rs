//! `Σ f(x − y)` of each row, f(d) being `½d²` where |d| ≤ delta, else `delta·(|d| − ½delta)`.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows, expect_same_size,
};
use super::{one, plan_rows, weighted};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HuberRegression {
    #[serde(default = "one")]
    pub(super) coeff: f32,
    #[serde(default = "one")]
    pub(super) delta: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<HuberRegression>(layer)?))
}

impl Layer for HuberRegression {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        if self.delta.is_nan() || self.delta <= 0.0 {
            return Err(Error::invalid("delta must be above 0").with("delta", self.delta));
        }
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        expect_dense("the label", &inputs[1])?;
        expect_same_size(["the input", "the label"], [&inputs[0], &inputs[1]])?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let distance = (inputs[0].dense()? - inputs[1].dense()?).abs();
        // ½·m² + delta·(|d| − m), m being the smaller of |d| and delta, is both branches in one.
        let near = distance.clone().clamp_max(self.delta);
        let cost = (near.clone() * near.clone()).mul_scalar(0.5)
            + (distance - near).mul_scalar(self.delta);
        weighted(cost.sum_dim(1), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}
