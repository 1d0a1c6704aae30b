//! What earlier jobs have left in a directory for logs. Only files that jobs themselves write there
//! are removed: the directory is the user's, who may keep anything else in it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use contract::{Error, Result};

use super::transfer;
use crate::ReplicaId;

/// What the first replicas of a machine write; others have files and folders of their names.
const KNOWN: [&str; 7] = [
    "train.log",
    "server.log",
    "master.log",
    "metrics.jsonl",
    "paddle_trainer.INFO",
    "paddle_pserver2.INFO",
    "paddle_master.INFO",
];
/// How the records of a training that goes on begin.
const TRAIL: &str = "trail-";

/// Removes the logs of earlier jobs. There may be no such directory.
pub(super) fn forget(folder: &Path) -> Result<()> {
    let refused = |source| {
        Error::io("cannot read the folder for logs", source).with("path", folder.display())
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(refused)?,
    };
    for entry in entries {
        let entry = entry.map_err(refused)?;
        if entry.file_name().to_str().is_some_and(is_of_a_job) {
            transfer::remove(&entry.path())?;
        }
    }
    Ok(())
}

fn is_of_a_job(name: &str) -> bool {
    let replica = name.strip_suffix(".log").unwrap_or(name);
    KNOWN.contains(&name) || name.starts_with(TRAIL) || replica.parse::<ReplicaId>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_jobs_write_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["train.log", "trainer-3.log", "notes.log", "train.list", "trainer-x.log"] {
            fs::write(path(name), "").unwrap();
        }
        for name in ["pserver-1", "trail-0", "data"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("file"), "").unwrap();
        }
        std::os::unix::fs::symlink("train.log", path("paddle_trainer.INFO")).unwrap();
        forget(folder.path()).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["data", "notes.log", "train.list", "trainer-x.log"]);
        assert!(path("data/file").exists());
        forget(&path("nothing")).unwrap();
    }
}
