//! `slope·x + intercept`, of every number.

use super::{Layer, attributes, rowwise};
use crate::topology;
use contract::Result;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlopeIntercept {
    slope: f32,
    intercept: f32,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let SlopeIntercept { slope, intercept } = attributes(layer)?;
    Ok(rowwise::each(move |x| x.mul_scalar(slope).add_scalar(intercept)))
}
