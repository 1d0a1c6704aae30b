//! What layers leave to chance: a function of seed, step, part of the batch and layer alone, so
//! that a run can be repeated.

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

impl Chance {
    /// Of a layer that runs once in every step of a recurrent group.
    pub(crate) fn within(self, layer: usize, step: usize) -> Chance {
        let inside = ((layer as u64 + 1) << 32) | step as u64;
        Chance { seed: mix(self.seed ^ mix(inside)), ..self }
    }

    /// Random words, of splitmix64.
    pub(crate) fn words(self) -> impl Iterator<Item = u64> {
        let place = ((self.part as u64) << 32) | self.place as u64;
        let mut state = mix(mix(self.seed) ^ self.step) ^ mix(place);
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        })
    }

    /// Random numbers from 0 to below 1.
    pub(crate) fn numbers(self) -> impl Iterator<Item = f64> {
        self.words().map(|word| (word >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// The finalizer of splitmix64.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
