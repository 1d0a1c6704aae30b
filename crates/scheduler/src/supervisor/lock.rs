//! The lock of a job's directory: who runs a job there, and whether that process is alive.
//!
//! The lock is the kernel's, so it goes with its holder however that dies; the file has the
//! holder's process id, for those who want to end it.

use contract::{Error, Kind, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

/// How long the end of a lock's holder is waited for between two looks.
const LOOK: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock and leaves the id of this process in the file.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if somebody has it.
    pub fn acquire(path: &Path) -> Result<Lock> {
        let refused = |source: std::io::Error| {
            Error::io("cannot lock the job's directory", source).with("file", path.display())
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(refused)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message =
                    "a job is running here: wait for its end, or choose another directory";
                let holder = std::fs::read_to_string(path).unwrap_or_default();
                return Err(Error::new(Kind::Conflict, message)
                    .with("file", path.display())
                    .with("pid", holder.trim()));
            }
            Err(errno) => return Err(refused(errno.into())),
        }
        file.set_len(0).map_err(refused)?;
        writeln!(file, "{}", std::process::id()).map_err(refused)?;
        Ok(Lock(file))
    }
}

/// Who has the lock now.
pub fn holder(path: &Path) -> Result<Option<u32>> {
    let refused = |source: std::io::Error| {
        Error::io("cannot read the lock of the job's directory", source)
            .with("file", path.display())
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(refused(source)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let text = std::fs::read_to_string(path).map_err(refused)?;
            text.trim().parse().map(Some).map_err(|_| {
                Error::new(Kind::Damaged, "the lock does not say who has it")
                    .with("file", path.display())
            })
        }
        Err(errno) => Err(refused(errno.into())),
    }
}

/// Asks the holder of the lock to end, by SIGTERM. Whether there was one.
pub fn terminate_holder(path: &Path) -> Result<bool> {
    let Some(pid) = holder(path)?.and_then(|pid| Pid::from_raw(pid.try_into().ok()?)) else {
        return Ok(false);
    };
    match kill_process(pid, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(true),
        Err(errno) => Err(Error::io("cannot end the job's process", errno.into())
            .with("pid", pid.as_raw_nonzero())),
    }
}

/// As [`terminate_holder`], and waits until the lock is free.
///
/// # Errors
/// [`Kind::Timeout`] if it is not after `patience`.
pub async fn end_holder(path: &Path, patience: Duration) -> Result<bool> {
    let was_held = terminate_holder(path)?;
    let deadline = Instant::now() + patience;
    while let Some(pid) = holder(path)? {
        if Instant::now() >= deadline {
            return Err(Error::new(Kind::Timeout, "the job's process does not end")
                .with("pid", pid)
                .with("seconds", patience.as_secs()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(was_held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_freed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(holder(&path).unwrap(), None);
        let lock = Lock::acquire(&path).unwrap();
        assert_eq!(holder(&path).unwrap(), Some(std::process::id()));
        assert_eq!(Lock::acquire(&path).unwrap_err().kind(), Kind::Conflict);
        drop(lock);
        assert_eq!(holder(&path).unwrap(), None);
        assert!(!terminate_holder(&path).unwrap());
        Lock::acquire(&path).unwrap();
    }
}
