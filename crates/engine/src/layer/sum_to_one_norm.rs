//! Each row divided by the sum of its numbers.

use super::{Layer, no_attributes, rowwise};
use crate::topology;
use contract::Result;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::each(|x| x.clone() / x.sum_dim(1)))
}
