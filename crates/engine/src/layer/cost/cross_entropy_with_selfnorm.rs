//! Cross entropy of scores that learn to be normalized: `−ln(x[y]/Z) + alpha·(ln Z)²`, Z being the
//! sum of the row, all of whose numbers are above 0.

use super::super::{Layer, Plan, Run, attributes, expect_inputs};
use super::cross_entropy::{expect_labels, picked_logarithm};
use super::{one, plan_rows, weighted};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SelfNormalized {
    #[serde(default = "one")]
    coeff: f32,
    #[serde(default = "alpha")]
    alpha: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SelfNormalized>(layer)?))
}

fn alpha() -> f32 {
    0.1
}

impl Layer for SelfNormalized {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_labels(inputs)?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let log_sum = inputs[0].dense()?.sum_dim(1).log();
        let penalty = (log_sum.clone() * log_sum.clone()).mul_scalar(self.alpha);
        weighted(log_sum - picked_logarithm(inputs)? + penalty, inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}
