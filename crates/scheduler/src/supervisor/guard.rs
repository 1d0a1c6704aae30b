//! The outer process of a supervisor. It does as little as possible, so that it lives: it takes the
//! lock, starts the keeper, waits for its end, and sees to it that nothing is left.

use super::{leftover, lock::Lock, namespace};
use contract::{Error, Result};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The lock of a job's directory.
pub const LOCK: &str = "supervisor.lock";
/// How long the supervisor of an earlier conductor may take to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The argument that tells a keeper that it is the first process of a namespace.
pub const IN_NAMESPACE: &str = "--in_namespace";

/// Runs `keeper`, the command of the inner process, to its end; its exit code comes back.
///
/// # Errors
/// The directory's lock is taken, or the keeper cannot be started.
pub fn run(directory: &Path, wants_namespace: bool, keeper: std::process::Command) -> Result<i32> {
    // Without threads: a process that has a namespace for its children cannot start any.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime.block_on(guard(directory, wants_namespace, keeper))
}

async fn guard(
    directory: &Path,
    wants_namespace: bool,
    mut keeper: std::process::Command,
) -> Result<i32> {
    std::fs::create_dir_all(directory).map_err(|source| {
        Error::io("cannot make the job's directory", source).with("directory", directory.display())
    })?;
    let _lock = Lock::acquire_within(&directory.join(LOCK), PATIENCE).await?;
    // Both processes of an earlier supervisor may have been killed at once.
    leftover::end_marked(directory).await;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    set_child_subreaper(Some(getpid())).map_err(|errno| refused(errno.into()))?;
    if wants_namespace && namespace::enter_with_next_child() {
        keeper.arg(IN_NAMESPACE);
    }
    let mut child = tokio::process::Command::from(keeper).spawn().map_err(refused)?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(refused)?,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if let Some(pid) = pid {
            // It may be ending already.
            let _ = kill_process(pid, Signal::TERM);
        }
    };
    leftover::end().await;
    Ok(status.code().or(status.signal().map(contract::exit::from_signal)).unwrap_or(1))
}

fn refused(source: std::io::Error) -> Error {
    Error::io("cannot start the keeper of a job", source)
}
