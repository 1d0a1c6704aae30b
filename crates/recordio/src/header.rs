//! The 20 bytes in front of every chunk, in both layouts. Knows nothing of files or payloads.
//!
//! | offset | Go | Fluid |
//! |---|---|---|
//! | 0 | magic | magic |
//! | 4 | CRC-32 of the stored payload | number of records |
//! | 8 | compressor | CRC-32 of the stored payload |
//! | 12 | stored payload bytes | compressor |
//! | 16 | number of records | stored payload bytes |
//!
//! All fields are little-endian u32. The magic is the same, so a layout is recognised by the field
//! that has few legal values, the compressor: a Fluid header read as Go is legal only if its CRC
//! happens to be below four, a Go header read as Fluid only if its payload is empty. What remains
//! ambiguous is settled by the CRC (see `stream`).

use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of a chunk header.
pub const HEADER_BYTES: usize = 20;

const MAGIC: u32 = 0x0102_0304;

/// The order of the header's fields, and the style of snappy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// What `paddle.v2` and the master read and write; snappy in its standard framing.
    Go,
    /// What Fluid wrote; snappy in a framing of its own, and no other compressor.
    Fluid,
}

/// How a chunk's payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compressor {
    /// As it is.
    None,
    /// Snappy, in the framing of the layout.
    Snappy,
    /// A gzip member.
    Gzip,
    /// One zstd frame that states its content size. Our addition: the original cannot read it.
    Zstd,
}

impl Layout {
    /// Both layouts, the one we write first.
    pub const ALL: [Layout; 2] = [Layout::Go, Layout::Fluid];

    /// Whether this layout has a code for `compressor`.
    pub fn supports(self, compressor: Compressor) -> bool {
        match self {
            Layout::Go => true,
            Layout::Fluid => matches!(compressor, Compressor::None | Compressor::Snappy),
        }
    }
}

impl Compressor {
    /// Every compressor, in the order of its code.
    pub const ALL: [Compressor; 4] =
        [Compressor::None, Compressor::Snappy, Compressor::Gzip, Compressor::Zstd];

    fn code(self) -> u32 {
        match self {
            Compressor::None => 0,
            Compressor::Snappy => 1,
            Compressor::Gzip => 2,
            Compressor::Zstd => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compressor::None => "none",
            Compressor::Snappy => "snappy",
            Compressor::Gzip => "gzip",
            Compressor::Zstd => "zstd",
        }
    }
}

/// What a chunk's header says of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// CRC-32 (IEEE) of the stored payload.
    pub checksum: u32,
    /// How the payload is stored.
    pub compressor: Compressor,
    /// Bytes of the payload as stored.
    pub stored_bytes: u32,
    /// Records in the payload.
    pub records: u32,
}

impl Header {
    /// The header as it stands in a file.
    pub fn encode(&self, layout: Layout) -> [u8; HEADER_BYTES] {
        let compressor = self.compressor.code();
        let fields = match layout {
            Layout::Go => [MAGIC, self.checksum, compressor, self.stored_bytes, self.records],
            Layout::Fluid => [MAGIC, self.records, self.checksum, compressor, self.stored_bytes],
        };
        let mut bytes = [0; HEADER_BYTES];
        for (target, field) in bytes.chunks_exact_mut(4).zip(fields) {
            target.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Reads a header whose layout is known.
    pub fn decode(layout: Layout, bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let field = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if field(0) != MAGIC {
            return Err(Error::new(Kind::Damaged, "not a RecordIO chunk: wrong magic number")
                .with("expected", format_args!("{MAGIC:#010x}"))
                .with("found", format_args!("{:#010x}", field(0))));
        }
        let (checksum, code, stored_bytes, records) = match layout {
            Layout::Go => (field(4), field(8), field(12), field(16)),
            Layout::Fluid => (field(8), field(12), field(16), field(4)),
        };
        let compressor = Compressor::ALL
            .into_iter()
            .find(|compressor| compressor.code() == code && layout.supports(*compressor))
            .ok_or_else(|| {
                Error::new(Kind::Damaged, "unknown compressor in chunk header")
                    .with("layout", layout)
                    .with("code", code)
            })?;
        Ok(Header { checksum, compressor, stored_bytes, records })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Go => "go",
            Layout::Fluid => "fluid",
        })
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Layout::ALL, "layout", text)
    }
}

impl FromStr for Compressor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Compressor::ALL, "compressor", text)
    }
}

fn named<T: fmt::Display + Copy, const N: usize>(
    all: [T; N],
    what: &'static str,
    text: &str,
) -> Result<T> {
    all.into_iter().find(|item| item.to_string() == text).ok_or_else(|| {
        let accepted: Vec<String> = all.iter().map(T::to_string).collect();
        Error::invalid(format!("unknown {what}; use one of {}", accepted.join(", ")))
            .with(what, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header =
        Header { checksum: 0x5cac_007a, compressor: Compressor::None, stored_bytes: 9, records: 1 };

    #[test]
    fn a_header_survives_encoding_in_both_layouts() {
        for layout in Layout::ALL {
            assert_eq!(Header::decode(layout, &HEADER.encode(layout)).unwrap(), HEADER);
        }
    }

    #[test]
    fn a_header_read_in_the_other_layout_is_refused() {
        let error = Header::decode(Layout::Go, &HEADER.encode(Layout::Fluid)).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(Header::decode(Layout::Fluid, &HEADER.encode(Layout::Go)).is_err());
    }

    #[test]
    fn an_unknown_compressor_name_lists_the_known_ones() {
        assert_eq!(
            "lz4".parse::<Compressor>().unwrap_err().to_string(),
            "unknown compressor; use one of none, snappy, gzip, zstd (compressor: lz4)"
        );
    }
}
