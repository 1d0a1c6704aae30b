//! The dot product of two rows.

use super::{Layer, expect_same_size, no_attributes, rowwise};
use crate::topology;
use contract::Result;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::pair(
        ["the first input", "the second input"],
        |shapes| expect_same_size(["the first input", "the second"], shapes).map(|()| 1),
        |a, b| (a * b).sum_dim(1),
    ))
}
