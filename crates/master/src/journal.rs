//! The queue's changes on disk, so that what the master has answered survives `kill -9`.
//!
//! A folder has a snapshot of all facts and a log of the changes since, both of one *generation*:
//! `snapshot-N` and `log-N`. Both are rows of records: length (u32), CRC-32C of the content (u32),
//! CRC-32C of these eight bytes (u32), all little-endian, and the content, JSON. A record of the log
//! is a batch of changes that is written and synced before any of their answers leaves. When the log
//! has outgrown the snapshot, a new generation begins: its snapshot appears under its name complete
//! or not at all, and only then the old files go.
//!
//! A crash may tear the last record, which nobody was answered for: it is cut off. Whatever else does
//! not fit is damage, and an error that names file and offset. The header has a checksum of its own,
//! so that a damaged length cannot pass for a torn end and take good records with it.

use crate::queue::{Change, Facts};
use contract::{Error, Kind, Result};
use disk::Access;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An open journal. The folder is locked as long as it lives.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    log: File,
    log_path: PathBuf,
    log_bytes: u64,
    snapshot_bytes: u64,
    generation: u64,
    _lock: File,
}

/// What a journal knows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// At the beginning of the log.
    pub facts: Facts,
    /// Since then.
    pub changes: Vec<Change>,
}

const HEADER_BYTES: usize = 12;
/// A log is not worth a new snapshot below this size.
const LOG_BYTES_MIN: u64 = 1 << 20;

impl Journal {
    /// Opens the journal of a folder, which is made if need be, and reads it.
    ///
    /// `Conflict` if another process has it, `Damaged` if it is not as it was written.
    pub fn open(folder: &Path) -> Result<(Journal, Recovered)> {
        let refused = |source| {
            Error::io("cannot keep the master's state here", source)
                .with("state_dir", folder.display())
        };
        std::fs::create_dir_all(folder).map_err(refused)?;
        let lock = File::create(folder.join("lock")).map_err(refused)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|source| {
            Error::new(Kind::Conflict, "another master keeps its state here; give each its own")
                .with("state_dir", folder.display())
                .because(source)
        })?;
        let generation = newest_generation(folder)?;
        let facts = match generation {
            0 => Facts::default(),
            _ => read_snapshot(&snapshot_path(folder, generation))?,
        };
        let log_path = log_path(folder, generation);
        let unwritable = |source| unwritable(&log_path, source);
        let mut log = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&log_path)
            .map_err(unwritable)?;
        let (changes, log_bytes) = read_log(&log_path)?;
        log.set_len(log_bytes).and_then(|()| log.sync_all()).map_err(unwritable)?;
        log.seek(SeekFrom::End(0)).map_err(unwritable)?;
        disk::sync_folder(folder)?;
        sweep(folder, generation)?;
        let snapshot_bytes = match generation {
            0 => 0,
            _ => std::fs::metadata(snapshot_path(folder, generation)).map_err(refused)?.len(),
        };
        let folder = folder.to_owned();
        let journal =
            Journal { folder, log, log_path, log_bytes, snapshot_bytes, generation, _lock: lock };
        Ok((journal, Recovered { facts, changes }))
    }

    /// Writes changes; they are on disk when this returns. After an error the journal is of no use:
    /// what it has is unknown.
    pub fn append(&mut self, changes: &[Change]) -> Result<()> {
        let record = encode(&changes)?;
        self.log
            .write_all(&record)
            .and_then(|()| self.log.sync_data())
            .map_err(|source| unwritable(&self.log_path, source))?;
        self.log_bytes += record.len() as u64;
        Ok(())
    }

    /// Whether the log has grown so much that a snapshot would be shorter to read.
    pub fn is_long(&self) -> bool {
        self.log_bytes > LOG_BYTES_MIN.max(2 * self.snapshot_bytes)
    }

    /// Begins a new generation with these facts, which all changes so far have led to.
    pub fn compact(&mut self, facts: &Facts) -> Result<()> {
        let generation = self.generation + 1;
        let record = encode(facts)?;
        let path = snapshot_path(&self.folder, generation);
        disk::publish(&path, Access::Private, &record)?;
        let log_path = log_path(&self.folder, generation);
        self.log = File::create(&log_path).map_err(|source| unwritable(&log_path, source))?;
        disk::sync_folder(&self.folder)?;
        self.log_path = log_path;
        (self.generation, self.log_bytes) = (generation, 0);
        self.snapshot_bytes = record.len() as u64;
        sweep(&self.folder, generation)
    }
}

fn snapshot_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("snapshot-{generation}"))
}

fn log_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("log-{generation}"))
}

/// Every file of a generation in a folder.
fn generations(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let refused =
        |source| Error::io("cannot list the state folder", source).with("folder", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("snapshot-").or_else(|| name.strip_prefix("log-"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.push((number, path));
        }
    }
    Ok(found)
}

/// The generation with the newest snapshot; 0, which needs none, if there is no snapshot.
fn newest_generation(folder: &Path) -> Result<u64> {
    let of_snapshots = generations(folder)?
        .into_iter()
        .filter(|(number, path)| *path == snapshot_path(folder, *number));
    Ok(of_snapshots.map(|(number, _)| number).max().unwrap_or(0))
}

/// Removes what older generations left.
fn sweep(folder: &Path, generation: u64) -> Result<()> {
    for (number, path) in generations(folder)? {
        if number != generation {
            std::fs::remove_file(&path).map_err(|source| unwritable(&path, source))?;
        }
    }
    Ok(())
}

fn read_snapshot(path: &Path) -> Result<Facts> {
    let bytes = read_file(path)?;
    let (content, end) = match record(&bytes, 0) {
        Record::Good(content, end) => (content, end),
        Record::Torn | Record::Damaged => return Err(damaged(path, 0)),
    };
    if end != bytes.len() {
        return Err(damaged(path, end));
    }
    decode(content, path, 0)
}

/// The changes of a log, and the bytes that are good of it.
fn read_log(path: &Path) -> Result<(Vec<Change>, u64)> {
    let bytes = read_file(path)?;
    let (mut changes, mut offset) = (Vec::new(), 0);
    while offset < bytes.len() {
        match record(&bytes, offset) {
            Record::Good(content, end) => {
                let batch: Vec<Change> = decode(content, path, offset)?;
                changes.extend(batch);
                offset = end;
            }
            Record::Torn => {
                let bytes = bytes.len() - offset;
                tracing::warn!(file = %path.display(), offset, bytes, "cutting off a torn change");
                break;
            }
            Record::Damaged => return Err(damaged(path, offset)),
        }
    }
    Ok((changes, offset as u64))
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| {
        Error::io("cannot read the master's state", source).with("file", path.display())
    })
}

enum Record<'a> {
    /// Content, and where the next record begins.
    Good(&'a [u8], usize),
    /// The last one, and not completely written.
    Torn,
    Damaged,
}

fn record(bytes: &[u8], offset: usize) -> Record<'_> {
    let rest = &bytes[offset..];
    let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return Record::Torn;
    };
    let field = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if crc32c::crc32c(&header[..8]) != field(8) || field(0) == 0 {
        // A file that grew and whose content did not reach the disk.
        let is_blank = body.iter().all(|byte| *byte == 0);
        return if is_blank { Record::Torn } else { Record::Damaged };
    }
    let length = field(0) as usize;
    match body.get(..length) {
        None => Record::Torn,
        Some(content) if crc32c::crc32c(content) == field(4) => {
            Record::Good(content, offset + HEADER_BYTES + length)
        }
        Some(_) if body.len() == length => Record::Torn,
        Some(_) => Record::Damaged,
    }
}

fn encode(content: &impl Serialize) -> Result<Vec<u8>> {
    let mut record = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut record, content)
        .map_err(|source| Error::invalid("state cannot be written").because(source))?;
    let length = u32::try_from(record.len() - HEADER_BYTES)
        .map_err(|_| Error::new(Kind::LimitExceeded, "state is too large to be written"))?;
    let checksum = crc32c::crc32c(&record[HEADER_BYTES..]);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
    let of_header = crc32c::crc32c(&record[..8]);
    record[8..HEADER_BYTES].copy_from_slice(&of_header.to_le_bytes());
    Ok(record)
}

fn decode<T: DeserializeOwned>(content: &[u8], path: &Path, offset: usize) -> Result<T> {
    serde_json::from_slice(content).map_err(|source| damaged(path, offset).because(source))
}

fn damaged(path: &Path, offset: usize) -> Error {
    Error::new(
        Kind::Damaged,
        "the master's state is damaged; begin the job anew with an empty --state_dir",
    )
    .with("file", path.display())
    .with("offset", offset)
}

fn unwritable(path: &Path, source: std::io::Error) -> Error {
    Error::io("cannot write the master's state", source).with("file", path.display())
}
