//! Dropout: in training each number stays or becomes 0 by chance, unscaled; a test multiplies by
//! the share that stays instead. Parts of a batch that are computed apart have chances of their
//! own.

use crate::argument::tensor;
use crate::chance::Chance;
use burn::tensor::Tensor;

/// `x` with a share of `rate` of its numbers set to 0.
pub(crate) fn drop_out(x: Tensor<2>, rate: f32, chance: Chance) -> Tensor<2> {
    let [rows, width] = x.dims();
    let limit = (f64::from(rate) * 2_f64.powi(32)) as u64;
    // A word serves two numbers.
    let halves = chance.words().flat_map(|word| [word & 0xffff_ffff, word >> 32]);
    let mask = halves.take(rows * width).map(|half| f32::from(u8::from(half >= limit)));
    let mask = tensor(mask.collect(), [rows, width], &x.device());
    x * mask
}
