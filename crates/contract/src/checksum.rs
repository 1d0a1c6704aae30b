//! The checksum of a file's content, or of a chunk of it: BLAKE3, written in hexadecimal.
//!
//! It says that bytes arrived as they were sent, and that two chunks are the same, so it has to be
//! both fast and free of collisions that somebody could make: CRC-32C is the first alone, SHA-256
//! the second alone.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The BLAKE3 hash of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum(pub [u8; CHECKSUM_BYTES]);

/// The length of a checksum.
pub const CHECKSUM_BYTES: usize = 32;

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Checksum(*blake3::hash(bytes).as_bytes())
    }
}

/// Computes a checksum of bytes that come in pieces.
#[derive(Debug, Clone, Default)]
pub struct Summing(blake3::Hasher);

impl Summing {
    /// The checksum of no bytes so far.
    pub fn new() -> Self {
        Summing::default()
    }

    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The checksum of all pieces.
    pub fn checksum(&self) -> Checksum {
        Checksum(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Checksum {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let message = "not a checksum: use the BLAKE3 in 64 lower-case hexadecimal digits";
            Error::invalid(message).with("checksum", text.escape_debug())
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 2 * CHECKSUM_BYTES || !text.bytes().all(is_digit) {
            return Err(refuse());
        }
        let mut bytes = [0; CHECKSUM_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| refuse())?;
        }
        Ok(Checksum(bytes))
    }
}

impl TryFrom<String> for Checksum {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> String {
        checksum.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_what_others_compute() {
        // From BLAKE3's own test vectors.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Checksum::of(b"").to_string(), empty);
        let mut pieces = Summing::new();
        pieces.add(b"ab");
        pieces.add(b"c");
        assert_eq!(pieces.checksum(), Checksum::of(b"abc"));
        assert_eq!(empty.parse::<Checksum>().unwrap(), Checksum::of(b""));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "af13", &"A".repeat(64), &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Checksum>().is_err(), "{text}");
        }
    }
}
