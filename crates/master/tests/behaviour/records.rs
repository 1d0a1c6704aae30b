//! Reading a task's records: bounded, ahead, and never an end where there is damage.

use super::data::{read, recordio, text};
use contract::Kind;
use master::dataset::{Dataset, Split};
use master::records::{ReadOptions, Records};
use master::task::Piece;
use std::path::Path;

fn pieces(path: &Path) -> Vec<Piece> {
    let split = Split { pieces_per_task: Some(1000), ..Split::default() };
    Dataset::build(&[path.display().to_string()], &split).unwrap().pieces(0)
}

/// The error, and that it stays one.
#[track_caller]
fn failure(pieces: Vec<Piece>, options: ReadOptions) -> contract::Error {
    let mut records = Records::open(pieces, options).unwrap();
    loop {
        match records.read() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("damage passed for an end"),
            Err(error) => {
                assert_eq!(records.read().unwrap_err().kind(), error.kind());
                assert_eq!(records.fill().unwrap_err().kind(), error.kind());
                return error;
            }
        }
    }
}

#[test]
fn a_file_that_changed_since_its_tasks_were_made_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = text(folder.path(), "lines", 10);
    let path = folder.path().join("lines");
    std::fs::write(&path, "lines 0\n").unwrap();
    let error = failure(dataset.pieces(3), ReadOptions::default());
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.to_string().contains("file has changed"), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = failure(dataset.pieces(3), ReadOptions::default());
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("lines"), "{error}");
}

#[test]
fn a_damaged_chunk_is_an_error_with_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    recordio(&path, &[vec![1; 50], vec![2; 50], vec![3; 50]]);
    let pieces = pieces(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let last = pieces.last().unwrap().offset.to_string();
    let error = failure(pieces, ReadOptions::default());
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.context().any(|pair| pair == ("offset", &last)), "{error}");
}

#[test]
fn a_gzip_file_that_is_cut_or_garbled_is_damage() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.gz");
    let lines: String = (0..20_000).map(|line| format!("{line}\n")).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(lines.as_bytes()).unwrap();
    let good = encoder.finish().unwrap();
    for bad in [good[..good.len() - 4].to_vec(), good[..good.len() / 2].to_vec(), {
        let mut garbled = good.clone();
        garbled[good.len() / 2] ^= 0xff;
        garbled
    }] {
        std::fs::write(&path, &bad).unwrap();
        let error = failure(pieces(&path), ReadOptions::default());
        assert_eq!(error.kind(), Kind::Damaged, "{error}");
        assert!(error.to_string().contains("lines.gz"), "{error}");
    }
    std::fs::write(&path, &good).unwrap();
    assert_eq!(read(pieces(&path)).unwrap().len(), 20_000);
}

#[test]
fn a_line_or_a_chunk_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = ReadOptions { record_bytes_max: 100, ..ReadOptions::default() };
    let long = folder.path().join("long");
    std::fs::write(&long, format!("short\n{}\n", "x".repeat(101))).unwrap();
    let error = failure(pieces(&long), options);
    assert_eq!(error.kind(), Kind::LimitExceeded);
    let large = folder.path().join("large");
    recordio(&large, &[vec![0; 1000]]);
    assert_eq!(failure(pieces(&large), options).kind(), Kind::LimitExceeded);
}

#[test]
fn a_gzip_bomb_is_refused_before_it_fills_the_memory() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..300 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap();
    let error = failure(pieces(&path), ReadOptions::default());
    assert_eq!(error.kind(), Kind::LimitExceeded);
    assert!(error.to_string().contains("bomb.gz"), "{error}");
}

#[test]
fn blocks_that_are_large_together_are_waited_for_and_come_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let line = "x".repeat(20 << 20) + "\n";
    std::fs::write(&path, line.repeat(8)).unwrap();
    let options = ReadOptions { blocks_ahead: 100, ..ReadOptions::default() };
    let mut records = Records::open(pieces(&path), options).unwrap();
    let mut lines = 0;
    while let Some(record) = records.read().unwrap() {
        assert_eq!(record.len(), 20 << 20);
        lines += 1;
    }
    assert_eq!(lines, 8);
}

#[test]
fn many_blocks_of_lines_come_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let lines: Vec<String> = (0..300_000).map(|line| format!("line {line:>20}")).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let read = read(pieces(&path)).unwrap();
    assert_eq!(read.len(), lines.len());
    assert!(read.iter().zip(&lines).all(|(record, line)| record == line.as_bytes()));
}

#[test]
fn records_that_nobody_reads_to_the_end_do_not_hold_anybody_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    std::fs::write(&path, "some line\n".repeat(1 << 20)).unwrap();
    let mut records = Records::open(pieces(&path), ReadOptions::default()).unwrap();
    assert_eq!(records.read().unwrap(), Some(&b"some line"[..]));
    drop(records);
}
