//! The two ways RecordIO frames snappy: the standard framing format (Go layout), and the block
//! stream that Fluid used. Blocks themselves are left to the `snap` crate; the frames are walked
//! here because its reader knows only one of the two and copies every byte once more.

use crate::buffer::Buffer;
use crate::codec::too_large;
use contract::{Error, Kind, Result};
use snap::raw;
use std::io::Write;

const STREAM_IDENTIFIER: &[u8; 10] = b"\xff\x06\x00\x00sNaPpY";
const FRAME_COMPRESSED: u8 = 0x00;
const FRAME_RAW: u8 = 0x01;
const FRAME_PADDING_FIRST: u8 = 0x80;
const FRAME_IDENTIFIER: u8 = 0xff;
// The framing format allows no more in one frame.
const FRAME_BYTES_MAX: usize = 64 * 1024;

const BLOCK_STREAM_MAGIC: &[u8; 7] = b"snappy\0";
const BLOCK_COMPRESSED: u8 = 1;
const BLOCK_RAW: u8 = 0;
const BLOCK_BYTES: usize = 32 * 1024;

/// Standard framing: 64 KiB frames, each compressed if that saves an eighth.
pub(crate) fn encode_frames(payload: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder
        .write_all(payload)
        .map_err(|source| Error::io("cannot compress chunk with snappy", source))?;
    encoder.into_inner().map_err(|failed| {
        Error::new(Kind::Io, "cannot compress chunk with snappy")
            .because(failed.error().to_string())
    })
}

/// Fluid's stream: 32 KiB blocks, each compressed if that saves an eighth.
pub(crate) fn encode_blocks(payload: &[u8]) -> Result<Vec<u8>> {
    let mut stored = BLOCK_STREAM_MAGIC.to_vec();
    let mut encoder = raw::Encoder::new();
    for block in payload.chunks(BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block).map_err(|source| {
            Error::new(Kind::Io, "cannot compress chunk with snappy").because(source)
        })?;
        let saves = compressed.len() < block.len() - block.len() / 8;
        let (flag, data) =
            if saves { (BLOCK_COMPRESSED, &compressed[..]) } else { (BLOCK_RAW, block) };
        stored.push(flag);
        stored.extend_from_slice(&(data.len() as u16).to_be_bytes());
        stored.extend_from_slice(&masked_checksum(block).to_be_bytes());
        stored.extend_from_slice(data);
    }
    Ok(stored)
}

/// Appends what the frames of `stored` hold to `payload`.
pub(crate) fn decode_frames(stored: &[u8], payload: &mut Buffer, limit: u64) -> Result<()> {
    let mut decoder = raw::Decoder::new();
    let mut rest = stored;
    if !rest.starts_with(STREAM_IDENTIFIER) {
        return Err(damaged("no stream identifier"));
    }
    while !rest.is_empty() {
        let (head, after) = split(rest, 4)?;
        let frame_bytes = u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize;
        let (frame, after) = split(after, frame_bytes)?;
        rest = after;
        match head[0] {
            FRAME_COMPRESSED | FRAME_RAW => {
                let (checksum, data) = split(frame, 4)?;
                let checksum =
                    u32::from_le_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]);
                let is_compressed = head[0] == FRAME_COMPRESSED;
                decode_data(
                    &mut decoder,
                    &Block { is_compressed, data, checksum },
                    payload,
                    limit,
                )?;
            }
            FRAME_IDENTIFIER if frame != &STREAM_IDENTIFIER[4..] => {
                return Err(damaged("wrong stream identifier"));
            }
            FRAME_PADDING_FIRST.. => {}
            other => return Err(damaged("unknown frame type").with("type", other)),
        }
    }
    Ok(())
}

/// Appends what the blocks of `stored` hold to `payload`.
pub(crate) fn decode_blocks(stored: &[u8], payload: &mut Buffer, limit: u64) -> Result<()> {
    let mut decoder = raw::Decoder::new();
    let mut rest =
        stored.strip_prefix(BLOCK_STREAM_MAGIC).ok_or_else(|| damaged("no stream magic"))?;
    while !rest.is_empty() {
        let (head, after) = split(rest, 7)?;
        let data_bytes = u16::from_be_bytes([head[1], head[2]]) as usize;
        let checksum = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        let (data, after) = split(after, data_bytes)?;
        rest = after;
        let is_compressed = match head[0] {
            BLOCK_COMPRESSED => true,
            BLOCK_RAW => false,
            other => return Err(damaged("unknown block type").with("type", other)),
        };
        decode_data(&mut decoder, &Block { is_compressed, data, checksum }, payload, limit)?;
    }
    Ok(())
}

struct Block<'a> {
    is_compressed: bool,
    data: &'a [u8],
    checksum: u32,
}

fn decode_data(
    decoder: &mut raw::Decoder,
    block: &Block<'_>,
    payload: &mut Buffer,
    limit: u64,
) -> Result<()> {
    let &Block { is_compressed, data, checksum } = block;
    let invalid = |source: snap::Error| damaged("invalid block").because(source);
    let bytes =
        if is_compressed { raw::decompress_len(data).map_err(invalid)? } else { data.len() };
    if bytes > FRAME_BYTES_MAX {
        return Err(damaged("block is larger than the format allows").with("bytes", bytes));
    }
    if (payload.len() + bytes) as u64 > limit {
        return Err(too_large(limit));
    }
    let target = payload.spare(bytes);
    if is_compressed {
        decoder.decompress(data, target).map_err(invalid)?;
    } else {
        target.copy_from_slice(data);
    }
    if masked_checksum(target) != checksum {
        return Err(damaged("block checksum does not match"));
    }
    payload.commit(bytes);
    Ok(())
}

// The framing format masks its CRC-32C so that a CRC over data holding CRCs stays meaningful.
fn masked_checksum(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8])> {
    bytes.split_at_checked(at).ok_or_else(|| damaged("data ends inside a block"))
}

fn damaged(what: &str) -> Error {
    Error::new(Kind::Damaged, format!("invalid snappy data: {what}"))
}
