//! Finding and killing every descendant of this process, wherever it has gone.
//!
//! This process must be a subreaper: then a descendant that loses its parent becomes our child,
//! and every process of the job is reached from here by its chain of parents, whatever group or
//! session it is in.
//!
//! What a supervisor leaves behind whose two processes were killed at once has no such chain any
//! more. It is found by a variable that it inherited ([`MARK`]), as long as it has not removed it.

use super::processes;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    let all: Vec<Pid> = processes::all().into_iter().map(|(pid, _)| pid).collect();
    let file = |pid: &Pid| PathBuf::from(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let environments = processes::read_each(&all.iter().map(file).collect::<Vec<_>>());
    let mut was_there = false;
    for (pid, environment) in all.into_iter().zip(environments) {
        // Of others' processes, and of those that have just ended, the environment cannot be read.
        let environment = environment.unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == wanted) && pid != own {
            was_there = true;
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    was_there
}

/// The memory that a process and all its descendants use.
pub(super) fn resident_bytes(pid: Pid) -> u64 {
    let all = descendants_of(pid).into_iter().chain([pid]);
    all.filter_map(processes::resident_bytes).sum()
}

fn descendants_of(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
    for (pid, parent) in processes::all() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        let own = children.remove(&parent.as_raw_nonzero().get()).unwrap_or_default();
        parents.extend(&own);
        found.extend(own);
    }
    found
}
