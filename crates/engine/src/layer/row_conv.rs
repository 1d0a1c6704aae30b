//! Row convolution, which looks ahead: `y[t] = Σᵢ w[i]·x[t + i]`, element by element, up to the end
//! of the sequence.

use super::{Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::{Argument, Offsets};
use crate::row_sums::{RowLists, row_sums};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowConvolution {
    /// Rows that are seen: the row itself and those after it.
    context: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<RowConvolution>(layer)?))
}

/// For each row the row `steps` later in its sequence, where there is one.
fn later(offsets: &Offsets, steps: usize) -> RowLists {
    let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
    for pair in offsets.windows(2) {
        for row in pair[0]..pair[1] {
            lists.rows.extend((row + steps < pair[1]).then_some((row + steps) as u32));
            lists.offsets.push(lists.rows.len());
        }
    }
    lists
}

impl Layer for RowConvolution {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        expect_sequence(&inputs[0])?;
        if self.context == 0 {
            return Err(Error::invalid("context_len must be 1 or more"));
        }
        let shape = inputs[0].with_size(inputs[0].size);
        Ok(Plan { shape, parameters: vec![Slot::weight(0, [self.context, inputs[0].size])] })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let (x, offsets, weight) = (inputs[0].dense()?, inputs[0].offsets()?, run.parameter(0));
        let longest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let mut sum = x.clone() * weight.clone().narrow(0, 0, 1);
        for steps in 1..self.context.min(longest) {
            let ahead = row_sums(x.clone(), later(offsets, steps));
            sum = sum + ahead * weight.clone().narrow(0, steps, 1);
        }
        Ok(Argument::like(inputs[0], sum))
    }
}
