//! `−Σ(y·ln p + (1 − y)·ln(1 − p))` of each row: every column is a question of its own, answered by
//! 0 or 1. Labels are dense, or lists of the ids that are 1, or the one id that is 1.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows, expect_same_size,
};
use super::{Coefficient, expect_known, plan_rows, weighted};
use crate::activation::softplus;
use crate::argument::{Argument, Origin, Value, tensor};
use crate::batch::Lists;
use crate::shape::{self, Shape};
use crate::topology;
use burn::tensor::{Device, Tensor};
use contract::{Error, Result};

struct MultiBinaryLabelCrossEntropy(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(MultiBinaryLabelCrossEntropy(attributes(layer)?)))
}

/// A matrix with 1 at the ids of each row.
fn ones(lists: &Lists, dims: [usize; 2], device: &Device) -> Tensor<2> {
    let mut values = vec![0.0; dims[0] * dims[1]];
    for (row, pair) in lists.offsets.windows(2).enumerate() {
        for id in &lists.ids[pair[0]..pair[1]] {
            values[row * dims[1] + *id as usize] = 1.0;
        }
    }
    tensor(values, dims, device)
}

impl Layer for MultiBinaryLabelCrossEntropy {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        if inputs[1].value == shape::Value::SparseFloat {
            return Err(Error::invalid(format!(
                "the label must be dense, sparse binary or integer but is {}",
                inputs[1]
            )));
        }
        expect_same_size(["the input", "the label"], [&inputs[0], &inputs[1]])?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let p = inputs[0].dense()?;
        let y = match &inputs[1].value {
            Value::Sparse(lists) => {
                expect_known(&lists.ids)?;
                ones(lists, p.dims(), &p.device())
            }
            Value::Integer(ids) => {
                expect_known(ids)?;
                let offsets = (0..=ids.len()).collect();
                let one_each = Lists { offsets, ids: ids.to_vec(), values: None };
                ones(&one_each, p.dims(), &p.device())
            }
            Value::Dense(label) => label.clone(),
        };
        let cost = match &inputs[0].origin {
            Some(Origin::Sigmoid(x)) => softplus(x.clone()) - x.clone() * y,
            _ => {
                // 0·ln 0 is 0 here, not NaN.
                let logarithm = |p: Tensor<2>| p.clamp_min(f32::MIN_POSITIVE).log();
                let rest = (y.clone().neg() + 1.0) * logarithm(p.clone().neg() + 1.0);
                (y * logarithm(p) + rest).neg()
            }
        };
        weighted(cost.sum_dim(1), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
