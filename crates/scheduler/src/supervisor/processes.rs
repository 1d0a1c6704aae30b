//! What the kernel tells of the processes of this machine, in `/proc`.
//!
//! A process's arguments and environment lie in its own memory. The kernel takes a lock of that
//! memory to read them, and a process that hangs in the kernel (out of memory, or waiting for a file
//! that does not come) may never give it up. So they are read with a time limit; whether a process
//! is there, and who its parent is, needs no such lock.

use rustix::process::Pid;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// How long the memory of one process may keep us waiting.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads files of `/proc` that may block for ever. Those that cannot be read, or not in time, are
/// `None`.
pub fn read_each(paths: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    let mut contents: Vec<Option<Vec<u8>>> = Vec::with_capacity(paths.len());
    while contents.len() < paths.len() {
        let rest = paths[contents.len()..].to_vec();
        let (sender, read) = mpsc::channel();
        // One that is stuck is left to the kernel, and another one reads what comes after.
        std::thread::spawn(move || {
            rest.into_iter().try_for_each(|path| sender.send(std::fs::read(path).ok()))
        });
        while contents.len() < paths.len() {
            match read.recv_timeout(PATIENCE) {
                Ok(content) => contents.push(content),
                Err(_) => {
                    contents.push(None);
                    break;
                }
            }
        }
    }
    contents
}

/// Every process that can be seen, with its parent.
pub(super) fn all() -> Vec<(Pid, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((Pid::from_raw(pid)?, parent(&stat)?))
    };
    entries.flatten().filter_map(process).collect()
}

/// The parent of a process that is stopped (SIGSTOP); `None` if it is not.
pub(super) fn parent_of_stopped(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let is_stopped = stat.rsplit_once(')').is_some_and(|(_, facts)| facts.starts_with(" T "));
    parent(&stat).filter(|_| is_stopped).and_then(Pid::from_raw)
}

/// The memory that a process uses, as far as it is in the machine's own.
pub(super) fn resident_bytes(pid: Pid) -> Option<u64> {
    let path = format!("/proc/{}/statm", pid.as_raw_nonzero());
    let pages = std::fs::read_to_string(path).ok()?;
    let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// The parent in a line of `/proc/<pid>/stat`, where the program's name may hold anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, facts) = stat.rsplit_once(')')?;
    facts.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn the_parent_is_found_whatever_the_program_is_called() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) S 1 (b) R 9 12"), Some(9));
        assert_eq!(parent("12 (sh"), None);
    }

    #[test]
    fn this_process_is_among_those_seen() {
        let parent = std::os::unix::process::parent_id();
        assert!(all().contains(&(rustix::process::getpid(), parent.try_into().unwrap())));
    }

    #[test]
    fn what_blocks_for_ever_keeps_nobody_from_reading_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let [first, blocked, missing, last] =
            ["first", "blocked", "missing", "last"].map(|name| folder.path().join(name));
        std::fs::write(&first, "1").unwrap();
        std::fs::write(&last, "2").unwrap();
        // A pipe that nobody opens to write.
        mknodat(CWD, &blocked, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let read = read_each(&[first, blocked.clone(), missing, blocked, last]);
        assert_eq!(read, [Some(b"1".to_vec()), None, None, None, Some(b"2".to_vec())]);
    }
}
