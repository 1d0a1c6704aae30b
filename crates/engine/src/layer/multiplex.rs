//! For each row the row of one of several inputs; the first input says which, counted from 0.

use super::{
    Layer, Plan, Run, expect_dense, expect_inputs, expect_same_level, expect_same_rows,
    expect_same_size, no_attributes,
};
use crate::argument::{Argument, Value, numbers};
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{self, Shape};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};

struct Multiplex;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(Box::new(Multiplex))
}

impl Layer for Multiplex {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 3..=usize::MAX)?;
        expect_same_level(inputs)?;
        let index = &inputs[0];
        let is_number = match index.value {
            shape::Value::Dense => index.size == 1,
            shape::Value::Integer => true,
            shape::Value::SparseBinary | shape::Value::SparseFloat => false,
        };
        if !is_number {
            return Err(Error::invalid(format!(
                "the first input says which of the others is taken, by an integer or one number, \
                 but is {index}"
            )));
        }
        for (place, input) in inputs.iter().enumerate().skip(1) {
            expect_dense(&format!("input {place}"), input)?;
            expect_same_size(["input 1", &format!("input {place}")], [&inputs[1], input])?;
        }
        Ok(Plan::of(inputs[1].with_size(inputs[1].size).with_sides_of(&inputs[1])))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let (rows, choices) = (inputs[0].rows(), inputs.len() - 1);
        let wanted: Vec<f64> = match &inputs[0].value {
            Value::Integer(ids) => ids.iter().map(|id| *id as f64).collect(),
            _ => numbers(inputs[0].dense()?).into_iter().map(f64::from).collect(),
        };
        let is_there = |index: f64| index >= 0.0 && index < choices as f64 && index.fract() == 0.0;
        if let Some(index) = wanted.iter().find(|index| !is_there(**index)) {
            return Err(Error::invalid(format!(
                "there are inputs 0 to {} to choose from, but the index is {index}",
                choices - 1
            )));
        }
        let all = inputs[1..].iter().map(|input| input.dense()).collect::<Result<Vec<_>>>()?;
        let picked = wanted.iter().enumerate().map(|(row, index)| *index as usize * rows + row);
        let picked = RowLists::one_each(picked.map(|row| row as u32).collect());
        Ok(Argument::like(inputs[1], row_sums(Tensor::cat(all, 0), picked)))
    }
}
