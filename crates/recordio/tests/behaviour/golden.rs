//! The bytes that the original's layouts prescribe, computed independently of this code.

use super::{encode, read_bytes, words};
use recordio::{Compressor, Index, Layout, ReadOptions, WriteOptions};

fn check(records: &[&str], options: WriteOptions, expected_hex: &str) {
    let bytes = encode(&words(records), options);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected_hex);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_bytes(folder.path(), &bytes, ReadOptions::default()).unwrap(), words(records));
}

fn hello(layout: Layout, compressor: Compressor, expected_hex: &str) {
    check(&["hello"], WriteOptions { compressor, ..WriteOptions::new(layout) }, expected_hex);
}

#[test]
fn go_layout_without_compression() {
    hello(
        Layout::Go,
        Compressor::None,
        "040302017a00ac5c0000000009000000010000000500000068656c6c6f",
    );
}

#[test]
fn go_layout_with_framed_snappy() {
    hello(
        Layout::Go,
        Compressor::Snappy,
        "04030201b9cf23cc010000001b00000001000000\
         ff060000734e61507059010d00000787c5050500000068656c6c6f",
    );
}

#[test]
fn fluid_layout_without_compression() {
    hello(
        Layout::Fluid,
        Compressor::None,
        "04030201010000007a00ac5c00000000090000000500000068656c6c6f",
    );
}

#[test]
fn fluid_layout_with_its_own_snappy() {
    hello(
        Layout::Fluid,
        Compressor::Snappy,
        "0403020101000000e712328c0100000017000000\
         736e617070790000000905c587070500000068656c6c6f",
    );
}

#[test]
fn chunks_close_before_the_record_that_would_overfill_them() {
    let options =
        WriteOptions { compressor: Compressor::None, chunk_bytes: 10, ..WriteOptions::default() };
    let expected = "04030201873a67950000000011000000020000000500000031323334350400000031323334\
                    040302019a5680f2000000000600000001000000020000003132";
    check(&["12345", "1234", "12"], options, expected);
}

#[test]
fn the_index_of_the_multi_chunk_sample_has_the_second_chunk_at_offset_37() {
    let options =
        WriteOptions { compressor: Compressor::None, chunk_bytes: 10, ..WriteOptions::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample");
    std::fs::write(&path, encode(&words(&["12345", "1234", "12"]), options)).unwrap();
    let index = Index::open(&path).unwrap();
    let chunks: Vec<_> = index.chunks().iter().map(|chunk| (chunk.offset, chunk.records)).collect();
    assert_eq!(chunks, [(0, 2), (37, 1)]);
    assert_eq!(index.records(), 3);
    assert_eq!(index.locate(2), Some((1, 0)));
}
