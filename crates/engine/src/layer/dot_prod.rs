//! The dot product of two rows.

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
struct DotProd {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<DotProd>(layer)?))
}

impl Layer for DotProd {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_dense("the first input", &inputs[0])?;
        expect_dense("the second input", &inputs[1])?;
        expect_same_size(["the first input", "the second"], [&inputs[0], &inputs[1]])?;
        Ok(Plan::of(inputs[0].with_size(1)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let product = (inputs[0].dense()? * inputs[1].dense()?).sum_dim(1);
        Ok(Argument::like(inputs[0], product))
    }
}
