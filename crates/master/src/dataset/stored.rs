//! A dataset as it is in a journal: of this release or of earlier ones, and checked.

use super::{Dataset, PIECES_MAX, PIECES_PER_TASK_MAX, Part, SourceFile, tasks};
use crate::task::RecordRange;
use contract::{Error, Kind, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    patterns: Vec<String>,
    files: Vec<SourceFile>,
    parts: Vec<Part>,
    #[serde(default)]
    task_ends: Vec<u32>,
    /// Earlier releases: all tasks have so many pieces.
    parts_per_task: Option<u32>,
}

impl TryFrom<Stored> for Dataset {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Dataset> {
        let Stored { patterns, files, parts, task_ends, parts_per_task } = stored;
        let task_ends = match parts_per_task {
            None => task_ends,
            Some(0) => return Err(unsound("parts_per_task", 0)),
            Some(pieces) => tasks::every(pieces, parts.len()),
        };
        let dataset = Dataset { patterns, files, parts, task_ends };
        dataset.check()?;
        Ok(dataset)
    }
}

impl Dataset {
    /// Refuses what no dataset looks like, before any of its numbers is believed.
    fn check(&self) -> Result<()> {
        if self.parts.is_empty() || self.parts.len() > PIECES_MAX {
            return Err(unsound("chunks", self.parts.len() as u64));
        }
        if let Some((at, _)) = self.parts.iter().enumerate().find(|(_, part)| !self.is_sound(part))
        {
            return Err(unsound("chunk", at as u64));
        }
        let begins = std::iter::once(0).chain(self.task_ends.iter().copied());
        let is_sound =
            |(begin, end): (u32, &u32)| *end > begin && *end - begin <= PIECES_PER_TASK_MAX;
        if let Some(at) = begins.zip(&self.task_ends).position(|task| !is_sound(task)) {
            return Err(unsound("task", at as u64));
        }
        match self.task_ends.last() {
            Some(end) if *end as usize == self.parts.len() => Ok(()),
            _ => Err(unsound("tasks", self.task_ends.len() as u64)),
        }
    }

    fn is_sound(&self, part: &Part) -> bool {
        let Some(file) = self.files.get(part.file as usize) else { return false };
        let is_inside = part.offset.checked_add(part.bytes).is_some_and(|end| end <= file.bytes);
        is_inside && part.records.as_ref().is_none_or(RecordRange::is_sound)
    }
}

fn unsound(what: &'static str, number: u64) -> Error {
    Error::new(Kind::Damaged, "the stored dataset makes no sense").with(what, number)
}
