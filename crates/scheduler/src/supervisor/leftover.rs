//! Finding and killing every descendant of this process, wherever it has gone.
//!
//! This process must be a subreaper: then a descendant that loses its parent becomes our child,
//! and every process of the job is reached from here by its chain of parents, whatever group or
//! session it is in.
//!
//! What a supervisor leaves behind whose two processes were killed at once has no such chain any
//! more. It is found by a variable that it inherited ([`MARK`]), as long as it has not removed it.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The variable that names the directory of the supervisor in every process that it starts.
pub(crate) const MARK: &str = "PADDLE_SUPERVISOR_DIR";

/// Between two looks. Processes that were killed need a moment, and may have forked before.
const LOOK: Duration = Duration::from_millis(2);
/// How long the end of what was left behind is waited for: a process may hang in the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills all descendants and returns when there are none.
pub(super) async fn end() {
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if matches!(wait(WaitOptions::NOHANG), Err(rustix::io::Errno::CHILD)) {
            return;
        }
        for pid in descendants_of(rustix::process::getpid()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills what an earlier supervisor of this directory, which has ended, left behind, and waits for
/// its end. Whether there was anything.
pub(crate) async fn end_marked(directory: &Path) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut was_there = false;
    loop {
        if !kill_marked(directory) || Instant::now() >= deadline {
            return was_there;
        }
        was_there = true;
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills a process of ours and all its descendants, without waiting.
pub(crate) fn kill_tree(pid: Pid) {
    // Its descendants are found through it.
    for descendant in descendants_of(pid).into_iter().chain([pid]) {
        // It may have ended by itself.
        let _ = kill_process(descendant, Signal::KILL);
    }
}

/// As [`end_marked`], without waiting.
pub(crate) fn kill_marked(directory: &Path) -> bool {
    let own = rustix::process::getpid();
    let wanted = [MARK.as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    let mut was_there = false;
    for (pid, _) in processes() {
        // Of others' processes, and of those that have just ended, the environment cannot be read.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == wanted);
        if let Some(pid) = Pid::from_raw(pid).filter(|pid| is_marked && *pid != own) {
            was_there = true;
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    was_there
}

/// The memory that a process and all its descendants use, as far as it is in the machine's own.
pub(super) fn resident_bytes(pid: Pid) -> u64 {
    let page = rustix::param::page_size() as u64;
    let resident = |pid: Pid| {
        let path = format!("/proc/{}/statm", pid.as_raw_nonzero());
        let pages = std::fs::read_to_string(path).ok()?;
        pages.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let all = descendants_of(pid).into_iter().chain([pid]);
    all.filter_map(resident).sum::<u64>().saturating_mul(page)
}

fn descendants_of(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut parents = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child);
            found.extend(Pid::from_raw(child));
        }
    }
    found
}

/// Every process that can be seen, with its parent.
fn processes() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parent(&stat)?))
    };
    entries.flatten().filter_map(process).collect()
}

/// The parent in a line of `/proc/<pid>/stat`, where the program's name may hold anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, facts) = stat.rsplit_once(')')?;
    facts.split_whitespace().nth(1)?.parse().ok()
}

/// The parent of a process that is stopped (SIGSTOP); `None` if it is not.
pub(super) fn parent_of_stopped(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let is_stopped = stat.rsplit_once(')').is_some_and(|(_, facts)| facts.starts_with(" T "));
    parent(&stat).filter(|_| is_stopped).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_whatever_the_program_is_called() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) S 1 (b) R 9 12"), Some(9));
        assert_eq!(parent("12 (sh"), None);
    }

    #[test]
    fn this_process_is_among_those_seen() {
        let ours = i32::try_from(std::process::id()).unwrap();
        let parent = std::os::unix::process::parent_id();
        assert!(processes().contains(&(ours, parent.try_into().unwrap())));
    }
}
