//! Files → tasks: every record is in one task, and what cannot be data is refused by name.

use super::data::{read, recordio};
use contract::Kind;
use flate2::Compression;
use flate2::write::GzEncoder;
use master::dataset::{Dataset, Split};
use master::task::Format;
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

fn gzip(path: &Path, members: &[&[u8]]) {
    let mut bytes = Vec::new();
    for member in members {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(member).unwrap();
        bytes.extend(encoder.finish().unwrap());
    }
    std::fs::write(path, bytes).unwrap();
}

fn build(folder: &Path, patterns: &[&str], split: Split) -> contract::Result<Dataset> {
    let at = |pattern: &&str| folder.join(pattern).display().to_string();
    let patterns: Vec<String> = patterns.iter().map(at).collect();
    Dataset::build(&patterns, &split)
}

#[test]
fn files_are_taken_in_the_order_of_the_patterns_and_told_apart_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    recordio(&at("b-1"), &[b"r0".to_vec(), b"r1".to_vec()]);
    std::fs::write(at("b-0"), "t0\nt1").unwrap();
    gzip(&at("a"), &[b"g0\ng1\n", b"g2"]);
    std::fs::write(at("b-2"), "").unwrap();
    let split = Split { pieces_per_task: 2, ..Split::default() };
    let dataset = build(folder.path(), &["b-*", "a"], split).unwrap();
    assert_eq!(dataset.tasks(), 2);
    let tasks: Vec<_> = (0..2).map(|task| dataset.pieces(task)).collect();
    let formats: Vec<_> = tasks.iter().flatten().map(|piece| piece.format).collect();
    assert_eq!(formats, [Format::Text, Format::RecordIo, Format::Gzip]);
    assert_eq!(dataset.files(0).len(), 2);
    let records: Vec<Vec<u8>> =
        tasks.into_iter().flat_map(|pieces| read(pieces).unwrap()).collect();
    let expected: [&[u8]; 7] = [b"t0", b"t1", b"r0", b"r1", b"g0", b"g1", b"g2"];
    assert_eq!(records, expected);
}

#[test]
fn what_cannot_be_data_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("binary"), b"\x04\x03\x02\x00 not the magic number").unwrap();
    recordio(&at("good"), &[b"x".to_vec()]);
    let good = std::fs::read(at("good")).unwrap();
    std::fs::write(at("cut"), &good[..good.len() - 1]).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let check = |pattern: &str, kind: Kind| {
        let error = build(folder.path(), &["good", pattern], Split::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(pattern), "{error}");
    };
    check("binary", Kind::Damaged);
    check("cut", Kind::Damaged);
    check("folder", Kind::Invalid);
    check("missing-*", Kind::NotFound);
    let empty = build(folder.path(), &["empty"], Split::default()).unwrap_err();
    assert_eq!(empty.kind(), Kind::Invalid);
    assert_eq!(Dataset::build(&[], &Split::default()).unwrap_err().kind(), Kind::Invalid);
    let many = vec!["x".to_owned(); 5000];
    let error = Dataset::build(&many, &Split::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::LimitExceeded);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_record_is_in_one_task(
        lines in prop::collection::vec("[a-z]{0,30}", 1..60),
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..40),
        pieces_per_task in 1..6_u32,
        text_piece_bytes in 1..100_u64,
        has_last_end: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let end = if has_last_end { "\n" } else { "" };
        std::fs::write(folder.path().join("0"), lines.join("\n") + end).unwrap();
        recordio(&folder.path().join("1"), &records);
        gzip(&folder.path().join("2"), &[(lines.join("\n") + end).as_bytes()]);
        let split = Split { pieces_per_task, text_piece_bytes };
        let dataset = build(folder.path(), &["*"], split).unwrap();
        let mut all = Vec::new();
        for task in 0..dataset.tasks() {
            let pieces = dataset.pieces(task);
            let is_last = task + 1 == dataset.tasks();
            prop_assert!(pieces.len() == pieces_per_task as usize || is_last);
            all.extend(read(pieces).unwrap());
        }
        prop_assert!(dataset.pieces(dataset.tasks()).is_empty());
        let mut of_lines: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        if !has_last_end && of_lines.last().is_some_and(Vec::is_empty) {
            // Nothing behind the last line end is no line.
            of_lines.pop();
        }
        prop_assert_eq!(all, [of_lines.clone(), records, of_lines].concat());
    }
}
