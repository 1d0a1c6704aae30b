//! With y = ±1 for the labels 1 and 0 and a = y·x: 0 where a > 1, `(1 − a)²` where a > −1, else `−4a`.

use super::super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows};
use super::{Coefficient, expect_known, plan_rows, weighted};
use crate::argument::{Argument, tensor};
use crate::shape::{Shape, Value};
use crate::topology;
use burn::tensor::activation;
use contract::{Error, Result};

struct HuberClassification(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(HuberClassification(attributes(layer)?)))
}

impl Layer for HuberClassification {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        if inputs[0].size != 1 {
            let size = inputs[0].size;
            return Err(Error::invalid(format!("the input must have size 1 but has {size}")));
        }
        if inputs[1].value != Value::Integer || inputs[1].size != 2 {
            return Err(Error::invalid(format!(
                "the label must be integer_value(2) but is {}",
                inputs[1]
            )));
        }
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let x = inputs[0].dense()?;
        let ids = inputs[1].ids()?;
        expect_known(ids)?;
        let signs: Vec<f32> = ids.iter().map(|id| if *id == 1 { 1.0 } else { -1.0 }).collect();
        let signs = tensor(signs, x.dims(), &x.device());
        // With g = max(1 − a, 0) and m the smaller of g and 2, m² + 4·(g − m) is all branches.
        let gap = activation::relu((x * signs).neg() + 1.0);
        let near = gap.clone().clamp_max(2.0);
        weighted(near.clone() * near.clone() + (gap - near).mul_scalar(4.0), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
