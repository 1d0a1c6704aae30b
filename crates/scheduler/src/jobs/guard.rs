//! The parent of a detached job's conductor. It does nothing but wait, and starts another conductor
//! when a signal has ended the last one.

use super::directory::JobDirectory;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How many conductors a guard starts. A conductor that dies again and again dies of the job.
const CONDUCTORS_MAX: u32 = 20;
/// Before another conductor is started.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `conductor` until one of them ends by itself.
///
/// # Errors
/// A conductor cannot be started.
pub fn run(directory: &Path, mut conductor: impl FnMut() -> Command) -> Result<()> {
    let directory = JobDirectory::new(directory.to_owned());
    for _ in 0..CONDUCTORS_MAX {
        let status = conductor()
            .status()
            .map_err(|source| Error::io("cannot start the job's conductor", source))?;
        let is_over = directory.record().is_ok_and(|record| record.state.is_final());
        if status.success() || is_over {
            return Ok(());
        }
        if status.signal().is_none() {
            let error = Error::new(Kind::Unavailable, "the job's conductor failed");
            return Err(error.with("status", status));
        }
        std::thread::sleep(PAUSE);
    }
    Err(Error::new(Kind::Unavailable, "the conductors of this job were all killed")
        .with("conductors", CONDUCTORS_MAX))
}
