//! The layout of a data file. Pure.
//!
//! A file is a head of 16 bytes and then sections, nothing between or behind them. A section has
//! parts of one parameter and one size, so that it is a plain array: key, counters, value, state.
//! Only the last block of a dense parameter has another size than the others, and gets a section of
//! its own. All is little-endian 32-bit words, used where they were read.

use super::FORMAT;
use crate::shard::Part;
use bytemuck::{Pod, Zeroable};
use crc32fast::Hasher;
use std::mem::offset_of;

/// A section is closed before it grows past this, unless it is a single part.
pub(super) const SECTION_BYTES: usize = 1 << 20;

/// The first bytes of every data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct FileHead {
    magic: [u8; 8],
    format: u32,
    reserved: u32,
}

impl FileHead {
    pub(super) fn ours() -> FileHead {
        FileHead { magic: *b"PADDLECK", format: FORMAT, reserved: 0 }
    }
}

/// What precedes the parts of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SectionHead {
    pub(super) mark: u32,
    /// The parameter's place in the model.
    pub(super) parameter: u32,
    pub(super) parts: u32,
    pub(super) shape: PartShape,
    /// Of all parts together.
    pub(super) bytes: u32,
    /// CRC-32 of the head before this field, and of the parts.
    pub(super) checksum: u32,
}

/// How many words a part has of each sort, beside its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PartShape {
    pub(super) value: u32,
    pub(super) state: u32,
    pub(super) counters: u32,
}

impl SectionHead {
    pub(super) const MARK: u32 = u32::from_le_bytes(*b"SECT");

    /// The checksum that a section with this head and these parts must have.
    pub(super) fn checksum_of(&self, words: &[u32]) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&bytemuck::bytes_of(self)[..offset_of!(SectionHead, checksum)]);
        hasher.update(bytemuck::cast_slice(words));
        hasher.finalize()
    }
}

impl PartShape {
    pub(super) fn of(part: &Part<'_>) -> PartShape {
        PartShape {
            value: part.value.len() as u32,
            state: part.state.len() as u32,
            counters: part.counters.len() as u32,
        }
    }

    /// Words of a part, its key included.
    pub(super) fn words(&self) -> usize {
        KEY_WORDS + self.counters as usize + self.value as usize + self.state as usize
    }

    /// The most bytes of a section of such parts.
    pub(super) fn section_bytes_max(&self) -> usize {
        SECTION_BYTES.max(self.words() * size_of::<u32>())
    }

    /// The part in the words that one part takes.
    pub(super) fn part<'a>(&self, words: &'a [u32]) -> Part<'a> {
        let (key, rest) = words.split_at(KEY_WORDS);
        let (counters, rest) = rest.split_at(self.counters as usize);
        let (value, state) = bytemuck::cast_slice(rest).split_at(self.value as usize);
        Part { key: u64::from(key[0]) | (u64::from(key[1]) << 32), value, state, counters }
    }
}

/// Appends a part.
pub(super) fn put_part(part: &Part<'_>, words: &mut Vec<u32>) {
    words.extend_from_slice(&[part.key as u32, (part.key >> 32) as u32]);
    words.extend_from_slice(part.counters);
    words.extend_from_slice(bytemuck::cast_slice(part.value));
    words.extend_from_slice(bytemuck::cast_slice(part.state));
}

const KEY_WORDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_where_the_documentation_says() {
        assert_eq!(bytemuck::bytes_of(&FileHead::ours()), b"PADDLECK\x01\0\0\0\0\0\0\0");
        let shape = PartShape { value: 1, state: 2, counters: 1 };
        let (value, state, counters) = ([1.0], [2.0, -0.0], [7]);
        let part =
            Part { key: 0x0102_0304_0506_0708, value: &value, state: &state, counters: &counters };
        let mut words = Vec::new();
        put_part(&part, &mut words);
        let mut head = SectionHead {
            mark: SectionHead::MARK,
            parameter: 3,
            parts: 1,
            shape,
            bytes: 24,
            checksum: 0,
        };
        head.checksum = head.checksum_of(&words);
        let bytes = [bytemuck::bytes_of(&head), bytemuck::cast_slice(&words)].concat();
        let checksum = crc32fast::hash(&[&bytes[..28], &bytes[32..]].concat());
        let expected = [
            b"SECT\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\0\0\x18\0\0\0",
            &checksum.to_le_bytes()[..],
            b"\x08\x07\x06\x05\x04\x03\x02\x01\x07\0\0\0",
            b"\0\0\x80\x3f\0\0\0\x40\0\0\0\x80",
        ]
        .concat();
        assert_eq!(bytes, expected);
        assert_eq!(shape.part(&words), part);
        assert_eq!(PartShape::of(&part), shape);
    }
}
