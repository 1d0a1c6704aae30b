//! `w·a + (1 − w)·b` of two rows a and b, w being one number a row.

use super::scaling::expect_weight;
use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
    expect_same_size,
};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interpolation {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Interpolation>(layer)?))
}

impl Layer for Interpolation {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 3..=3)?;
        expect_same_level(inputs)?;
        expect_dense("the first input", &inputs[0])?;
        expect_dense("the second input", &inputs[1])?;
        expect_same_size(["the first input", "the second"], [&inputs[0], &inputs[1]])?;
        expect_weight(&inputs[2])?;
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let (a, b, weight) = (inputs[0].dense()?, inputs[1].dense()?, inputs[2].dense()?);
        Ok(Argument::like(inputs[0], (a - b.clone()) * weight + b))
    }
}
