//! `−ln p[y]` of each row, p being probabilities and y the id of the right one.

use super::super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use super::{Coefficient, expect_known, expect_weight, plan_rows, weighted};
use crate::argument::{Argument, Origin};
use crate::shape::{Shape, Value};
use crate::{elementwise, fused, topology};
use burn::tensor::{Int, Tensor, TensorData, activation};
use contract::{Error, Result};

struct CrossEntropy(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(CrossEntropy(attributes(layer)?)))
}

impl Layer for CrossEntropy {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=3)?;
        expect_labels(inputs)?;
        expect_weight(inputs)?;
        plan_rows(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        weighted(label_logarithm(inputs)?.neg(), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}

/// Checks that the label is an id of one of the input's columns.
pub(in crate::layer) fn expect_labels(inputs: &[Shape]) -> Result<()> {
    let (input, label) = (&inputs[0], &inputs[1]);
    expect_dense("the input", input)?;
    if label.value != Value::Integer {
        return Err(Error::invalid(format!(
            "the label must be integer but is {label}; give it type integer_value({})",
            input.size
        )));
    }
    if label.size != input.size {
        return Err(Error::invalid(format!(
            "the input has size {} but the label has {} classes; they must be the same",
            input.size, label.size
        )));
    }
    Ok(())
}

/// The logarithm of the label's probability in each row, from logits where they are known.
fn label_logarithm(inputs: &[&Argument]) -> Result<Tensor<2>> {
    match &inputs[0].origin {
        Some(Origin::Softmax(logits)) if fused::is_supported(&logits.device()) => {
            let columns = known_labels(inputs)?.iter().map(|id| *id as usize).collect();
            Ok(elementwise::picked_log_softmax(logits.clone(), inputs[0].dense()?, columns))
        }
        Some(Origin::Softmax(logits)) => {
            Ok(activation::log_softmax(logits.clone(), 1).gather(1, labels(inputs)?))
        }
        _ => picked_logarithm(inputs),
    }
}

/// The logarithm of the label's number in each row.
pub(super) fn picked_logarithm(inputs: &[&Argument]) -> Result<Tensor<2>> {
    Ok(inputs[0].dense()?.gather(1, labels(inputs)?).log())
}

/// The ids of the labels, one a row.
fn known_labels<'a>(inputs: &[&'a Argument]) -> Result<&'a [u64]> {
    let ids = inputs[1].ids()?;
    super::expect_same_rows(&inputs[..2])?;
    expect_known(ids)?;
    Ok(ids)
}

fn labels(inputs: &[&Argument]) -> Result<Tensor<2, Int>> {
    let ids: Vec<i32> = known_labels(inputs)?.iter().map(|id| *id as i32).collect();
    let rows = ids.len();
    let device = inputs[0].dense()?.device();
    Ok(Tensor::from_data(TensorData::new(ids, [rows, 1]), &device))
}
