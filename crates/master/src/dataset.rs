//! Paths and globs → files → pieces → tasks. Looks at files only when a dataset is made; tasks keep
//! their numbers for ever, whatever becomes of the files.
//!
//! A RecordIO file is cut into its chunks, a text file into ranges of bytes that end with a line
//! (`source`). Consecutive pieces, over the borders of files, make a task. Unless the number of
//! pieces in a task was chosen by hand, pieces are divided further, down to single records if need
//! be, until there are enough tasks for all trainers (`tasks`). A gzip file stays one piece: there
//! is no way into the middle of a compressed stream.

mod source;
mod stored;
mod tasks;
mod text;

use crate::message::{PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::task::{Format, Piece, RecordRange};
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// How files are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Pieces that make a task. Default `None`: at most [`PIECES_PER_TASK`], and so few and small
    /// that every trainer gets at least [`TASKS_PER_TRAINER`] tasks of a pass.
    pub pieces_per_task: Option<u32>,
    /// About how many bytes of a text file make a piece. Default 4 MiB.
    pub text_piece_bytes: u64,
    /// How many trainers share the tasks. Default 1.
    pub trainers: u32,
}

/// Data that has been cut into tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "stored::Stored")]
pub struct Dataset {
    patterns: Vec<String>,
    files: Vec<SourceFile>,
    parts: Vec<Part>,
    /// Where in `parts` each task ends.
    task_ends: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFile {
    path: String,
    format: Format,
    bytes: u64,
}

/// A piece, its file by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    file: u32,
    number: u64,
    offset: u64,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<RecordRange>,
}

/// The most pieces of a task when nothing else is asked for: what a trainer loses at most when it
/// dies.
pub const PIECES_PER_TASK: u32 = 10;
/// The least tasks of a pass for each trainer, where the data can be cut that far: then trainers of
/// different speed end a pass within an eighth of it.
pub const TASKS_PER_TRAINER: u64 = 8;

/// The most pieces of a dataset: about a gigabyte of the master's memory.
const PIECES_MAX: usize = 1 << 24;
/// The most pieces of a task: its description is one frame.
const PIECES_PER_TASK_MAX: u32 = 10_000;
/// The most tasks that are made for the sake of many trainers.
const TASKS_WANTED_MAX: u64 = 1 << 20;

impl Default for Split {
    fn default() -> Self {
        Split { pieces_per_task: None, text_piece_bytes: 4 << 20, trainers: 1 }
    }
}

impl Split {
    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.pieces_per_task == Some(0) {
            return Err(Error::invalid("a task has at least one chunk: --chunk_per_task=1"));
        }
        if let Some(pieces) = self.pieces_per_task.filter(|pieces| *pieces > PIECES_PER_TASK_MAX) {
            return Err(Error::invalid("a task has too many chunks")
                .with("chunk_per_task", pieces)
                .with("max", PIECES_PER_TASK_MAX));
        }
        if self.text_piece_bytes == 0 {
            return Err(Error::invalid("a chunk of text has at least one byte: --chunk_bytes=4Mi"));
        }
        if self.trainers == 0 {
            return Err(Error::invalid("tasks are for at least one trainer: --trainers=1"));
        }
        Ok(())
    }

    fn tasks_wanted(&self) -> u64 {
        (u64::from(self.trainers) * TASKS_PER_TRAINER).min(TASKS_WANTED_MAX)
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
        let (mut files, mut parts) = (Vec::new(), Vec::new());
        for path in recordio::expand(patterns)? {
            source::add(&path, split, &mut files, &mut parts)?;
        }
        if parts.is_empty() {
            return Err(Error::invalid("the files of the dataset are all empty")
                .with("dataset", patterns.join(",")));
        }
        let (parts, task_ends) = match split.pieces_per_task {
            Some(pieces) => {
                let ends = tasks::every(pieces, parts.len());
                (parts, ends)
            }
            None => tasks::enough(parts, split.tasks_wanted(), &mut source::Divider::new(&files))?,
        };
        let dataset = Dataset { patterns: patterns.to_vec(), files, parts, task_ends };
        dataset.say_if_coarse(split);
        Ok(dataset)
    }

    /// What it was built from.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Number of tasks, at least 1.
    pub fn tasks(&self) -> u64 {
        self.task_ends.len() as u64
    }

    /// The pieces of a task, none if there is no such task.
    pub fn pieces(&self, task: u64) -> Vec<Piece> {
        let Some(end) = usize::try_from(task).ok().and_then(|task| self.task_ends.get(task)) else {
            return Vec::new();
        };
        let begin = task.checked_sub(1).map_or(0, |before| self.task_ends[before as usize]);
        let parts = &self.parts[begin as usize..*end as usize];
        parts.iter().map(|part| self.piece(part)).collect()
    }

    /// The files of a task.
    pub fn files(&self, task: u64) -> Vec<String> {
        let mut files: Vec<String> =
            self.pieces(task).into_iter().map(|piece| piece.path).collect();
        files.dedup();
        files
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
            records: part.records,
        }
    }

    /// Warns of data that trainers cannot share evenly.
    fn say_if_coarse(&self, split: &Split) {
        let (tasks, wanted) = (self.tasks(), split.tasks_wanted());
        if tasks >= wanted {
            return;
        }
        let gzip_files = self.files.iter().filter(|file| file.format == Format::Gzip).count();
        let advice = match (split.pieces_per_task, gzip_files) {
            (Some(_), _) => "lower --chunk_per_task, or leave it out",
            (None, 0) => "there are too few records",
            (None, _) => {
                "gzip files cannot be cut and are one task each: use more and smaller ones, plain \
                 text, or RecordIO"
            }
        };
        let trainers = split.trainers;
        tracing::warn!(tasks, wanted, trainers, gzip_files, "few tasks to share: {advice}");
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
