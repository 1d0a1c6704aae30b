//! The id of the largest number of each row.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::{Argument, Value, numbers};
use crate::shape::{self, Shape};
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaxId {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<MaxId>(layer)?))
}

impl Layer for MaxId {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let shape = inputs[0].with_size(inputs[0].size);
        Ok(Plan::of(Shape { value: shape::Value::Integer, ..shape }))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let input = inputs[0].dense()?;
        let [_, width] = input.dims();
        let best = |row: &[f32]| {
            let better =
                |best: usize, place: usize| if row[place] > row[best] { place } else { best };
            (0..row.len()).reduce(better).unwrap_or(0) as u64
        };
        let ids = numbers(input).chunks_exact(width).map(best).collect();
        Ok(inputs[0].with_value(Value::Integer(ids)))
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
