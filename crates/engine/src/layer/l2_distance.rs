//! The Euclidean distance of two rows. That of equal rows is 0, and so is its gradient.

use super::{Layer, expect_same_size, no_attributes, rowwise};
use crate::topology;
use contract::Result;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::pair(
        ["x", "y"],
        |shapes| expect_same_size(["x", "y"], shapes).map(|()| 1),
        |x, y| {
            let difference = x - y;
            let squares = (difference.clone() * difference).sum_dim(1);
            let is_zero = squares.clone().equal_elem(0.0);
            squares.mask_fill(is_zero.clone(), 1.0).sqrt().mask_fill(is_zero, 0.0)
        },
    ))
}
