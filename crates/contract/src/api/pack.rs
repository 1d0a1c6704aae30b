//! Many small files in one body. For each: the length of its header in four bytes (little endian),
//! the header as JSON, its content, and the checksum of the content; four zero bytes at the end.
//!
//! Here are the headers. Contents are moved by whoever has the bytes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ErrorBody;
use crate::{Error, Kind, Result};

/// What precedes a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Where the file is, or will be.
    pub path: String,
    /// The length of the content that follows.
    pub bytes: u64,
    /// Its permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// When it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ms: Option<u64>,
    /// Why there is no content, in an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// What has become of a file of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Packed {
    /// Where it should be.
    pub path: String,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// Asks for a pack of these files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The files.
    pub paths: Vec<String>,
}

/// The most files of a pack.
pub const FILES_MAX: usize = 1000;
/// The largest file that goes into a pack.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// All contents of a pack together.
pub const PACK_BYTES_MAX: u64 = 16 << 20;
/// The longest header: the longest path, each byte as six of JSON, and the rest.
pub const HEADER_BYTES_MAX: usize = 32 << 10;

impl Header {
    /// The header with its length.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(self)
            .map_err(|source| Error::new(Kind::Io, "cannot render JSON").because(source))?;
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= HEADER_BYTES_MAX);
        let length =
            length.ok_or_else(|| Error::new(Kind::LimitExceeded, "a header is too long"))?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(json);
        Ok(bytes)
    }

    /// The length of a header; `None` at the end of the pack.
    pub fn length(bytes: [u8; 4]) -> Result<Option<usize>> {
        match usize::try_from(u32::from_le_bytes(bytes)) {
            Ok(0) => Ok(None),
            Ok(length) if length <= HEADER_BYTES_MAX => Ok(Some(length)),
            _ => Err(Error::new(Kind::Damaged, "a header of the pack is too long")),
        }
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let header: Header = serde_json::from_slice(bytes).map_err(|source| {
            Error::new(Kind::Damaged, "a header of the pack cannot be read").because(source)
        })?;
        if header.bytes > FILE_BYTES_MAX {
            return Err(Error::new(Kind::LimitExceeded, "a file is too large for a pack")
                .with("path", &header.path)
                .with("bytes_max", FILE_BYTES_MAX));
        }
        Ok(header)
    }
}

/// What ends a pack.
pub const END: [u8; 4] = [0; 4];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            path: "/pfs/dc/home/u/é\u{1}".into(),
            bytes: 7,
            mode: Some(0o644),
            modified_ms: None,
            error: None,
        };
        let bytes = header.encode().unwrap();
        let length = Header::length(bytes[..4].try_into().unwrap()).unwrap().unwrap();
        assert_eq!(length, bytes.len() - 4);
        assert_eq!(Header::decode(&bytes[4..]).unwrap(), header);
        assert_eq!(Header::length(END).unwrap(), None);
    }

    #[test]
    fn hostile_headers_are_refused() {
        assert!(Header::length([255; 4]).is_err());
        assert!(Header::decode(b"{}").is_err());
        assert!(Header::decode(br#"{"path": "a", "bytes": 99999999999}"#).is_err());
        let path = "a".repeat(HEADER_BYTES_MAX);
        let header = Header { path, bytes: 0, mode: None, modified_ms: None, error: None };
        assert!(header.encode().is_err());
    }
}
