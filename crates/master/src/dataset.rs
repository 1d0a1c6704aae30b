//! Paths and globs → files → pieces → tasks. Looks at files only when a dataset is made; tasks keep
//! their numbers for ever, whatever becomes of the files.
//!
//! A RecordIO file is cut into its chunks, a text file into ranges of bytes that end with a line. A
//! gzip file is one piece: there is no way into the middle of a compressed stream. Consecutive
//! pieces, over the borders of files, make a task.

mod text;

use crate::message::{PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::task::{Format, Piece};
use contract::{Error, Kind, Result};
use recordio::Index;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How files are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Pieces that make a task. Default 10.
    pub pieces_per_task: u32,
    /// About how many bytes of a text file make a piece. Default 4 MiB.
    pub text_piece_bytes: u64,
}

/// Data that has been cut into tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    patterns: Vec<String>,
    files: Vec<SourceFile>,
    parts: Vec<Part>,
    parts_per_task: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SourceFile {
    path: String,
    format: Format,
    bytes: u64,
}

/// A piece, its file by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    file: u32,
    number: u64,
    offset: u64,
    bytes: u64,
}

/// The most pieces of a dataset: about a gigabyte of the master's memory.
const PIECES_MAX: usize = 1 << 24;
/// The most pieces of a task: its description is one frame.
const PIECES_PER_TASK_MAX: u32 = 10_000;
/// What is looked at to tell a file's format.
const SNIFFED_BYTES: u64 = 4096;
const RECORDIO_MAGIC: [u8; 4] = 0x0102_0304_u32.to_le_bytes();
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

impl Default for Split {
    fn default() -> Self {
        Split { pieces_per_task: 10, text_piece_bytes: 4 << 20 }
    }
}

impl Split {
    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.pieces_per_task == 0 {
            return Err(Error::invalid("a task has at least one chunk: --chunk_per_task=1"));
        }
        if self.pieces_per_task > PIECES_PER_TASK_MAX {
            return Err(Error::invalid("a task has too many chunks")
                .with("chunk_per_task", self.pieces_per_task)
                .with("max", PIECES_PER_TASK_MAX));
        }
        if self.text_piece_bytes == 0 {
            return Err(Error::invalid("a chunk of text has at least one byte: --chunk_bytes=4Mi"));
        }
        Ok(())
    }
}

impl Dataset {
    /// Looks at the files that the patterns name, in the order of the patterns, each pattern's files
    /// sorted. Reads the headers of RecordIO files, and of text files a little at every cut.
    ///
    /// `NotFound` for a pattern that no file matches, `Damaged` for a file that is none of the known
    /// formats, `Invalid` when all files are empty.
    pub fn build(patterns: &[String], split: &Split) -> Result<Dataset> {
        check_patterns(patterns)?;
        split.check()?;
        let mut dataset = Dataset {
            patterns: patterns.to_vec(),
            files: Vec::new(),
            parts: Vec::new(),
            parts_per_task: split.pieces_per_task,
        };
        for path in recordio::expand(patterns)? {
            dataset.add(&path, split)?;
        }
        if dataset.parts.is_empty() {
            return Err(Error::invalid("the files of the dataset are all empty")
                .with("dataset", patterns.join(",")));
        }
        Ok(dataset)
    }

    /// What it was built from.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Number of tasks, at least 1.
    pub fn tasks(&self) -> u64 {
        self.parts.len().div_ceil(self.parts_per_task as usize) as u64
    }

    /// The pieces of a task, none if there is no such task.
    pub fn pieces(&self, task: u64) -> Vec<Piece> {
        let parts = self.parts.chunks(self.parts_per_task as usize).nth(task as usize);
        parts.unwrap_or_default().iter().map(|part| self.piece(part)).collect()
    }

    /// The files of a task.
    pub fn files(&self, task: u64) -> Vec<String> {
        let mut files: Vec<String> =
            self.pieces(task).into_iter().map(|piece| piece.path).collect();
        files.dedup();
        files
    }

    /// Refuses what no dataset looks like; for those read from a disk.
    pub fn check(&self) -> Result<()> {
        let is_sound = !self.parts.is_empty()
            && self.parts.len() <= PIECES_MAX
            && self.parts_per_task > 0
            && self.parts.iter().all(|part| (part.file as usize) < self.files.len());
        match is_sound {
            true => Ok(()),
            false => Err(Error::new(Kind::Damaged, "the stored dataset makes no sense")),
        }
    }

    fn piece(&self, part: &Part) -> Piece {
        let file = &self.files[part.file as usize];
        Piece {
            path: file.path.clone(),
            format: file.format,
            file_bytes: file.bytes,
            offset: part.offset,
            bytes: part.bytes,
            number: part.number,
        }
    }

    fn add(&mut self, path: &Path, split: &Split) -> Result<()> {
        let placed = |error: Error| error.with("file", path.display());
        let unreadable = |source| placed(Error::io("cannot read data file", source));
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        let name = absolute
            .to_str()
            .ok_or_else(|| placed(Error::invalid("name of a data file is not UTF-8; rename it")))?;
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(placed(Error::invalid("is no file; name the files of a directory")));
        }
        let bytes = metadata.len();
        let format = sniff(&mut file).map_err(placed)?;
        let ranges = match format {
            Format::RecordIo => chunks(path)?,
            Format::Gzip => vec![(0, bytes)],
            Format::Text => text::cut(&mut file, bytes, split.text_piece_bytes).map_err(placed)?,
        };
        let number = u32::try_from(self.files.len())
            .map_err(|_| Error::new(Kind::LimitExceeded, "dataset has too many files"))?;
        self.files.push(SourceFile { path: name.to_owned(), format, bytes });
        for (place, (offset, bytes)) in ranges.into_iter().enumerate() {
            self.parts.push(Part { file: number, number: place as u64, offset, bytes });
        }
        if self.parts.len() > PIECES_MAX {
            return Err(Error::new(
                Kind::LimitExceeded,
                "dataset has too many chunks; write larger ones, or raise --chunk_bytes",
            )
            .with("chunks_max", PIECES_MAX));
        }
        Ok(())
    }
}

/// Refuses patterns before anything is looked at: they may come from a peer.
pub fn check_patterns(patterns: &[String]) -> Result<()> {
    if patterns.iter().all(|pattern| pattern.trim().is_empty()) {
        return Err(Error::invalid("dataset names no file; give paths or globs such as data/*"));
    }
    let too_large = |what, count: usize, max: usize| {
        Err(Error::new(Kind::LimitExceeded, what).with("found", count).with("max", max))
    };
    if patterns.len() > PATTERNS_MAX {
        return too_large("dataset has too many patterns; use globs", patterns.len(), PATTERNS_MAX);
    }
    match patterns.iter().map(String::len).max() {
        Some(longest) if longest > PATTERN_BYTES_MAX => {
            too_large("pattern of the dataset is too long", longest, PATTERN_BYTES_MAX)
        }
        _ => Ok(()),
    }
}

/// The format of a file, by its first bytes. What is neither is taken for text only if it can be:
/// a damaged RecordIO file must not pass for lines.
fn sniff(file: &mut File) -> Result<Format> {
    let mut start = Vec::new();
    file.take(SNIFFED_BYTES)
        .read_to_end(&mut start)
        .map_err(|source| Error::io("cannot read data file", source))?;
    if start.starts_with(&RECORDIO_MAGIC) {
        return Ok(Format::RecordIo);
    }
    if start.starts_with(&GZIP_MAGIC) {
        return Ok(Format::Gzip);
    }
    match start.contains(&0) {
        true => Err(Error::new(Kind::Damaged, "file is neither RecordIO nor gzip nor text")),
        false => Ok(Format::Text),
    }
}

fn chunks(path: &Path) -> Result<Vec<(u64, u64)>> {
    let index = Index::open(path)?;
    Ok(index.chunks().iter().map(|chunk| (chunk.offset, chunk.bytes)).collect())
}
