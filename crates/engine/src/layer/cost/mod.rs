//! The costs: one number a row, to be made small. Their output is the cost itself; `coeff` scales
//! only the gradient.

pub(super) mod cross_entropy;
pub(super) mod cross_entropy_with_selfnorm;
pub(super) mod huber_classification;
pub(super) mod huber_regression;
pub(super) mod multi_binary_label_cross_entropy;
pub(super) mod rank;
pub(super) mod smooth_l1;
pub(super) mod square_error;
pub(super) mod sum;

use super::{Plan, expect_dense, expect_same_level, expect_same_rows};
use crate::argument::Argument;
use crate::batch::NO_ID;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

/// What most costs take: input, label and, if the third is there, a weight for each row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Coefficient {
    #[serde(default = "one")]
    coeff: f32,
}

fn one() -> f32 {
    1.0
}

/// The plan of a cost over such inputs: one number for each of their rows.
fn plan_rows(inputs: &[Shape]) -> Result<Plan> {
    expect_same_level(inputs)?;
    Ok(Plan::of(inputs[0].with_size(1)))
}

/// Checks the weight, where there is one.
fn expect_weight(inputs: &[Shape]) -> Result<()> {
    let Some(weight) = inputs.get(2) else { return Ok(()) };
    expect_dense("the weight", weight)?;
    if weight.size != 1 {
        return Err(Error::invalid(format!("the weight must have size 1 but has {}", weight.size)));
    }
    Ok(())
}

/// Checks that the ids of labels are ids.
fn expect_known(labels: &[u64]) -> Result<()> {
    if labels.contains(&NO_ID) {
        return Err(Error::invalid("a label must not be -1"));
    }
    Ok(())
}

/// The cost of each row, weighted where there is a weight.
fn weighted(cost: Tensor<2>, inputs: &[&Argument]) -> Result<Argument> {
    expect_same_rows(inputs)?;
    let cost = match inputs.get(2) {
        None => cost,
        Some(weight) => cost * weight.dense()?,
    };
    Ok(Argument::like(inputs[0], cost))
}
