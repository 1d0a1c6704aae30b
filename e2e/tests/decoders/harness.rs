//! Runs a decoder on many mutations of good input. It may refuse them, with an error of a kind that
//! says whose mistake it is; it may not panic, nor allocate much more than it was given.
//!
//! Mutations are a function of a seed, which a failure prints: `FUZZ_SEED=… make fuzz` repeats it.
//! `FUZZ_ROUNDS` multiplies the number of mutations.

use super::allocation;
use super::mutation::{Random, mutate};
use contract::{Kind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A decoder, and what it is tried with.
pub(crate) struct Row {
    /// What it decodes.
    pub(crate) name: &'static str,
    /// Good input, which it must accept.
    pub(crate) samples: Vec<Vec<u8>>,
    /// Decodes bytes, and uses what came out as its owner would.
    pub(crate) decode: fn(&[u8]) -> Result<()>,
    /// How many mutations: fewer where one is slow.
    pub(crate) rounds: u64,
    /// The most memory that any input may cost.
    pub(crate) bytes_max: u64,
}

/// Kinds that bytes from outside may cause; others would blame the disk, or the caller's rights.
const KINDS: [Kind; 6] = [
    Kind::Damaged,
    Kind::Invalid,
    Kind::Unsupported,
    Kind::LimitExceeded,
    Kind::Conflict,
    Kind::NotFound,
];
const SEED: u64 = 20_261_116;

/// Tries a row.
#[expect(clippy::print_stdout, reason = "a test says what it did")]
pub(crate) fn check(row: &Row) {
    let Row { name, samples, .. } = row;
    let number = |variable| std::env::var(variable).ok().and_then(|value| value.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or(SEED);
    let rounds = row.rounds * number("FUZZ_ROUNDS").unwrap_or(1);
    println!("{name}: seed {seed}, {rounds} mutations of {} samples", samples.len());
    for (place, sample) in samples.iter().enumerate() {
        if let Err(error) = (row.decode)(sample) {
            panic!("{name}: sample {place} is not good: {}", error.chain());
        }
    }
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let input = mutate(&mut random, samples);
        if let Some(fault) = fault_of(row, &input) {
            panic!(
                "{name}: {fault} in round {round} of FUZZ_SEED={seed}, for\n{}",
                input.escape_ascii()
            );
        }
    }
}

/// What is wrong with how a decoder took some bytes.
pub(crate) fn fault_of(row: &Row, input: &[u8]) -> Option<String> {
    let decode = || catch_unwind(AssertUnwindSafe(|| (row.decode)(input)));
    let (outcome, bytes) = allocation::peak_of(decode);
    let bytes_max = row.bytes_max;
    match outcome {
        Err(_) => Some("panic".to_owned()),
        Ok(_) if bytes > bytes_max => Some(format!("{bytes} bytes allocated, not {bytes_max}")),
        Ok(Err(error)) if !KINDS.contains(&error.kind()) => {
            Some(format!("{:?} error: {}", error.kind(), error.chain()))
        }
        Ok(_) => None,
    }
}
