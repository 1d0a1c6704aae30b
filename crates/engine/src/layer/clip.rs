//! Every number, but not below `min` nor above `max`.

use super::{Layer, attributes, rowwise};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clip {
    min: f32,
    max: f32,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let Clip { min, max } = attributes(layer)?;
    if min >= max {
        return Err(Error::invalid("min must be below max").with("min", min).with("max", max));
    }
    Ok(rowwise::each(move |x| x.clamp(min, max)))
}
