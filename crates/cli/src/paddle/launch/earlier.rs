//! Checkpoints of an earlier job where this one will write its own: refused before anything starts.

use contract::{Error, Kind, Result};
use scheduler::Submission;
use scheduler::submission::{Package, Place};
use std::path::Path;

/// Servers that start again restore the newest checkpoint, so it must be of this job. On ssh hosts
/// the directory of a job is new.
pub(super) fn check(submission: &Submission) -> Result<()> {
    let (Place::Local(_) | Place::Mpi(_) | Place::Slurm(_), Package::Present(workspace)) =
        (&submission.place, &submission.package)
    else {
        return Ok(());
    };
    let checkpoint = &submission.spec.checkpoint;
    if checkpoint.dir.is_empty() || checkpoint.restore.is_some() {
        return Ok(());
    }
    let folder = Path::new(workspace).join(&checkpoint.dir);
    // Others may be there: `lost+found`, at the top of a disk.
    let is_ours = |name: &str| name.starts_with("cut-") || name.starts_with("trail-");
    let is_used = folder.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|entry| is_ours(&entry.file_name().to_string_lossy()))
    });
    if !is_used {
        return Ok(());
    }
    let message = "there are checkpoints of an earlier job: continue it with --restore, or choose \
                   an empty directory";
    Err(Error::new(Kind::AlreadyExists, message).with("checkpoint_dir", folder.display()))
}
