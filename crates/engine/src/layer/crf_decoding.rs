//! The best tags of a sequence by a linear chain, whose scores are shared with a `crf` layer. With
//! a label, whether each is wrong, as 0 or 1; evaluators then still see the tags.

use super::cost::crf::chain_slot;
use super::cost::cross_entropy::expect_labels;
use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_same_rows, expect_sequence,
};
use crate::argument::{Argument, Origin, Value, numbers, tensor};
use crate::chain::best_tags;
use crate::shape::{self, Shape};
use crate::topology;
use contract::Result;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrfDecoding {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<CrfDecoding>(layer)?))
}

impl Layer for CrfDecoding {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=2)?;
        let input = &inputs[0];
        expect_dense("the input", input)?;
        expect_sequence(input)?;
        let shape = match inputs.get(1) {
            None => Shape { value: shape::Value::Integer, ..input.with_size(input.size) },
            Some(label) => {
                expect_sequence(label)?;
                expect_labels(inputs)?;
                input.with_size(1)
            }
        };
        Ok(Plan { shape, parameters: vec![chain_slot(input.size)] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let (device, [rows, tags]) = (x.device(), x.dims());
        let weight = numbers(run.parameter(0));
        let best = best_tags(&numbers(x), &weight, inputs[0].offsets()?, tags);
        let best: Arc<[u64]> = Arc::from(best);
        let Some(label) = inputs.get(1) else {
            return Ok(inputs[0].with_value(Value::Integer(best)));
        };
        expect_same_rows(inputs)?;
        let pairs = best.iter().zip(label.ids()?.iter());
        let wrong = pairs.map(|(tag, label)| f32::from(u8::from(tag != label))).collect();
        let found = Argument::like(inputs[0], tensor(wrong, [rows, 1], &device));
        Ok(Argument { origin: Some(Origin::Ids(best)), ..found })
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
