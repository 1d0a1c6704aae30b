//! For each sequence of scores the places of its highest ones, best first, counted from 0 within
//! the sequence. Where there are fewer, the rest is −1.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::{Argument, numbers, tensor};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KMaxSequenceScore {
    beam_size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<KMaxSequenceScore>(layer)?))
}

impl Layer for KMaxSequenceScore {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        let input = &inputs[0];
        expect_dense("the input", input)?;
        expect_sequence(input)?;
        if input.size != 1 {
            return Err(Error::invalid(format!(
                "the input is a score for each row, so its size must be 1 but is {}",
                input.size
            )));
        }
        if self.beam_size == 0 {
            return Err(Error::invalid("beam_size must be 1 or more"));
        }
        // A row for each sequence: of nested ones, a sample has several.
        let level = if input.level == Level::Nested { Level::Sequence } else { Level::Single };
        Ok(Plan::of(Shape { level, ..Shape::dense(self.beam_size) }))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let scores = numbers(inputs[0].dense()?);
        let offsets = inputs[0].offsets()?;
        let mut best = vec![-1.0; (offsets.len() - 1) * self.beam_size];
        for (row, pair) in best.chunks_mut(self.beam_size).zip(offsets.windows(2)) {
            let scores = &scores[pair[0]..pair[1]];
            let mut places: Vec<usize> = (0..scores.len()).collect();
            // The first of equals comes first.
            places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            row.iter_mut().zip(places).for_each(|(entry, place)| *entry = place as f32);
        }
        let rows = tensor(best, [offsets.len() - 1, self.beam_size], run.device);
        Ok(Argument { sequences: inputs[0].nests.clone(), ..Argument::single(rows) })
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
