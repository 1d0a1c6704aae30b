//! How the RecordIO format behaves, through its public face.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod files;
mod golden;
mod round_trip;

use contract::Result;
use recordio::{Compressor, Layout, ReadOptions, Reader, WriteOptions, Writer};
use std::path::{Path, PathBuf};

/// Every combination that a file can have.
fn variants() -> Vec<WriteOptions> {
    let pairs = Layout::ALL
        .into_iter()
        .flat_map(|layout| Compressor::ALL.into_iter().map(move |compressor| (layout, compressor)));
    pairs
        .filter(|(layout, compressor)| layout.supports(*compressor))
        .map(|(layout, compressor)| WriteOptions { compressor, ..WriteOptions::new(layout) })
        .collect()
}

fn encode(records: &[Vec<u8>], options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap().0
}

/// All records, or the first error.
fn read_all(paths: &[PathBuf], options: ReadOptions) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::open(paths, options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.read()? {
        records.push(record.to_vec());
    }
    Ok(records)
}

fn read_bytes(folder: &Path, bytes: &[u8], options: ReadOptions) -> Result<Vec<Vec<u8>>> {
    let path = folder.join("sample");
    std::fs::write(&path, bytes).unwrap();
    read_all(&[path], options)
}

fn words(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|word| word.as_bytes().to_vec()).collect()
}
