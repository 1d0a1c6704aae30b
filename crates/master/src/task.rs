//! What a trainer is given: a task, and the pieces of files it consists of.

use serde::{Deserialize, Serialize};

/// Some of the data, leased to one trainer until it is finished, failed or not renewed in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its number in the dataset, from 0; the same in every pass.
    pub id: u64,
    /// How often it has been leased. A lease is (id, epoch): who has an older epoch has lost it.
    pub epoch: u64,
    /// The pass it belongs to, from 0.
    pub pass: u64,
    /// How long the lease holds when it is not renewed, in milliseconds.
    pub lease_ms: u64,
    /// What to read, in order.
    pub pieces: Vec<Piece>,
}

/// A part of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The file's absolute path, as the master sees it.
    pub path: String,
    /// How its records are stored.
    pub format: Format,
    /// Bytes of the whole file when the tasks were made: one that has another size has changed.
    pub file_bytes: u64,
    /// Where the piece begins, or the chunk it is a part of.
    pub offset: u64,
    /// Its bytes; of a part of a chunk, its share of the chunk's.
    pub bytes: u64,
    /// The number of the chunk, or of the range of lines, in the file, from 0.
    pub number: u64,
    /// Which records of the chunk; all of them if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordRange>,
}

/// Consecutive records of a RecordIO chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRange {
    /// The first, counted from 0 in the chunk.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Records of the whole chunk when the tasks were made: with another number the file has changed.
    pub of: u32,
}

/// How the records of a file are stored; told by the file's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A piece is a chunk, or some of its records.
    RecordIo,
    /// A record is a line; a piece is a range of bytes that begins and ends between lines.
    Text,
    /// As text, compressed; a piece is the whole file, as there is no way into its middle.
    Gzip,
}

/// One dispatch of a task to one trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The task.
    pub task: u64,
    /// Which dispatch of it.
    pub epoch: u64,
}

impl Task {
    /// By which the task is finished, failed and renewed.
    pub fn lease(&self) -> Lease {
        Lease { task: self.id, epoch: self.epoch }
    }
}

impl RecordRange {
    /// Whether it lies in its chunk and has any records.
    pub fn is_sound(&self) -> bool {
        let end = u64::from(self.first) + u64::from(self.count);
        self.count > 0 && end <= u64::from(self.of)
    }
}
