//! The lock of a job's directory: who runs a job there, and whether that process is alive.
//!
//! The lock is the kernel's, so it goes with its holder however that dies. It is two locks: one of
//! the open file (`flock`), which decides, and one of the process (`fcntl`), of which the kernel
//! tells who has it. So the process to end is never read from a file that a job could have written.

use super::processes;
use contract::{Error, Kind, Result};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::process::{Flock, FlockType, Pid, Signal, fcntl_getlk, kill_process};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(File);

/// How long the end of a lock's holder is waited for between two looks.
const LOOK: Duration = Duration::from_millis(5);

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if somebody has it.
    pub fn acquire(path: &Path) -> Result<Lock> {
        let refused = |source: std::io::Error| {
            Error::io("cannot lock the job's directory", source).with("file", path.display())
        };
        let file = OpenOptions::new()
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
                return Err(Error::new(Kind::Conflict, message).with("file", path.display()));
            }
            Err(errno) => return Err(refused(errno.into())),
        }
        // Whoever had the first has given up the second with it.
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| refused(errno.into()))?;
        Ok(Lock(file))
    }

    /// Notes whether its holder is at work. The note of one that is killed stays.
    pub(super) fn note_work(&self, is_at_work: bool) -> std::io::Result<()> {
        self.0.set_len(u64::from(is_at_work))
    }

    /// Whether its last holder was killed at work.
    pub(super) fn was_at_work(&self) -> std::io::Result<bool> {
        Ok(self.0.metadata()?.len() > 0)
    }

    /// As [`Lock::acquire`], but waits for the end of whoever has it.
    pub async fn acquire_within(path: &Path, patience: Duration) -> Result<Lock> {
        let deadline = Instant::now() + patience;
        loop {
            match Lock::acquire(path) {
                Err(error) if error.kind() == Kind::Conflict && Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Whether somebody has the lock.
pub fn is_held(path: &Path) -> Result<bool> {
    let Some(file) = open(path)? else { return Ok(false) };
    is_taken(&file, path)
}

/// Whether nobody has the lock, and its last holder was killed at work.
pub(crate) fn is_abandoned(path: &Path) -> Result<bool> {
    let is_noted = std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    Ok(is_noted && !is_held(path)?)
}

/// Who has the lock now, if that process can be seen from here.
pub fn holder(path: &Path) -> Result<Option<Pid>> {
    let Some(file) = open(path)? else { return Ok(None) };
    if !is_taken(&file, path)? {
        return Ok(None);
    }
    let wanted = Flock::from(FlockType::WriteLock);
    let found = fcntl_getlk(&file, &wanted).map_err(|errno| unreadable(path, errno.into()))?;
    Ok(found.and_then(|found| found.pid))
}

fn open(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

fn is_taken(file: &File, path: &Path) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(unreadable(path, errno.into())),
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::io("cannot read the lock of the job's directory", source).with("file", path.display())
}

/// Shows that the holder of the lock is at work, by the time of a file beside it. Not of its own: a
/// process that closes any file of the lock loses the lock that tells who it is.
pub fn beat(path: &Path) {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(beats(path));
    // One that has never been able to show it is not taken for hung.
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

/// When the holder of the lock showed last that it is at work; `None` if it never did.
pub fn last_beat(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(beats(path)).and_then(|facts| facts.modified()).ok()
}

fn beats(path: &Path) -> PathBuf {
    path.with_extension("beat")
}

/// Kills the holder of the lock if it is stopped and has shown nothing for `silence_max`. Its parent
/// goes on, if it was stopped too, and sees that.
pub fn kill_stopped_holder(path: &Path, silence_max: Duration) -> Result<()> {
    let silence = last_beat(path).and_then(|beat| beat.elapsed().ok()).unwrap_or_default();
    if silence > silence_max
        && let Some(pid) = holder(path)?
        && let Some(parent) = processes::parent_of_stopped(pid)
    {
        tracing::warn!(pid = pid.as_raw_nonzero(), "a job's conductor is stopped; killing it");
        // Either may have ended a moment ago, or be somebody else's.
        let _ = kill_process(pid, Signal::KILL);
        let _ = kill_process(parent, Signal::CONT);
    }
    Ok(())
}

/// Lets the holder of the lock go on, if it is stopped. Harmless otherwise.
pub fn continue_holder(path: &Path) -> Result<()> {
    if let Some(pid) = holder(path)? {
        // It may have ended a moment ago, or be somebody else's.
        let _ = kill_process(pid, Signal::CONT);
    }
    Ok(())
}

/// Asks the holder of the lock to end, by SIGTERM; one that is stopped goes on to do so. Whether
/// there was one.
pub fn terminate_holder(path: &Path) -> Result<bool> {
    let Some(pid) = holder(path)? else { return Ok(false) };
    let asked = kill_process(pid, Signal::TERM).and_then(|()| kill_process(pid, Signal::CONT));
    match asked {
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
    while is_held(path)? {
        if Instant::now() >= deadline {
            return Err(Error::new(Kind::Timeout, "the job's process does not end")
                .with("file", path.display())
                .with("seconds", patience.as_secs()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(was_held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_lock_is_held_by_one_and_freed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_held(&path).unwrap());
        let lock = Lock::acquire(&path).unwrap();
        assert!(is_held(&path).unwrap());
        assert_eq!(Lock::acquire(&path).unwrap_err().kind(), Kind::Conflict);
        drop(lock);
        assert!(!is_held(&path).unwrap());
        assert!(!terminate_holder(&path).unwrap());
        Lock::acquire(&path).unwrap();
    }

    /// Takes both locks in another process, as the kernel sees it, and says so.
    const HOLDER: &str = "import fcntl, sys\n\
                          file = open(sys.argv[1], 'w')\n\
                          fcntl.flock(file, fcntl.LOCK_EX)\n\
                          fcntl.lockf(file, fcntl.LOCK_EX)\n\
                          print('held', flush=True)\n\
                          sys.stdin.read()";

    #[test]
    fn the_kernel_says_who_has_it_whatever_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut holder_process = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder_process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        let pid = holder(&path).unwrap().unwrap();
        assert_eq!(u32::try_from(pid.as_raw_nonzero().get()).unwrap(), holder_process.id());
        assert!(terminate_holder(&path).unwrap());
        holder_process.wait().unwrap();
        assert_eq!(holder(&path).unwrap(), None);
    }
}
