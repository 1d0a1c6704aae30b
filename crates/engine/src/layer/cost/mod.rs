//! The costs: one number a row, to be made small. Their output is the cost itself; `coeff` scales
//! only the gradient.

pub(super) mod crf;
pub(super) mod cross_entropy;
pub(super) mod cross_entropy_over_beam;
pub(super) mod cross_entropy_with_selfnorm;
pub(super) mod ctc;
pub(super) mod hsigmoid;
pub(super) mod huber_classification;
pub(super) mod huber_regression;
pub(super) mod lambda;
pub(super) mod multi_binary_label_cross_entropy;
pub(super) mod multibox_loss;
pub(super) mod nce;
pub(super) mod rank;
pub(super) mod smooth_l1;
pub(super) mod square_error;
pub(super) mod sum;

use super::{Plan, Run, expect_dense, expect_same_level, expect_same_rows};
use crate::argument::Argument;
use crate::batch::NO_ID;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Shape, Value};
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

/// The cost of each sequence, weighted where there is a weight.
fn weighted_sequences(costs: Tensor<2>, inputs: &[&Argument]) -> Result<Argument> {
    let Some(weight) = inputs.get(2) else { return Ok(Argument::single(costs)) };
    if weight.rows() != costs.dims()[0] {
        return Err(Error::invalid("needs one weight a sequence")
            .with("weights", weight.rows())
            .with("sequences", costs.dims()[0]));
    }
    Ok(Argument::single(costs * weight.dense()?))
}

/// Which rows of inputs meet which rows of weights, pair by pair.
struct Pairs {
    inputs: Vec<u32>,
    weights: Vec<u32>,
}

impl Pairs {
    /// For each pair the product of its rows, summed over the inputs, each of which has a weight;
    /// plus the number of the row of weights in the bias, if there is one.
    fn scores(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Tensor<2>> {
        let picked = |tensor, rows: &[u32]| row_sums(tensor, RowLists::one_each(rows.to_vec()));
        let bias = run.parameters.get(inputs.len());
        let mut scores = bias.map(|bias| picked(bias.clone().transpose(), &self.weights));
        for (slot, input) in inputs.iter().enumerate() {
            let x = picked(input.dense()?, &self.inputs);
            let product = (x * picked(run.parameter(slot), &self.weights)).sum_dim(1);
            scores = Some(match scores {
                None => product,
                Some(sum) => sum + product,
            });
        }
        scores.ok_or_else(|| Error::invalid("has no inputs"))
    }
}

/// Checks the label of a cost that picks some of its classes.
fn expect_class(label: &Shape, classes: usize) -> Result<()> {
    if classes < 2 {
        return Err(Error::invalid("num_classes must be 2 or more").with("num_classes", classes));
    }
    if label.value != Value::Integer || label.size > classes || label.size == 0 {
        return Err(Error::invalid(format!(
            "the label must be integer with at most num_classes, {classes}, values but is {label}"
        )));
    }
    Ok(())
}
