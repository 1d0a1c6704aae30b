//! Each row divided by its length, `x / √Σx²`. A row of zeros stays one.

use super::cos_sim::length_of;
use super::{Layer, no_attributes, rowwise};
use crate::topology;
use contract::Result;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::each(|x| x.clone() / length_of(x)))
}
