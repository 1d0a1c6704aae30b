//! Some of the sequences of each sample: those whose places the second input names, in its order,
//! up to the first −1.

use super::{Layer, Plan, Run, expect_dense, expect_inputs, no_attributes};
use crate::argument::Argument;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Result};
use std::sync::Arc;

struct SubNestedSequence;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(Box::new(SubNestedSequence))
}

impl Layer for SubNestedSequence {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_dense("the input", &inputs[0])?;
        super::places::expect_places("selected_indices", &inputs[1])?;
        if inputs[0].level != Level::Nested {
            return Err(Error::invalid(format!(
                "needs sequences of sequences but its input is {}",
                inputs[0]
            )));
        }
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let (sequences, nests) = (inputs[0].offsets()?, inputs[0].sample_nests()?);
        let selected = super::places::read_places(inputs[1], nests.len() - 1)?;
        let (mut rows, mut offsets, mut new_nests) = (Vec::new(), vec![0], vec![0]);
        for (sample, (pair, selected)) in nests.windows(2).zip(selected).enumerate() {
            for place in selected {
                if place >= pair[1] - pair[0] {
                    return Err(Error::invalid(format!(
                        "sequence {place} is selected of {}",
                        pair[1] - pair[0]
                    ))
                    .with("sample", sample));
                }
                let sequence = pair[0] + place;
                rows.extend((sequences[sequence]..sequences[sequence + 1]).map(|row| row as u32));
                offsets.push(rows.len());
            }
            new_nests.push(offsets.len() - 1);
        }
        let value = row_sums(inputs[0].dense()?, RowLists::one_each(rows));
        let nests = Some(Arc::from(new_nests));
        Ok(Argument { nests, ..Argument::sequence(value, offsets) })
    }
}
