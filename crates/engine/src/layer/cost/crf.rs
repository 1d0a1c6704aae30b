//! Conditional random field: minus the logarithm of the probability that a linear chain gives to
//! the labels of each sequence. The parameter has a row of scores for the first tag, one for the
//! last, and one of following tags for each tag.

use super::super::{Layer, Plan, Run, Slot, attributes, expect_one_sequence, expect_same_rows};
use super::cross_entropy::expect_labels;
use super::{Coefficient, expect_known, expect_weight, weighted_sequences};
use crate::argument::Argument;
use crate::chain::LogLikelihood;
use crate::fused;
use crate::shape::Shape;
use crate::topology;
use contract::Result;
use std::sync::Arc;

struct Crf(Coefficient);

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(Crf(attributes(layer)?)))
}

/// The scores of a chain of `tags` tags.
pub(in crate::layer) fn chain_slot(tags: usize) -> Slot {
    Slot::weight(0, [tags + 2, tags])
}

impl Layer for Crf {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        super::super::expect_inputs(inputs, 2..=3)?;
        expect_one_sequence(&inputs[0])?;
        expect_one_sequence(&inputs[1])?;
        expect_labels(inputs)?;
        expect_weight(inputs)?;
        let slot = chain_slot(inputs[0].size);
        Ok(Plan { shape: Shape::dense(1), parameters: vec![slot] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(&inputs[..2])?;
        let (x, labels) = (inputs[0].dense()?, inputs[1].ids()?);
        expect_known(labels)?;
        let offsets: Arc<[usize]> = Arc::from(inputs[0].offsets()?);
        let chain = LogLikelihood { offsets, labels: Arc::clone(labels), tags: x.dims()[1] };
        let costs = fused::apply_saving(chain, vec![x, run.parameter(0)], 1);
        weighted_sequences(costs, inputs)
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.0.coeff)
    }
}
