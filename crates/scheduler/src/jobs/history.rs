//! Jobs as a list, their figures, and their removal.

use super::directory::JobDirectory;
use super::segments;
use super::{Jobs, PENDING_PREFIX};
use crate::backend::{Cursor, JobSummary, Metrics, MetricsLine};
use crate::conductor::now_ms;
use crate::record::JobRecord;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Directories of jobs that are being removed.
const REMOVED_PREFIX: &str = ".old-";
/// The most bytes of figures that are looked at in one call.
const METRICS_BYTES_MAX: usize = 1 << 20;
/// How long a job is kept whose launcher was killed, which would have forgotten it, and a directory
/// that somebody was killed over.
const ORPHAN_SECONDS: u64 = 24 * 3600;

/// All jobs of an origin, oldest first, and the directories of those that have lost their
/// conductor.
pub(super) fn list(
    root: &Path,
    origin: &str,
    since_ms: Option<u64>,
) -> Result<(Vec<JobSummary>, Vec<JobDirectory>)> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        Err(source) => {
            let error = Error::io("cannot read the directory of jobs", source);
            return Err(error.with("directory", root.display()));
        }
    };
    let (mut summaries, mut lost) = (Vec::<JobSummary>::new(), Vec::new());
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with('.') {
            remove_if_abandoned(&entry);
            continue;
        }
        if !entry.path().is_dir() {
            continue;
        }
        let directory = JobDirectory::new(entry.path());
        let record = match Jobs::look(&directory) {
            Ok(record) => record,
            // Forgotten a moment ago.
            Err(error) if error.kind() == Kind::NotFound => continue,
            Err(error) => {
                tracing::warn!(error = error.chain(), "a job is passed over");
                continue;
            }
        };
        if record.origin != origin || since_ms.is_some_and(|since| record.changed_ms < since) {
            continue;
        }
        // What is wrong with one job does not hide the others.
        let passed_over = |error: Error| {
            tracing::warn!(job = record.id, error = error.chain(), "a job cannot be looked after");
        };
        if !record.state.is_final() {
            match directory.is_conducted() {
                Ok(true) => {}
                Ok(false) => lost.push(directory),
                Err(error) => passed_over(error),
            }
        } else if directory.is_leashed() && has_been_over_for(&record, ORPHAN_SECONDS) {
            if let Err(error) = remove(&directory) {
                passed_over(error);
            }
            continue;
        }
        summaries.push(record.into());
    }
    summaries.sort_by(|a, b| (a.began_ms, &a.id).cmp(&(b.began_ms, &b.id)));
    Ok((summaries, lost))
}

fn has_been_over_for(record: &JobRecord, seconds: u64) -> bool {
    record.ended_ms.is_some_and(|ended| now_ms().saturating_sub(ended) > seconds * 1000)
}

/// A submission or a removal that was interrupted leaves a hidden directory.
fn remove_if_abandoned(entry: &fs::DirEntry) {
    let name = entry.file_name();
    let is_ours = [PENDING_PREFIX, REMOVED_PREFIX]
        .iter()
        .any(|prefix| name.to_string_lossy().starts_with(prefix));
    let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
    let age = changed.and_then(|changed| changed.elapsed().ok()).unwrap_or_default();
    if is_ours && age.as_secs() > ORPHAN_SECONDS {
        // Another one may be removing it at the same time.
        let _ = disk::remove_tree(&entry.path());
    }
}

/// Figures from a place on. Half a line, which is being written, is left for the next call.
pub(super) fn metrics(directory: &JobDirectory, from: u64, lines_max: usize) -> Result<Metrics> {
    let piece = segments::read(&directory.metrics(), from, METRICS_BYTES_MAX)?;
    let mut next = from + piece.skipped_bytes;
    let mut lines = Vec::new();
    for line in piece.bytes.split_inclusive(|byte| *byte == b'\n').take(lines_max) {
        if !line.ends_with(b"\n") {
            break;
        }
        next += line.len() as u64;
        lines.extend(serde_json::from_slice::<MetricsLine>(line).ok());
    }
    Ok(Metrics { lines, next: Cursor(next.to_string()) })
}

/// Removes a job's directory, which disappears at once.
pub(super) fn remove(directory: &JobDirectory) -> Result<()> {
    let path = directory.path();
    let refused =
        |source| Error::io("cannot remove the job", source).with("directory", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = path.with_file_name(format!("{REMOVED_PREFIX}{name}"));
    crate::mpi::forget_ranks(path);
    // What an interrupted removal left would be in the way.
    let _ = disk::remove_tree(&hidden);
    match fs::rename(path, &hidden) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(refused)?,
    }
    disk::remove_tree(&hidden).map_err(refused)
}
