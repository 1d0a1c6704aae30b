//! For each sample, the rows of one sequence and then those of another.

use super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_sequence,
    expect_same_size,
};
use crate::argument::Argument;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceConcat {}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequenceConcat>(layer)?))
}

impl Layer for SequenceConcat {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        for (input, what) in inputs.iter().zip(["the first input", "the second"]) {
            expect_dense(what, input)?;
            expect_one_sequence(input)?;
        }
        expect_same_size(["the first input", "the second"], [&inputs[0], &inputs[1]])?;
        Ok(Plan::of(inputs[0].with_size(inputs[0].size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let (first, second) = (inputs[0].offsets()?, inputs[1].offsets()?);
        if first.len() != second.len() {
            return Err(Error::invalid("inputs have another number of sequences"));
        }
        let mut rows = Vec::new();
        let mut offsets = vec![0];
        let shift = inputs[0].rows();
        for (a, b) in first.windows(2).zip(second.windows(2)) {
            rows.extend((a[0]..a[1]).map(|row| row as u32));
            rows.extend((b[0]..b[1]).map(|row| (shift + row) as u32));
            offsets.push(rows.len());
        }
        let parts = inputs.iter().filter(|input| input.rows() > 0);
        let parts = parts.map(|input| input.dense()).collect::<Result<Vec<_>>>()?;
        let value = row_sums(Tensor::cat(parts, 0), RowLists::one_each(rows));
        Ok(Argument::sequence(value, offsets))
    }
}
