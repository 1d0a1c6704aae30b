//! Bytes ↔ frame header, and casting bodies in place. Does no I/O, and gives a meaning to no kind.
//!
//! A frame is 32 bytes of header and then the body, all little-endian:
//!
//! | offset | field | |
//! |---|---|---|
//! | 0 | magic, u32 | the bytes `PWF1` |
//! | 4 | kind, u16 | the application's |
//! | 6 | flags, u16 | bit 0 reply, bit 1 error, the rest the application's |
//! | 8 | request, u64 | chosen by who asks; a reply carries that of its request |
//! | 16 | incarnation, u64 | the sender's, the same as in its handshake |
//! | 24 | body bytes, u32 | |
//! | 28 | aux, u32 | the application's |

use crate::pool::Body;
use contract::{Error, Kind, Result};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[cfg(not(target_endian = "little"))]
compile_error!("bodies are little-endian and cast in place, so the machine has to be, too");

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"PWF1";

/// One message. Dropping it gives the body's memory back to the connection's pool.
#[derive(Debug)]
pub struct Frame {
    /// What the peer says of the body.
    pub header: Header,
    /// The peer's incarnation, checked against its handshake.
    pub incarnation: u64,
    /// The payload, aligned for 8-byte values.
    pub body: Body,
}

/// What the application says of a frame; incarnation and length are the connection's to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// What the body means.
    pub kind: u16,
    /// [`Header::REPLY`], [`Header::ERROR`], and bits of the application's own.
    pub flags: u16,
    /// Pairs a reply with its request; replies may come in any order.
    pub request: u64,
    /// A number of the application's own.
    pub aux: u32,
}

impl Header {
    /// Flag: this frame answers the request of the same number.
    pub const REPLY: u16 = 1 << 0;
    /// Flag: the body says why the request failed.
    pub const ERROR: u16 = 1 << 1;

    /// A request.
    pub fn new(kind: u16, request: u64) -> Self {
        Header { kind, request, ..Header::default() }
    }

    /// The header of the answer to this frame.
    pub fn reply(&self) -> Self {
        Header { flags: Header::REPLY, ..Header::new(self.kind, self.request) }
    }

    /// The header of the answer to this frame that says why there is none.
    pub fn error_reply(&self) -> Self {
        Header { flags: Header::REPLY | Header::ERROR, ..Header::new(self.kind, self.request) }
    }

    /// Does this frame answer a request?
    pub fn is_reply(&self) -> bool {
        self.flags & Header::REPLY != 0
    }

    /// Does the body say why the request failed?
    pub fn is_error(&self) -> bool {
        self.flags & Header::ERROR != 0
    }
}

/// The bytes of a body as values, without copying. Other lengths than a whole number of values,
/// and places that are not aligned for them, are `Damaged`: both are the peer's doing.
pub fn cast<T: FromBytes + Immutable>(bytes: &[u8]) -> Result<&[T]> {
    if bytes.is_empty() {
        // Nothing is aligned well enough for anything, wherever in a body it lies.
        return Ok(&[]);
    }
    <[T]>::ref_from_bytes(bytes).map_err(|_| {
        Error::new(Kind::Damaged, "bytes of a frame are not a row of values")
            .with("bytes", bytes.len())
            .with("value_bytes", size_of::<T>())
            .with("alignment", align_of::<T>())
    })
}

/// The header as it travels.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    magic: [u8; 4],
    kind: U16,
    flags: U16,
    request: U64,
    incarnation: U64,
    body_bytes: U32,
    aux: U32,
}

/// A header with what the connection adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) header: Header,
    pub(crate) incarnation: u64,
    pub(crate) body_bytes: u32,
}

impl Envelope {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        zerocopy::transmute!(Layout {
            magic: MAGIC,
            kind: self.header.kind.into(),
            flags: self.header.flags.into(),
            request: self.header.request.into(),
            incarnation: self.incarnation.into(),
            body_bytes: self.body_bytes.into(),
            aux: self.header.aux.into(),
        })
    }

    pub(crate) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Envelope> {
        let layout: Layout = zerocopy::transmute!(bytes);
        if layout.magic != MAGIC {
            return Err(Error::new(Kind::Damaged, "not a frame: wrong magic number")
                .with("expected", MAGIC.escape_ascii())
                .with("found", layout.magic.escape_ascii()));
        }
        let header = Header {
            kind: layout.kind.get(),
            flags: layout.flags.get(),
            request: layout.request.get(),
            aux: layout.aux.get(),
        };
        let (incarnation, body_bytes) = (layout.incarnation.get(), layout.body_bytes.get());
        Ok(Envelope { header, incarnation, body_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVELOPE: Envelope = Envelope {
        header: Header { kind: 0x0102, flags: 0x8001, request: 0x1112_1314_1516_1718, aux: 7 },
        incarnation: 0x2122_2324_2526_2728,
        body_bytes: 0x3132_3334,
    };

    #[test]
    fn a_header_has_the_documented_bytes() {
        let expect = [
            &b"PWF1"[..],
            &[0x02, 0x01],
            &[0x01, 0x80],
            &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11],
            &[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21],
            &[0x34, 0x33, 0x32, 0x31],
            &[7, 0, 0, 0],
        ]
        .concat();
        assert_eq!(ENVELOPE.encode().as_slice(), expect);
        assert_eq!(Envelope::decode(ENVELOPE.encode()).unwrap(), ENVELOPE);
    }

    #[test]
    fn another_magic_is_damage() {
        let mut bytes = ENVELOPE.encode();
        bytes[3] = b'2';
        let error = Envelope::decode(bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not a frame: wrong magic number (expected: PWF1, found: PWF2)"
        );
        assert_eq!(error.kind(), Kind::Damaged);
    }

    #[test]
    fn a_reply_carries_the_number_of_its_request() {
        let request = Header { aux: 9, ..Header::new(3, 77) };
        let (reply, error) = (request.reply(), request.error_reply());
        assert_eq!((reply.request, error.request), (77, 77));
        assert!(!request.is_reply() && reply.is_reply() && error.is_reply());
        assert!(!reply.is_error() && error.is_error());
    }

    #[test]
    fn a_cast_checks_length_and_alignment() {
        let values = [1.0f32, 2.0, 3.0];
        let bytes = values.as_bytes();
        assert_eq!(cast::<f32>(bytes).unwrap(), values);
        assert_eq!(cast::<f32>(&bytes[..11]).unwrap_err().kind(), Kind::Damaged);
        assert_eq!(cast::<f32>(&bytes[1..9]).unwrap_err().kind(), Kind::Damaged);
        assert_eq!(cast::<u64>(&bytes[1..1]).unwrap(), [0u64; 0]);
    }
}
