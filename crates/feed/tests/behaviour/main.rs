//! What a feed gives of files, good and bad.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod lines;
mod memory;

use contract::Result;
use engine::batch::Batch;
use engine::shape::{Level, Shape, Value};
use feed::{Config, Feed, Format, Layer, Malformed, Plan};
use std::path::{Path, PathBuf};

/// A dense slot of 2 numbers, a list of ids below 1000, an id without a bound, a label.
pub(crate) fn layers() -> Vec<Layer> {
    let shape = |value, size| Shape { size, value, ..Shape::dense(size) };
    let layer = |name: &str, shape, place| Layer { name: name.to_owned(), shape, place };
    vec![
        layer("dense", Shape::dense(2), 0),
        layer("list", shape(Value::SparseBinary, 1000), 1),
        layer("id", shape(Value::Integer, 0), 2),
        layer("label", shape(Value::Integer, 2), 3),
    ]
}

pub(crate) fn sequence(value: Value, size: usize) -> Shape {
    Shape { size, value, level: Level::Sequence, ..Shape::dense(size) }
}

/// A line of which everything follows from the number.
pub(crate) fn line(number: usize) -> String {
    let ids: Vec<String> = (0..number % 4).map(|id| (number % 100 + id).to_string()).collect();
    let list = format!("{} {}", ids.len(), ids.join(" "));
    format!("2 {}.5 -0.25 {} 1 {number} 1 {}\n", number, list.trim(), number % 2)
}

pub(crate) fn text(numbers: std::ops::Range<usize>) -> String {
    numbers.map(line).collect()
}

pub(crate) fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

pub(crate) fn config(paths: Vec<PathBuf>, batch_size: usize) -> Config {
    Config { paths, batch_size, threads: 2, malformed: Malformed::Fail, share: None, memory: None }
}

pub(crate) fn feed(config: Config) -> Feed {
    Feed::new(Plan::new(Format::MultiSlot, None, &layers()).unwrap(), config).unwrap()
}

pub(crate) fn read(feed: &Feed, pass: u64) -> Result<Vec<Batch>> {
    let mut batches = feed.pass(pass, &|| Ok(()))?;
    let mut all = Vec::new();
    while let Some(batch) = batches.next(&|| Ok(()))? {
        all.push(batch);
    }
    Ok(all)
}

/// The ids of the slot that has the line's number.
pub(crate) fn numbers(batches: &[Batch]) -> Vec<u64> {
    let ids = |batch: &Batch| match &batch.inputs[2].rows {
        engine::batch::Rows::Integer(ids) => ids.clone(),
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map(ids).collect()
}
