//! The parent of a detached job's conductor. It does nothing but wait, and starts another conductor
//! when a signal has ended the last one, or when the last one does not show any more that it is at
//! work: a process that is stopped, or hangs, ends a job as surely as one that is killed.

use super::directory::JobDirectory;
use crate::supervisor::lock;
use crate::supervisor::message::SILENCE_MAX;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, SystemTime};

/// How many conductors a guard starts. A conductor that dies again and again dies of the job.
const CONDUCTORS_MAX: u32 = 20;
/// Between two looks at a conductor.
const LOOK: Duration = Duration::from_millis(100);
/// Before another conductor is started.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `conductor` until one of them ends by itself.
///
/// # Errors
/// A conductor cannot be started.
pub fn run(directory: &Path, mut conductor: impl FnMut() -> Command) -> Result<()> {
    let directory = JobDirectory::new(directory.to_owned());
    for _ in 0..CONDUCTORS_MAX {
        let child = conductor().spawn();
        let child =
            child.map_err(|source| Error::io("cannot start the job's conductor", source))?;
        let status = watch(child, &directory.conductor_lock())?;
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

/// Waits for the end of a conductor, and kills one that hangs.
fn watch(mut conductor: Child, lock: &Path) -> Result<ExitStatus> {
    let mut silence = Silence::default();
    loop {
        let status = conductor.try_wait();
        let status = status.map_err(|source| Error::io("cannot wait for a conductor", source))?;
        if let Some(status) = status {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
        if silence.is_too_long(lock) {
            // It may have ended a moment ago.
            let _ = conductor.kill();
        }
    }
}

/// How long a conductor has not shown that it is at work.
#[derive(Default)]
struct Silence {
    beat: Option<SystemTime>,
    /// Looks in a row, not a time: while this process is stopped too, nothing is proven.
    looks: u32,
}

impl Silence {
    /// To be asked once in [`LOOK`].
    fn is_too_long(&mut self, lock: &Path) -> bool {
        let latest = lock::last_beat(lock);
        self.looks = if latest.is_some() && latest == self.beat { self.looks + 1 } else { 0 };
        self.beat = latest;
        let is_too_long = LOOK * self.looks >= SILENCE_MAX;
        if is_too_long {
            self.looks = 0;
            let seconds = SILENCE_MAX.as_secs();
            tracing::error!(seconds, "the job's conductor hangs, and is killed");
        }
        is_too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_conductor_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let status = watch(child, &folder.path().join("lock")).unwrap();
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn only_a_conductor_that_shows_nothing_for_long_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let mut silence = Silence::default();
        let looks = SILENCE_MAX.as_millis() / LOOK.as_millis();
        let mut look = |times| (0..times).any(|_| silence.is_too_long(&lock));
        assert!(!look(2 * looks), "it has never shown anything");
        lock::beat(&lock);
        assert!(!look(looks));
        lock::beat(&lock);
        assert!(!look(looks), "it has shown something");
        assert!(look(1));
    }
}
