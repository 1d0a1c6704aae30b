//! Lines of texts, gzip and RecordIO files; malformed ones, and damaged files.

use super::*;
use contract::Kind;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn recordio(path: &Path, lines: impl Iterator<Item = String>) {
    let mut writer = recordio::Writer::create(path, recordio::WriteOptions::default()).unwrap();
    for line in lines {
        writer.write(line.as_bytes()).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn texts_gzip_and_recordio_files_hold_the_same_lines() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "plain", text(0..50));
    let cut = write(folder.path(), "cut", text(0..50).trim_end());
    let dos = write(folder.path(), "dos", text(0..50).replace('\n', "\r\n"));
    let packed = write(folder.path(), "packed", gzip(&text(0..50)));
    let [with_ends, without] = ["with", "without"].map(|name| folder.path().join(name));
    recordio(&with_ends, (0..50).map(line));
    recordio(&without, (0..50).map(|number| line(number).trim_end().to_owned()));
    let expected = read(&feed(config(vec![plain], 8)), 0).unwrap();
    assert!(numbers(&expected).into_iter().eq(0..50));
    for path in [cut, dos, packed, with_ends, without] {
        let name = path.display().to_string();
        assert_eq!(read(&feed(config(vec![path], 8)), 0).unwrap(), expected, "{name}");
    }
}

/// Reads good lines, a bad one, and more good ones.
fn check_bad(bad: &str, expect: &str) {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good", text(0..5));
    let content = format!("{}{bad}\n{}", text(5..25), text(25..30));
    let path = write(folder.path(), "bad", content);
    let failing = feed(config(vec![good.clone(), path.clone()], 4));
    let mut batches = failing.pass(0, &|| Ok(())).unwrap();
    let error = loop {
        match batches.next(&|| Ok(())) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{bad:?} was accepted"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::Damaged, "{error}");
    let message = error.to_string();
    assert!(message.contains(expect), "{message}");
    assert!(message.contains("line: 21") && message.contains("/bad"), "{message}");
    // Not an end, however often it is asked.
    assert!(batches.next(&|| Ok(())).is_err());

    let malformed = Malformed::Skip;
    let skipping = feed(Config { malformed, ..config(vec![good, path], 4) });
    let batches = read(&skipping, 0).unwrap();
    assert_eq!(skipping.skipped(), 1);
    assert!(numbers(&batches).into_iter().eq(0..30));
    assert!(batches[..7].iter().all(|batch| batch.samples == 4), "full batches but the last");
}

#[test]
fn every_malformed_line_is_an_error_with_file_and_line_or_is_skipped_and_counted() {
    check_bad("", "expected 4 slots, got a line that ends after 0");
    check_bad("2 1 2 0 1 5", "expected 4 slots, got a line that ends after 3");
    check_bad("2 1 2 0 1 5 1 1 1", "expected the line to end after 4 slots, got '1'");
    check_bad("2 1 x 0 1 5 1 1", "expected a number, got 'x'");
    check_bad("2 1 nan 0 1 5 1 1", "expected a number, got 'nan'");
    check_bad("3 1 2 3 0 1 5 1 1", "expected 2 values, got '3'");
    check_bad("2 1 2 1 1000 1 5 1 1", "expected an id from 0 to 999, got '1000'");
    check_bad("2 1 2 1 -1 1 5 1 1", "expected an id from 0 to 999, got '-1'");
    check_bad("2 1 2 9 1 1 5 1 1", "expected 9 values, got nothing");
    check_bad("2 1 2 99999999999999999999 1", "expected how many values follow");
    check_bad("2 1 2 0 2 5 6 1 1", "expected 1 value, got '2'");
    check_bad("2 1 2 0 1 5 1 2", "expected an id from 0 to 1, got '2'");
    check_bad("2 1 2 0 1 18446744073709551615 1 1", "expected an id from 0 to");
    check_bad("2 1 2 0 1 5 1 1.0", "data layer: label");
    check_bad("\u{fffd}\u{0}", "expected how many values follow");
}

#[test]
fn an_id_of_minus_one_is_no_id_where_a_layer_looks_up_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a", "2 0 0 0 1 -1 1 1\n");
    assert_eq!(numbers(&read(&feed(config(vec![path], 1)), 0).unwrap()), [u64::MAX]);
}

#[test]
fn files_that_are_damaged_or_absent_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let check = |path: PathBuf, expect: &str| {
        for malformed in [Malformed::Fail, Malformed::Skip] {
            let feed = feed(Config { malformed, ..config(vec![path.clone()], 4) });
            let message = read(&feed, 0).unwrap_err().chain();
            assert!(message.contains(expect), "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
        }
    };
    let mut packed = gzip(&text(0..1000));
    packed.truncate(packed.len() / 2);
    check(write(folder.path(), "half.gz", &packed), "damaged or cut off");
    check(folder.path().join("absent"), "cannot read a file of training data");
    let records = folder.path().join("records");
    recordio(&records, (0..100).map(line));
    let mut bytes = std::fs::read(&records).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    check(write(folder.path(), "broken", &bytes), "checksum");
    let lines = folder.path().join("lines");
    recordio(&lines, std::iter::once(text(0..2)));
    check(lines, "a record must be one line");
    let long = "1".repeat(feed::LINE_BYTES_MAX + 1);
    check(write(folder.path(), "long", long), "more than 16 MiB");
}

#[test]
fn an_empty_file_has_no_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "empty", "");
    assert_eq!(read(&feed(config(vec![path], 4)), 0).unwrap(), []);
    assert_eq!(read(&feed(config(vec![], 4)), 0).unwrap(), []);
}
