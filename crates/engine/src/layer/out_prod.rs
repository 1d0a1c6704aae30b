//! The outer product of two rows: every number of the first times the second row.

use super::{Layer, no_attributes, rowwise};
use crate::topology;
use burn::tensor::Tensor;
use contract::Result;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::pair(
        ["input1", "input2"],
        |[a, b]| Ok(a.size.saturating_mul(b.size)),
        |a, b| {
            let ([rows, down], [_, across]) = (a.dims(), b.dims());
            let a: Tensor<3> = a.reshape([rows, down, 1]);
            (a * b.reshape([rows, 1, across])).reshape([rows, down * across])
        },
    ))
}
