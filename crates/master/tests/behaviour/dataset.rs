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
    let split = Split { pieces_per_task: Some(2), ..Split::default() };
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

#[test]
fn one_large_chunk_is_enough_work_for_all_trainers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let mut writer = recordio::Writer::create(&path, recordio::WriteOptions::default()).unwrap();
    let records: Vec<Vec<u8>> = (0..1000_u32).map(|n| n.to_string().into_bytes()).collect();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.close().unwrap();
    let split = Split { trainers: 4, ..Split::default() };
    let dataset = build(folder.path(), &["records"], split).unwrap();
    assert_eq!(dataset.tasks(), 32);
    let tasks: Vec<_> = (0..32).map(|task| read(dataset.pieces(task)).unwrap()).collect();
    assert!(tasks.iter().all(|records| (31..=32).contains(&records.len())), "of similar size");
    assert_eq!(tasks.concat(), records);
    let by_hand = Split { pieces_per_task: Some(10), ..split };
    assert_eq!(build(folder.path(), &["records"], by_hand).unwrap().tasks(), 1);
}

#[test]
fn a_gzip_file_is_one_task_however_many_trainers_there_are() {
    let folder = tempfile::tempdir().unwrap();
    gzip(&folder.path().join("a.gz"), &["line\n".repeat(1000).as_bytes()]);
    std::fs::write(folder.path().join("b"), "line\n".repeat(10)).unwrap();
    let split = Split { trainers: 2, ..Split::default() };
    let dataset = build(folder.path(), &["*"], split).unwrap();
    assert_eq!(dataset.tasks(), 11, "ten lines can be ten tasks");
}

#[test]
fn a_chunk_that_has_another_number_of_records_now_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let write = |records: &[&[u8]]| {
        let compressor = recordio::Compressor::None;
        let options = recordio::WriteOptions { compressor, ..Default::default() };
        let mut writer = recordio::Writer::create(&path, options).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        writer.close().unwrap();
    };
    write(&[&[1; 10], &[2; 10]]);
    let dataset = build(folder.path(), &["records"], Split::default()).unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    write(&[&[1; 24]]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before, "of the same size");
    let error = read(dataset.pieces(0)).unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.to_string().contains("file has changed"), "{error}");
}

#[test]
fn datasets_of_earlier_releases_are_read_and_absurd_ones_refused() {
    let stored = |parts: &str, tasks: &str| {
        let files = r#"[{"path":"/d","format":"recordio","bytes":100}]"#;
        let text = format!(r#"{{"patterns":["/d"],"files":{files},"parts":{parts},{tasks}}}"#);
        serde_json::from_str::<Dataset>(&text)
    };
    let old = r#"[{"file":0,"number":0,"offset":0,"bytes":50},
                  {"file":0,"number":1,"offset":50,"bytes":50}]"#;
    let dataset = stored(old, r#""parts_per_task":1"#).unwrap();
    assert_eq!(dataset.tasks(), 2);
    assert_eq!(dataset.pieces(1)[0].records, None, "all of the chunk");
    assert!(stored(old, r#""task_ends":[2]"#).is_ok());
    for tasks in [
        r#""parts_per_task":0"#,
        r#""task_ends":[]"#,
        r#""task_ends":[1]"#,
        r#""task_ends":[0,2]"#,
        r#""task_ends":[2,1]"#,
        r#""task_ends":[1,4294967295]"#,
        r#""tasks":2"#,
    ] {
        assert!(stored(old, tasks).is_err(), "{tasks}");
    }
    for part in [
        r#"{"file":1,"number":0,"offset":0,"bytes":50}"#,
        r#"{"file":0,"number":0,"offset":51,"bytes":50}"#,
        r#"{"file":0,"number":0,"offset":18446744073709551615,"bytes":2}"#,
        r#"{"file":0,"number":0,"offset":0,"bytes":9,"records":{"first":0,"count":0,"of":9}}"#,
        r#"{"file":0,"number":0,"offset":0,"bytes":9,"records":{"first":4294967295,"count":1,"of":9}}"#,
    ] {
        assert!(stored(&format!("[{part}]"), r#""task_ends":[1]"#).is_err(), "{part}");
    }
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
        pieces_per_task in prop::option::of(1..6_u32),
        trainers in 1..4_u32,
        text_piece_bytes in 1..100_u64,
        has_last_end: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let end = if has_last_end { "\n" } else { "" };
        std::fs::write(folder.path().join("0"), lines.join("\n") + end).unwrap();
        recordio(&folder.path().join("1"), &records);
        gzip(&folder.path().join("2"), &[(lines.join("\n") + end).as_bytes()]);
        let split = Split { pieces_per_task, text_piece_bytes, trainers };
        let dataset = build(folder.path(), &["*"], split).unwrap();
        let mut all = Vec::new();
        for task in 0..dataset.tasks() {
            let pieces = dataset.pieces(task);
            let is_last = task + 1 == dataset.tasks();
            let asked_for = pieces_per_task.map_or(pieces.len(), |count| count as usize);
            prop_assert!(pieces.len() == asked_for || is_last);
            all.extend(read(pieces).unwrap());
        }
        prop_assert!(dataset.pieces(dataset.tasks()).is_empty());
        prop_assert!(dataset.pieces(u64::MAX).is_empty());
        // The lines of the text, the records, and the gzip file as one.
        let can_be_cut = (lines.len() + records.len()) as u64;
        let wanted = (8 * u64::from(trainers)).min(can_be_cut);
        prop_assert!(pieces_per_task.is_some() || dataset.tasks() >= wanted);
        let mut of_lines: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        if !has_last_end && of_lines.last().is_some_and(Vec::is_empty) {
            // Nothing behind the last line end is no line.
            of_lines.pop();
        }
        prop_assert_eq!(all, [of_lines.clone(), records, of_lines].concat());
    }
}
