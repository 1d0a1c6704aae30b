//! The Huber regression cost with delta 1.

use super::super::{Layer, attributes};
use super::Coefficient;
use super::huber_regression::HuberRegression;
use crate::topology;
use contract::Result;

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let Coefficient { coeff } = attributes(layer)?;
    Ok(Box::new(HuberRegression { coeff, delta: 1.0 }))
}
