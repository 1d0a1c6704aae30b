//! Mutations of valid input: what a careless disk, an old release or a hostile peer might send.
//! The same seed makes the same mutations.

/// A small random generator (SplitMix64).
pub(crate) struct Random(u64);

/// Numbers at which decoders go wrong: ends of ranges, signs, sizes that nobody has.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 40,
    1 << 62,
    i64::MAX as u64,
    u64::MAX,
];
/// The most mutations of one input.
const MUTATIONS_MAX: u64 = 4;
/// Input does not grow beyond this.
const BYTES_MAX: usize = 1 << 16;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

/// One of the samples, changed in one to four places.
pub(crate) fn mutate(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = samples[random.below(samples.len())].clone();
    for _ in 0..=random.next() % MUTATIONS_MAX {
        change(random, &mut bytes, samples);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, samples: &[Vec<u8>]) {
    let at = random.below(bytes.len());
    match random.next() % 10 {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => {
            let end = at + random.below(bytes.len() - at + 1);
            bytes.drain(at..end);
        }
        4 => {
            let end = at + random.below(bytes.len() - at + 1).min(256);
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        5 => {
            let other = &samples[random.below(samples.len())];
            let from = random.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        6 => overwrite(random, bytes, at, 4),
        7 => overwrite(random, bytes, at, 8),
        _ => rewrite_number(random, bytes, at),
    }
}

/// Writes a little-endian number over what is there.
fn overwrite(random: &mut Random, bytes: &mut [u8], at: usize, width: usize) {
    let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
    // Most fields are aligned.
    let at = at - at % width;
    for (target, byte) in bytes[at..].iter_mut().zip(&number[..width]) {
        *target = *byte;
    }
}

/// Replaces the first decimal number behind `at` by another one.
fn rewrite_number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found)
    else {
        return;
    };
    let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut number = NUMBERS[random.below(NUMBERS.len())].to_string();
    match random.next() % 8 {
        0 => number.insert(0, '-'),
        1 => number.push_str("e9"),
        2 => number = "null".to_owned(),
        _ => {}
    }
    bytes.splice(begin..begin + digits, number.into_bytes());
}
