//! What is written is read back, in every variant, by every way of reading.

use super::{encode, read_all, read_bytes, variants, words};
use contract::Kind;
use proptest::prelude::*;
use recordio::{Compressor, Index, Layout, ReadOptions, Reader, WriteOptions, Writer};

fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Runs of equal bytes compress, random ones do not: both kinds of blocks occur.
    let run = (any::<u8>(), 0..2000usize).prop_map(|(byte, bytes)| vec![byte; bytes]);
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    prop::collection::vec(prop_oneof![run, noise], 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_variant_reads_back_what_was_written(
        records in records(),
        variant in 0..6usize,
        chunk_bytes in 0..5000u64,
        prefetch_chunks in 0..3usize,
        threads in 0..3usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = WriteOptions { chunk_bytes, threads, ..variants()[variant].clone() };
        let bytes = encode(&records, options);
        let read = ReadOptions { prefetch_chunks, ..ReadOptions::default() };
        prop_assert_eq!(read_bytes(folder.path(), &bytes, read).unwrap(), records);
    }

    #[test]
    fn a_range_is_that_slice_of_all_records(
        records in records(),
        chunk_bytes in 0..3000u64,
        start in 0..70u64,
        count in prop::option::of(0..70u64),
        prefetch_chunks in 0..2usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = encode(&records, WriteOptions { chunk_bytes, ..WriteOptions::default() });
        let options = ReadOptions { start, count, prefetch_chunks, ..ReadOptions::default() };
        let expected: Vec<_> = records
            .into_iter()
            .skip(start as usize)
            .take(count.unwrap_or(u64::MAX) as usize)
            .collect();
        prop_assert_eq!(read_bytes(folder.path(), &bytes, options).unwrap(), expected);
    }
}

#[test]
fn several_files_read_as_one_and_a_range_crosses_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (name, list) in [("a", &["0", "1"][..]), ("b", &[]), ("c", &["2", "3", "4"])] {
        paths.push(folder.path().join(name));
        let options = WriteOptions { chunk_bytes: 1, ..WriteOptions::default() };
        std::fs::write(paths.last().unwrap(), encode(&words(list), options)).unwrap();
    }
    let all = read_all(&paths, ReadOptions::default()).unwrap();
    assert_eq!(all, words(&["0", "1", "2", "3", "4"]));
    let options = ReadOptions { start: 1, count: Some(2), ..ReadOptions::default() };
    assert_eq!(read_all(&paths, options).unwrap(), words(&["1", "2"]));
}

#[test]
fn seek_continues_at_any_record_and_keeps_the_end_of_the_range() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample");
    let options = WriteOptions { chunk_bytes: 2, ..WriteOptions::default() };
    std::fs::write(&path, encode(&words(&["0", "1", "2", "3", "4"]), options)).unwrap();
    let options = ReadOptions { count: Some(4), prefetch_chunks: 1, ..ReadOptions::default() };
    let mut reader = Reader::open(&[path], options).unwrap();
    let mut check = |record: u64, expected: Option<&str>| {
        reader.seek(record).unwrap();
        assert_eq!(reader.read().unwrap(), expected.map(str::as_bytes), "record {record}");
    };
    check(3, Some("3"));
    check(0, Some("0"));
    check(4, None);
    check(1000, None);
}

#[test]
fn a_single_chunk_reads_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample");
    let options = WriteOptions { chunk_bytes: 2, ..WriteOptions::default() };
    std::fs::write(&path, encode(&words(&["0", "1", "2"]), options)).unwrap();
    let chunk = Index::open(&path).unwrap().chunks()[1];
    let mut reader = Reader::open_chunk(&path, 1, chunk.offset, 1 << 20).unwrap();
    assert_eq!(reader.read().unwrap(), Some(&b"2"[..]));
    assert_eq!(reader.read().unwrap(), None);
}

#[test]
fn empty_records_are_records_and_do_not_pile_up_in_one_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample");
    let options = WriteOptions { chunk_records: 3, chunk_bytes: 0, ..WriteOptions::default() };
    std::fs::write(&path, encode(&vec![Vec::new(); 7], options)).unwrap();
    assert_eq!(Index::open(&path).unwrap().chunks().len(), 3);
    let all = read_all(&[path], ReadOptions::default()).unwrap();
    assert_eq!(all, vec![Vec::<u8>::new(); 7]);
}

#[test]
fn a_writer_without_records_writes_no_bytes_and_that_is_a_valid_file() {
    assert!(encode(&[], WriteOptions::default()).is_empty());
    let folder = tempfile::tempdir().unwrap();
    assert!(read_bytes(folder.path(), b"", ReadOptions::default()).unwrap().is_empty());
}

#[test]
fn the_fluid_layout_refuses_compressors_it_has_no_code_for() {
    let options = WriteOptions { compressor: Compressor::Gzip, ..WriteOptions::new(Layout::Fluid) };
    let error = Writer::new(Vec::new(), options).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    insta::assert_snapshot!(error, @"this layout has no such compressor; use none or snappy, or the go layout (layout: fluid, compressor: gzip)");
}
