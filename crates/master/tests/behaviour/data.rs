//! Small files to make datasets of.

use master::dataset::{Dataset, Split};
use master::records::{ReadOptions, Records};
use master::task::Piece;
use recordio::{WriteOptions, Writer};
use std::path::Path;

/// A text dataset of so many tasks, one line each. Its file is gone: tasks need no files.
pub(crate) fn tasks(count: u64) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    text(folder.path(), "lines", count)
}

/// A text dataset in a folder: line `k` of the file is `name k`.
pub(crate) fn text(folder: &Path, name: &str, lines: u64) -> Dataset {
    let path = folder.join(name);
    let text: String = (0..lines).map(|line| format!("{name} {line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let split = Split { pieces_per_task: Some(1), text_piece_bytes: 1, trainers: 1 };
    Dataset::build(&[path.display().to_string()], &split).unwrap()
}

/// A RecordIO file with chunks of about 64 bytes.
pub(crate) fn recordio(path: &Path, records: &[Vec<u8>]) {
    let options = WriteOptions { chunk_bytes: 64, ..WriteOptions::default() };
    let mut writer = Writer::create(path, options).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.close().unwrap();
}

/// All records of some pieces.
pub(crate) fn read(pieces: Vec<Piece>) -> contract::Result<Vec<Vec<u8>>> {
    let mut records = Records::open(pieces, ReadOptions::default())?;
    let mut all = Vec::new();
    while let Some(record) = records.read()? {
        all.push(record.to_vec());
    }
    Ok(all)
}
