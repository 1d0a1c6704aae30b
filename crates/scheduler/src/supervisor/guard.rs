//! The outer process of a supervisor. It does as little as possible, so that it lives: it takes the
//! lock, starts the keeper, waits for its end, and sees to it that nothing is left.

use super::lock::{self, Lock};
use super::{leftover, namespace};
use contract::{Error, Kind, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The lock of a job's directory.
pub const LOCK: &str = "supervisor.lock";
/// How long the supervisor of an earlier conductor may take to end.
/// Several times as long as one takes to show that it is at work, and less than a conductor waits.
const PATIENCE: Duration = Duration::from_secs(12);
/// The argument that tells a keeper that it is the first process of a namespace.
pub const IN_NAMESPACE: &str = "--in_namespace";

/// Whether the last supervisor of a directory was killed, and may have left processes behind.
pub(crate) fn has_died(directory: &Path) -> Result<bool> {
    lock::is_abandoned(&directory.join(LOCK))
}

/// Runs `keeper`, the command of the inner process, to its end; its exit code comes back.
///
/// # Errors
/// The directory's lock is taken, or the keeper cannot be started.
pub fn run(
    directory: &Path,
    wants_namespace: bool,
    is_patient: bool,
    keeper: std::process::Command,
) -> Result<i32> {
    // Without threads: a process that has a namespace for its children cannot start any.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime.block_on(guard(directory, wants_namespace, is_patient, keeper))
}

async fn guard(
    directory: &Path,
    wants_namespace: bool,
    is_patient: bool,
    mut keeper: std::process::Command,
) -> Result<i32> {
    std::fs::create_dir_all(directory).map_err(|source| {
        Error::io("cannot make the job's directory", source).with("directory", directory.display())
    })?;
    let lock = take_lock(&directory.join(LOCK)).await?;
    // Both processes of an earlier supervisor may have been killed at once.
    if lock.was_at_work().map_err(refused)? {
        leftover::end_marked(directory).await;
    }
    lock.note_work(true).map_err(refused)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    set_child_subreaper(Some(getpid())).map_err(|errno| refused(errno.into()))?;
    if wants_namespace && namespace::enter_with_next_child() {
        keeper.arg(IN_NAMESPACE);
    }
    // So that it is found if it hangs.
    keeper.env(leftover::MARK, directory);
    let mut child = tokio::process::Command::from(keeper).spawn().map_err(refused)?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(refused)?,
            _ = terminate.recv() => if is_patient { continue },
            _ = interrupt.recv() => {}
        }
        if let Some(pid) = pid {
            // It may be ending already.
            let _ = kill_process(pid, Signal::TERM);
        }
    };
    leftover::end().await;
    lock.note_work(false).map_err(refused)?;
    Ok(status.code().or(status.signal().map(contract::exit::from_signal)).unwrap_or(1))
}

/// Waits for the end of an earlier supervisor. One that does not show meanwhile that it is at work
/// hangs, and is killed with all its processes.
pub(crate) async fn take_lock(path: &Path) -> Result<Lock> {
    let before = lock::last_beat(path);
    match Lock::acquire_within(path, PATIENCE).await {
        Err(error)
            if error.kind() == Kind::Conflict
                && before.is_some()
                && before == lock::last_beat(path) =>
        {
            let Some(pid) = lock::holder(path)? else { return Err(error) };
            tracing::warn!(pid = pid.as_raw_nonzero(), "the supervisor before hangs; killing it");
            leftover::kill_tree(pid);
            Lock::acquire_within(path, PATIENCE).await
        }
        outcome => outcome,
    }
}

fn refused(source: std::io::Error) -> Error {
    Error::io("cannot start the keeper of a job", source)
}
