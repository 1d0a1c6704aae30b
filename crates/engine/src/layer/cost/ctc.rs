//! Connectionist temporal classification: minus the logarithm of the probability that rows, each
//! showing a label or the blank, show the label's sequence.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_sequence,
};
use super::{expect_known, weighted_sequences};
use crate::alignment::Alignment;
use crate::argument::{Argument, Origin};
use crate::fused;
use crate::shape::{Shape, Value};
use crate::topology;
use burn::tensor::activation::log_softmax;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ctc {
    blank: usize,
    /// Whether the input is to be made probabilities of, by softmax.
    is_linear: bool,
    #[serde(default)]
    norm_by_times: bool,
    #[serde(default = "super::one")]
    coeff: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Ctc>(layer)?))
}

impl Layer for Ctc {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        let (input, label) = (&inputs[0], &inputs[1]);
        expect_dense("the input", input)?;
        expect_one_sequence(input)?;
        expect_one_sequence(label)?;
        if label.value != Value::Integer || label.size > input.size {
            return Err(Error::invalid(format!(
                "the label must be an integer sequence of at most the input's {} classes, blank \
                 included, but is {label}",
                input.size
            )));
        }
        if self.blank >= input.size {
            return Err(Error::invalid("the blank must be one of the input's classes")
                .with("blank", self.blank)
                .with("size", input.size));
        }
        Ok(Plan::of(Shape::dense(1)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let labels = inputs[1].ids()?;
        expect_known(labels)?;
        let alignment = Alignment {
            rows: Arc::from(inputs[0].offsets()?),
            labels: Arc::clone(labels),
            label_offsets: Arc::from(inputs[1].offsets()?),
            classes: x.dims()[1],
            blank: self.blank,
            is_normed_by_rows: self.norm_by_times,
        };
        alignment.check()?;
        let logarithms = match &inputs[0].origin {
            _ if self.is_linear => log_softmax(x, 1),
            Some(Origin::Softmax(logits)) => log_softmax(logits.clone(), 1),
            _ => x.log(),
        };
        weighted_sequences(fused::apply_saving(alignment, vec![logarithms], 1), inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}
