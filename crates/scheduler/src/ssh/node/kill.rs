//! Ending what a launcher left behind: the supervisors of jobs in given directories, and nothing
//! else of this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::{Error, Kind, Result};

use super::super::package::expand;
use crate::supervisor::{guard, leftover, lock};

/// A supervisor gives its replicas no time, so it needs little itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// How the directories of jobs begin.
pub(crate) const JOB_PREFIX: &str = "JOB";

/// Ends the job of `directory`, or those of all job directories in `root_dir`; the directories
/// where one ran come back.
pub(super) async fn kill(
    root_dir: &str,
    directory: Option<&str>,
    home: &Path,
) -> Result<Vec<String>> {
    let candidates = match directory {
        Some(directory) => vec![existing(&expand(directory, home))?],
        None => jobs(&expand(root_dir, home))?,
    };
    let mut killed = Vec::new();
    for candidate in candidates {
        let ran = lock::end_holder(&candidate.join(guard::LOCK), PATIENCE).await?;
        if leftover::end_marked(&candidate).await || ran {
            killed.push(candidate.to_string_lossy().into_owned());
        }
    }
    Ok(killed)
}

fn existing(directory: &Path) -> Result<PathBuf> {
    if directory.is_dir() {
        return Ok(directory.to_owned());
    }
    let error = Error::new(Kind::NotFound, "there is no such job directory on this host");
    Err(error.with("job", directory.display()))
}

fn jobs(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        // No job was ever sent here.
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(Error::io("cannot read ROOT_DIR", source).with("path", root.display()));
        }
    };
    let is_job = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(JOB_PREFIX) && path.is_dir()
    };
    let mut jobs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_job).collect();
    jobs.sort_unstable();
    Ok(jobs)
}
