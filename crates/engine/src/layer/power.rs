//! Every number of a row to the power of the row's exponent.

use super::{Layer, no_attributes, rowwise};
use crate::topology;
use contract::{Error, Result};

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    no_attributes(layer)?;
    Ok(rowwise::pair(
        ["the input", "the weight"],
        |[input, weight]| match weight.size {
            1 => Ok(input.size),
            size => Err(Error::invalid(format!("the weight must have size 1 but has {size}"))),
        },
        |x, weight| {
            // 0 counts as the smallest positive number: the logarithm of 0 in the gradient of the
            // exponent would make 0·∞ of it, which is not a number.
            let is_zero = x.clone().equal_elem(0.0);
            let [rows, width] = x.dims();
            x.mask_fill(is_zero, f32::MIN_POSITIVE).powf(weight.expand([rows, width]))
        },
    ))
}
