//! Damaged and hostile files: always a clear error, never a panic, never a silent short read.

use super::{encode, read_all, read_bytes, variants, words};
use contract::{Error, Kind, Result};
use proptest::prelude::*;
use recordio::{Compressor, Header, Index, Layout, ReadOptions, Reader, WriteOptions};
use std::io::Write;

fn sample(options: &WriteOptions) -> Vec<u8> {
    let records = words(&["first", "", "third record, third record, third record", "4"]);
    encode(&records, WriteOptions { chunk_bytes: 45, ..options.clone() })
}

/// A chunk with an honest checksum over a payload of our choice.
fn forge(header: Header, stored: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(stored);
    let header = Header { checksum, stored_bytes: stored.len() as u32, ..header };
    [&header.encode(Layout::Go)[..], stored].concat()
}

fn plain(records: u32) -> Header {
    Header { checksum: 0, compressor: Compressor::None, stored_bytes: 0, records }
}

fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    read_bytes(tempfile::tempdir().unwrap().path(), bytes, ReadOptions::default())
}

fn place(error: &Error) -> Vec<&str> {
    error
        .context()
        .map(|(key, _)| key)
        .filter(|key| ["file", "chunk", "offset"].contains(key))
        .collect()
}

#[test]
fn truncation_at_every_offset_is_damage_unless_it_falls_between_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    for options in variants() {
        let bytes = sample(&options);
        std::fs::write(&path, &bytes).unwrap();
        let whole = read_all(std::slice::from_ref(&path), ReadOptions::default()).unwrap();
        let index = Index::open(&path).unwrap();
        for end in 0..bytes.len() {
            let cut = read_bytes(folder.path(), &bytes[..end], ReadOptions::default());
            match index.chunks().iter().find(|chunk| chunk.offset == end as u64) {
                Some(chunk) => assert_eq!(cut.unwrap(), whole[..chunk.first_record as usize]),
                None => {
                    let error = cut.unwrap_err();
                    assert_eq!(error.kind(), Kind::Damaged, "{options:?} cut at {end}: {error}");
                    assert_eq!(place(&error), ["file", "chunk", "offset"], "{error}");
                    let cut = folder.path().join("sample");
                    assert_eq!(Index::open(&cut).unwrap_err().kind(), Kind::Damaged);
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_payload_or_its_checksum_is_found() {
    for options in variants() {
        let bytes = sample(&options);
        let whole = read(&bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // No flip may pass unnoticed: the fields of the header are all checked by consequence.
            match read(&flipped) {
                Ok(records) => assert_eq!(records, whole, "{options:?}: bit {bit} went unnoticed"),
                Err(error) => assert_eq!(place(&error), ["file", "chunk", "offset"], "{error}"),
            }
        }
    }
}

#[test]
fn the_messages_say_what_is_wrong_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let good = sample(&WriteOptions { compressor: Compressor::None, ..Default::default() });
    let check = |bytes: &[u8], expected: &str| {
        let error = read_bytes(folder.path(), bytes, ReadOptions::default()).unwrap_err();
        let text = error.chain().replace(&folder.path().display().to_string(), "FOLDER");
        assert_eq!(text, expected);
    };
    check(
        b"PK\x03\x04 this is a zip file",
        "not a RecordIO chunk: wrong magic number (expected: 0x01020304, found: 0x04034b50, \
         file: FOLDER/sample, chunk: 0, offset: 0)",
    );
    check(
        &good[..good.len() - 1],
        "file ends inside a chunk (file: FOLDER/sample, chunk: 1, offset: 77, claimed_bytes: 5, \
         bytes_left: 4)",
    );
    check(
        &[&good[..], b"\x04\x03\x02"].concat(),
        "file ends inside a chunk header (file: FOLDER/sample, chunk: 2, offset: 102, bytes_left: 3)",
    );
    let mut flipped = good.clone();
    flipped[good.len() - 1] ^= 0xff;
    check(
        &flipped,
        "chunk checksum does not match (file: FOLDER/sample, chunk: 1, offset: 77, \
         expected: daf62a18, found: f7f4c595)",
    );
    let mut unknown = good;
    unknown[8] = 77;
    check(
        &unknown,
        "unknown compressor in chunk header (layout: go, code: 77, \
         file: FOLDER/sample, chunk: 0, offset: 0)",
    );
}

#[test]
fn lying_counts_and_lengths_are_damage() {
    let payload = b"\x05\x00\x00\x00hello";
    assert_eq!(read(&forge(plain(1), payload)).unwrap(), words(&["hello"]));
    let check = |bytes: &[u8], message: &str| {
        let error = read(bytes).unwrap_err();
        assert_eq!(error.message(), message);
        assert_eq!(error.kind(), Kind::Damaged);
        assert_eq!(place(&error), ["file", "chunk", "offset"]);
    };
    check(&forge(plain(0), payload), "chunk holds more bytes than its records need");
    check(&forge(plain(2), payload), "record reaches past the end of its chunk");
    check(&forge(plain(u32::MAX), payload), "chunk claims more records than it has room for");
    check(&forge(plain(1), b"\xff\xff\xff\xffhello"), "record reaches past the end of its chunk");
    check(
        &forge(plain(1), b"\x04\x00\x00\x00hello"),
        "chunk holds more bytes than its records need",
    );
}

#[test]
fn damage_in_the_last_chunk_is_not_an_end_even_when_asked_again() {
    for prefetch_chunks in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        let mut bytes = sample(&WriteOptions::default());
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let options = ReadOptions { prefetch_chunks, ..ReadOptions::default() };
        let mut reader = Reader::open(&[path], options).unwrap();
        let failure = loop {
            match reader.read() {
                Ok(record) => assert!(record.is_some(), "a damaged file looked like a short one"),
                Err(error) => break error,
            }
        };
        assert_eq!(failure.kind(), Kind::Damaged);
        assert_eq!(reader.read().unwrap_err().to_string(), failure.to_string());
    }
}

#[test]
fn a_decompression_bomb_stops_at_the_limit() {
    let zeros = vec![0; 64 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&zeros).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::bulk::compress(&zeros, 3).unwrap();
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(&zeros).unwrap();
    let snappy = snappy.into_inner().unwrap();
    let bombs = [(Compressor::Gzip, gzip), (Compressor::Zstd, zstd), (Compressor::Snappy, snappy)];
    for (compressor, stored) in bombs {
        let folder = tempfile::tempdir().unwrap();
        let bytes = forge(Header { compressor, ..plain(1) }, &stored);
        let options = ReadOptions { chunk_bytes_max: 8 << 20, ..ReadOptions::default() };
        let error = read_bytes(folder.path(), &bytes, options).unwrap_err();
        assert_eq!(error.kind(), Kind::LimitExceeded, "{compressor}: {error}");
        assert_eq!(place(&error), ["file", "chunk", "offset"]);
    }
}

#[test]
fn a_zstd_frame_that_hides_its_size_is_refused() {
    let stored = zstd::stream::encode_all(&b"\x05\x00\x00\x00hello"[..], 3).unwrap();
    let error = read(&forge(Header { compressor: Compressor::Zstd, ..plain(1) }, &stored));
    let message = error.unwrap_err().message().to_owned();
    assert_eq!(message, "invalid zstd data: the frame does not state its size");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() })]

    // The same property as of the decoders' table, with other mutations.
    #[test]
    fn random_corruption_never_panics_and_never_shortens_silently(
        variant in 0..6usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        is_rechecked in any::<bool>(),
    ) {
        let mut bytes = sample(&variants()[variant]);
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if is_rechecked && bytes.len() > 20 {
            // An honest checksum lets the corruption reach the decoders.
            let checksum = crc32fast::hash(&bytes[20..]).to_le_bytes();
            let at = if variant < 4 { 4 } else { 8 };
            bytes[at..at + 4].copy_from_slice(&checksum);
        }
        match read(&bytes) {
            Ok(records) => {
                // Whatever was accepted must account for every byte of the file.
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("sample");
                std::fs::write(&path, &bytes).unwrap();
                let index = Index::open(&path).unwrap();
                prop_assert_eq!(index.records(), records.len() as u64);
                let end = index.chunks().last().map_or(0, |chunk| chunk.offset + chunk.bytes);
                prop_assert_eq!(end, bytes.len() as u64);
            }
            Err(error) => prop_assert_eq!(place(&error), ["file", "chunk", "offset"]),
        }
    }
}
