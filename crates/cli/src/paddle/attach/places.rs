//! Where a job has left its logs, models and checkpoints.

use cli::summary::Places;
use scheduler::submission::{Package, Place};
use scheduler::{JobRecord, Submission};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// File systems keep times coarsely.
const TIME_STEP: Duration = Duration::from_secs(2);

/// The places of a job that has ended. A model or a checkpoint is named only if this job wrote it.
pub(crate) fn of(submission: &Submission, record: &JobRecord) -> Places {
    let spec = &submission.spec;
    let here = match (&submission.place, &submission.package) {
        (Place::Ssh(ssh), _) => ssh.results.clone(),
        (Place::Slurm(slurm), Package::Dispatch(_)) => slurm.results.clone(),
        (_, Package::Present(path)) => PathBuf::from(path),
        (_, Package::Dispatch(_)) => PathBuf::new(),
    };
    if let Place::Kubernetes(_) = submission.place {
        // What pods wrote is on their volumes, not here.
        return Places { logs: None, model: None, checkpoints: None };
    }
    let is_elsewhere = match (&submission.place, &submission.package) {
        (Place::Ssh(_), _) | (Place::Slurm(_), Package::Dispatch(_)) => true,
        (_, Package::Present(_) | Package::Dispatch(_)) => false,
    };
    let written = |dir: &str| {
        let path = here.join(dir);
        let has_begun = record.replicas.iter().any(|replica| replica.started_ms.is_some());
        (has_begun && is_newer(&path, record.began_ms)).then(|| path.display().to_string())
    };
    let checkpoints = match spec.checkpoint.dir.as_str() {
        "" => None,
        dir if is_elsewhere => Some(format!("{dir} on the machines")),
        dir => written(dir),
    };
    Places { logs: written(&spec.log_dir), model: written(&spec.output_dir), checkpoints }
}

/// Whether something in a directory was written since a time.
fn is_newer(directory: &Path, since_ms: u64) -> bool {
    let since = UNIX_EPOCH + Duration::from_millis(since_ms) - TIME_STEP;
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let mut times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    times.any(|time| time >= since)
}
