//! Circular convolution of two rows: `cᵢ = Σⱼ a₍ᵢ₊ⱼ₋ₕ₎·bⱼ`, where h is half of b's size, rounded
//! down, and indices of a wrap around.

use super::{Layer, no_attributes, rowwise};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::pair(
        ["a", "b"],
        |[a, b]| {
            if b.size % 2 == 0 || b.size > a.size {
                return Err(Error::invalid(format!(
                    "b must have an odd size, and none above that of a, {}, but has {}",
                    a.size, b.size
                )));
            }
            Ok(a.size)
        },
        |a, b| {
            let ([_, width], [_, taps]) = (a.dims(), b.dims());
            // Both ends of a beside it, so that every shift is a part of it.
            let half = (taps - 1) / 2;
            let around = match half {
                0 => a,
                _ => {
                    let before = a.clone().narrow(1, width - half, half);
                    let after = a.clone().narrow(1, 0, half);
                    Tensor::cat(vec![before, a, after], 1)
                }
            };
            let product = |tap| around.clone().narrow(1, tap, width) * b.clone().narrow(1, tap, 1);
            (1..taps).map(product).fold(product(0), |sum, term| sum + term)
        },
    ))
}
