//! The original's parameter file: a header of 16 bytes, then the numbers, little-endian.
//!
//! ```text
//! i32 format = 0 | u32 bytes of a number (4: f32, 8: u64 keys) | u64 count | the numbers
//! ```

use contract::{Error, Kind, Result};
use std::io::Read;

/// Bytes of a header.
pub(super) const HEADER_BYTES: u64 = 16;

/// What the numbers of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// f32.
    Values,
    /// u64.
    Keys,
}

impl Numbers {
    /// Bytes of one.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Numbers::Values => 4,
            Numbers::Keys => 8,
        }
    }

    /// Bytes of a file of `count` numbers.
    pub(super) fn file_bytes(self, count: u64) -> u64 {
        HEADER_BYTES + count * self.bytes()
    }

    /// The header in front of `count` numbers.
    pub(super) fn header(self, count: u64) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        header[4..8].copy_from_slice(&(self.bytes() as u32).to_le_bytes());
        header[8..].copy_from_slice(&count.to_le_bytes());
        header
    }

    /// Reads a header and finds how many numbers follow. `file_bytes` is the size of the file,
    /// header included.
    pub(super) fn read_header(self, reader: &mut dyn Read, file_bytes: u64) -> Result<u64> {
        let mut header = [0; HEADER_BYTES as usize];
        reader.read_exact(&mut header).map_err(|source| {
            Error::new(Kind::Damaged, "the parameter file ends in its header")
                .with("bytes", file_bytes)
                .because(source)
        })?;
        let (format, rest) = header.split_at(4);
        let (bytes, count) = rest.split_at(4);
        let format = number(format);
        let bytes = number(bytes);
        let count = number(count);
        if format != 0 {
            return Err(Error::new(
                Kind::Unsupported,
                "only format 0 of the parameter file is supported (plain row-major numbers)",
            )
            .with("format", format));
        }
        if bytes != self.bytes() {
            return Err(Error::new(Kind::Unsupported, "numbers of this size are not supported")
                .with("value_size", bytes)
                .with("expected", self.bytes()));
        }
        let needed = count.checked_mul(bytes).and_then(|bytes| bytes.checked_add(HEADER_BYTES));
        if needed != Some(file_bytes) {
            return Err(Error::new(
                Kind::Damaged,
                "the parameter file has another size than its header says",
            )
            .with("count", count)
            .with("value_size", bytes)
            .with("bytes", file_bytes));
        }
        Ok(count)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_header_tells_how_many_numbers_follow(count in 0..1_u64 << 50, is_keys: bool) {
            let numbers = if is_keys { Numbers::Keys } else { Numbers::Values };
            let header = numbers.header(count);
            let bytes = numbers.file_bytes(count);
            prop_assert_eq!(numbers.read_header(&mut &header[..], bytes).unwrap(), count);
            prop_assert!(numbers.read_header(&mut &header[..], bytes + 1).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_fit_the_file(bytes: Vec<u8>) {
            let size = bytes.len() as u64;
            if let Ok(count) = Numbers::Values.read_header(&mut &bytes[..], size) {
                prop_assert_eq!(Numbers::Values.file_bytes(count), size);
            }
        }
    }

    #[test]
    fn the_header_has_the_originals_layout() {
        let expected = [0, 0, 0, 0, 4, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(Numbers::Values.header(259), expected);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let check = |at: usize, value: u8, message: &str| {
            let mut header = Numbers::Values.header(2);
            header[at] = value;
            let error = Numbers::Values.read_header(&mut &header[..], 24).unwrap_err();
            assert!(error.message().contains(message), "{error}");
        };
        check(0, 1, "format 0");
        check(4, 8, "numbers of this size");
        check(15, 0xff, "another size");
    }
}
