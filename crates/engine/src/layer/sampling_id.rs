//! An id drawn by the probabilities of each row. The same seed and step draw the same.

use super::{Layer, Plan, Run, expect_dense, expect_inputs, no_attributes};
use crate::argument::{Argument, Value, numbers};
use crate::shape::{self, Shape};
use crate::topology;
use contract::Result;

struct SamplingId;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(Box::new(SamplingId))
}

/// The column at which the sum of the row's numbers passes `share`, 0 to 1, of the whole.
fn draw(row: &[f32], share: f64) -> u64 {
    let whole: f64 = row.iter().map(|number| f64::from(*number)).sum();
    let mut left = share * whole;
    for (column, number) in row.iter().enumerate() {
        left -= f64::from(*number);
        if left < 0.0 {
            return column as u64;
        }
    }
    row.len() as u64 - 1
}

impl Layer for SamplingId {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        let shape = inputs[0].with_size(inputs[0].size);
        Ok(Plan::of(Shape { value: shape::Value::Integer, ..shape }))
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let [_, width] = x.dims();
        let values = numbers(x);
        let rows = values.chunks_exact(width).zip(run.chance.numbers());
        let ids = rows.map(|(row, share)| draw(row, share)).collect();
        Ok(inputs[0].with_value(Value::Integer(ids)))
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_drawn_as_often_as_its_probability_says() {
        let row = [0.25, 0.0, 0.5, 0.25];
        for (share, expected) in [(0.0, 0), (0.24, 0), (0.25, 2), (0.74, 2), (0.75, 3), (0.99, 3)] {
            assert_eq!(draw(&row, share), expected, "{share}");
        }
    }
}
