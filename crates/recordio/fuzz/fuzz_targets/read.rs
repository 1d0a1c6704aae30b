//! Any bytes, read as a RecordIO file: no panic, bounded memory, and what is accepted accounts for
//! every byte of the file.
#![no_main]

use contract::Result;
use libfuzzer_sys::fuzz_target;
use recordio::{Index, ReadOptions, Reader};
use std::path::Path;

const CHUNK_BYTES_MAX: u64 = 16 << 20;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("recordio-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    // Checksums stop random bytes at the door: with honest ones they reach the decoders.
    let Ok((index, damage)) = Index::salvage(&path) else { return };
    let mut honest = bytes.to_vec();
    for chunk in index.chunks() {
        let start = chunk.offset as usize;
        let stored = start + recordio::HEADER_BYTES..start + chunk.bytes as usize;
        let checksum = crc32(&bytes[stored]).to_le_bytes();
        let at = start + if index.layout() == Some(recordio::Layout::Go) { 4 } else { 8 };
        honest[at..at + 4].copy_from_slice(&checksum);
    }
    std::fs::write(&path, &honest).expect("the temporary folder is writable");
    if let Ok(records) = read(&path) {
        assert!(damage.is_none(), "damage looked like an end");
        assert_eq!(records, index.records());
    }
});

fn read(path: &Path) -> Result<u64> {
    let options = ReadOptions { chunk_bytes_max: CHUNK_BYTES_MAX, ..ReadOptions::default() };
    let mut reader = Reader::open(&[path.to_path_buf()], options)?;
    let mut records = 0;
    while reader.read()?.is_some() {
        records += 1;
    }
    Ok(records)
}

// Bit by bit: slow, small, and independent of the reader's own.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum: u32, _| (sum >> 1) ^ (0xedb8_8320 & (0u32.wrapping_sub(sum & 1))))
    })
}
