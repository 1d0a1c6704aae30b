//! The processes of this machine, by their arguments and environments. Those of a process that
//! hangs in the kernel cannot be read; it keeps no test waiting.

use scheduler::supervisor::processes::read_each;
use std::path::PathBuf;

/// The ids of other processes with `marker` in their environment or arguments. Those that have
/// ended, and whose parents have not noticed, do not count.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let all = all();
    let files = all.iter().flat_map(|pid| [file(*pid, "cmdline"), file(*pid, "environ")]);
    let contents = read_each(&files.collect::<Vec<_>>());
    let own = std::process::id();
    let is_marked = |content: &Option<Vec<u8>>| {
        content.as_deref().is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(marker))
    };
    let marked = all.into_iter().zip(contents.chunks(2));
    let marked = marked.filter(|(_, contents)| contents.iter().any(is_marked));
    marked.map(|(pid, _)| pid).filter(|pid| *pid != own && !is_zombie(*pid)).collect()
}

/// The ids of all processes.
pub(crate) fn all() -> Vec<u32> {
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(number).collect()
}

/// Program and arguments, each with a NUL behind it; nothing if they cannot be read.
pub(crate) fn arguments(pid: u32) -> String {
    let content = read_each(&[file(pid, "cmdline")]).remove(0);
    String::from_utf8_lossy(&content.unwrap_or_default()).into_owned()
}

fn file(pid: u32, name: &str) -> PathBuf {
    format!("/proc/{pid}/{name}").into()
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(file(pid, "stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}
