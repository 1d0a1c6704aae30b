//! The supervisor that a process of `mpirun` or `srun` starts beside itself for the conductor.

use super::Member;
use crate::supervisor::gpu;
use contract::{Error, Kind, Result};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How long the end of a supervisor is waited for.
pub(crate) const END: Duration = Duration::from_secs(30);

/// A supervisor that was started. Closing its input ends it, with everything it runs.
pub(crate) struct Supervisor {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

impl Supervisor {
    /// Starts the supervisor of a member, with these flags beside the usual ones. `jobs` is where it
    /// is noted who has which GPU, `hidden` are variables that programs must not see.
    pub(crate) fn start<N: AsRef<OsStr>>(
        own: &Member,
        jobs: &Path,
        hidden: &[N],
        flags: &[&str],
    ) -> Result<Self> {
        let mut command = Command::new(&own.paddle);
        command.arg("supervise").args(flags).args(["--namespace", "--directory"]);
        command.arg(&own.directory).arg("--gpus").arg(jobs.join(gpu::LOCKS));
        for name in hidden {
            command.env_remove(name);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What is said to everybody in the group, as mpirun does, is said to this process.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| Error::io("cannot start a supervisor", source))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Supervisor { child, input, output }),
            _ => Err(Error::new(Kind::Io, "a supervisor has no pipe")),
        }
    }
}

/// Waits for the end of a supervisor whose input is closed.
pub(crate) async fn end(mut child: Child) -> Result<()> {
    match timeout(END, child.wait()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(Error::io("cannot wait for the supervisor", source)),
        Err(_) => Err(Error::new(Kind::Timeout, "the supervisor of this machine does not end")),
    }
}
