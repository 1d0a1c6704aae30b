//! The sum of some vectors side by side, each times its weight: `Σⱼ wⱼ·vⱼ`.

use super::{Layer, attributes, rowwise};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinearCombination {
    /// The size of a vector; absent: what the inputs say.
    size: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let LinearCombination { size: wanted } = attributes(layer)?;
    Ok(rowwise::pair(
        ["weights", "vectors"],
        move |[weights, vectors]| {
            let size = vectors.size / weights.size;
            if !vectors.size.is_multiple_of(weights.size) || wanted.is_some_and(|own| own != size) {
                return Err(Error::invalid(format!(
                    "vectors has size {} but {} weights need {} times the layer's size",
                    vectors.size, weights.size, weights.size
                ))
                .with("size", wanted.unwrap_or(size)));
            }
            Ok(size)
        },
        |weights, vectors| {
            let ([rows, count], [_, all]) = (weights.dims(), vectors.dims());
            let weights: Tensor<3> = weights.reshape([rows, count, 1]);
            let vectors = vectors.reshape([rows, count, all / count]);
            (weights * vectors).sum_dim(1).reshape([rows, all / count])
        },
    ))
}
