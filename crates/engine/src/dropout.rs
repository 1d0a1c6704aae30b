//! Dropout: in training each number stays or becomes 0 by chance, unscaled; a test multiplies by
//! the share that stays instead. The chance is a function of seed, step and layer alone, so a run
//! can be repeated; parts of a batch that are computed apart have chances of their own.

use crate::argument::tensor;
use burn::tensor::Tensor;

/// What decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    /// The number of the part of the batch.
    pub(crate) part: usize,
    /// The place of the layer.
    pub(crate) place: usize,
}

/// `x` with a share of `rate` of its numbers set to 0.
pub(crate) fn drop_out(x: Tensor<2>, rate: f32, chance: Chance) -> Tensor<2> {
    let [rows, width] = x.dims();
    let mut state = mix(mix(chance.seed) ^ chance.step)
        ^ mix(((chance.part as u64) << 32) | chance.place as u64);
    let limit = (f64::from(rate) * 2_f64.powi(32)) as u64;
    let mut bits = 0;
    let mask = (0..rows * width).map(|place| {
        if place % 2 == 0 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            bits = mix(state);
        } else {
            bits >>= 32;
        }
        f32::from(u8::from((bits & 0xffff_ffff) >= limit))
    });
    let mask = tensor(mask.collect(), [rows, width], &x.device());
    x * mask
}

/// The finalizer of splitmix64.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
