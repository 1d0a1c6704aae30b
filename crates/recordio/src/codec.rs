//! Payload ↔ stored bytes, one arm per compressor. Decoding takes a limit on what comes out, so
//! that a few stored kilobytes cannot fill the memory.

use crate::buffer::Buffer;
use crate::header::{Compressor, Layout};
use crate::snappy;
use contract::{Error, Kind, Result};
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

// Decoding proceeds in pieces that stay in the second-level cache.
const PIECE_BYTES: usize = 256 * 1024;

/// Stores `payload`; the caller has checked that `layout` supports `compressor`.
pub(crate) fn encode(layout: Layout, compressor: Compressor, payload: Vec<u8>) -> Result<Vec<u8>> {
    match (compressor, layout) {
        (Compressor::None, _) => Ok(payload),
        (Compressor::Snappy, Layout::Go) => snappy::encode_frames(&payload),
        (Compressor::Snappy, Layout::Fluid) => snappy::encode_blocks(&payload),
        (Compressor::Gzip, _) => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder
                .write_all(&payload)
                .and_then(|()| encoder.finish())
                .map_err(|source| Error::io("cannot compress chunk with gzip", source))
        }
        (Compressor::Zstd, _) => zstd::bulk::compress(&payload, zstd::DEFAULT_COMPRESSION_LEVEL)
            .map_err(|source| Error::io("cannot compress chunk with zstd", source)),
    }
}

/// Appends the payload of `stored` to `payload`, at most `limit` bytes.
///
/// `None` is not decoded here: the stored bytes are the payload.
pub(crate) fn decode(
    layout: Layout,
    compressor: Compressor,
    stored: &[u8],
    payload: &mut Buffer,
    limit: u64,
) -> Result<()> {
    match (compressor, layout) {
        (Compressor::None, _) => {
            payload.extend(stored);
            Ok(())
        }
        (Compressor::Snappy, Layout::Go) => snappy::decode_frames(stored, payload, limit),
        (Compressor::Snappy, Layout::Fluid) => snappy::decode_blocks(stored, payload, limit),
        (Compressor::Gzip, _) => decode_gzip(stored, payload, limit),
        (Compressor::Zstd, _) => decode_zstd(stored, payload, limit),
    }
}

/// The error for a payload that grows past `limit`.
pub(crate) fn too_large(limit: u64) -> Error {
    Error::new(
        Kind::LimitExceeded,
        "chunk is larger than allowed when uncompressed; raise chunk_bytes_max if you trust the file",
    )
    .with("limit_bytes", limit)
}

fn decode_gzip(stored: &[u8], payload: &mut Buffer, limit: u64) -> Result<()> {
    let mut decoder = MultiGzDecoder::new(stored);
    loop {
        let room = limit.saturating_sub(payload.len() as u64).min(PIECE_BYTES as u64) as usize;
        // At the limit only whether there is more: the buffer does not grow for that.
        let mut more = [0];
        let target = if room == 0 { &mut more[..] } else { payload.spare(room) };
        let count = decoder
            .read(target)
            .map_err(|source| Error::new(Kind::Damaged, "invalid gzip data").because(source))?;
        match (count, room) {
            (0, _) => return Ok(()),
            (_, 0) => return Err(too_large(limit)),
            _ => payload.commit(count),
        }
    }
}

fn decode_zstd(stored: &[u8], payload: &mut Buffer, limit: u64) -> Result<()> {
    let damaged = |what: &str| Error::new(Kind::Damaged, format!("invalid zstd data: {what}"));
    let bytes = zstd::zstd_safe::get_frame_content_size(stored)
        .map_err(|_| damaged("no frame header"))?
        .ok_or_else(|| damaged("the frame does not state its size"))?;
    if bytes > limit {
        return Err(too_large(limit));
    }
    let target = payload.spare(bytes as usize);
    let count = zstd::bulk::decompress_to_buffer(stored, target)
        .map_err(|source| Error::new(Kind::Damaged, "invalid zstd data").because(source))?;
    payload.commit(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_takes_no_more_memory_than_the_limit() {
        let limit = 4 * PIECE_BYTES;
        let zeros = vec![0; 4 * limit];
        for (layout, compressor) in [
            (Layout::Go, Compressor::Gzip),
            (Layout::Go, Compressor::Snappy),
            (Layout::Fluid, Compressor::Snappy),
        ] {
            let bomb = encode(layout, compressor, zeros.clone()).unwrap();
            let mut payload = Buffer::default();
            let error = decode(layout, compressor, &bomb, &mut payload, limit as u64).unwrap_err();
            assert_eq!(error.kind(), Kind::LimitExceeded, "{compressor}");
            assert!(payload.capacity() <= limit, "{compressor}: {}", payload.capacity());
            let whole = encode(layout, compressor, zeros[..limit].to_vec()).unwrap();
            let mut payload = Buffer::default();
            decode(layout, compressor, &whole, &mut payload, limit as u64).unwrap();
            assert_eq!(payload.len(), limit, "{compressor}");
        }
    }
}
