//! What a replica may use: memory and processor time, with all its processes.
//!
//! Where the system lets us, a control group of the kernel enforces both. Elsewhere memory is
//! measured, a few times a second, and a replica that uses too much is killed; processor time is
//! then not limited, which the job's record notes. The size of the address space (`RLIMIT_AS`) is
//! never limited: programs map far more than they use.

use super::leftover;
use super::message::Start;
use rustix::process::Pid;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The limits of one running replica.
pub(super) struct Limits {
    memory: Option<Memory>,
    /// The control groups that were made for it.
    groups: Vec<PathBuf>,
    /// How many of them, from the first on, have what started it, and so itself.
    joined: usize,
}

struct Memory {
    bytes_max: u64,
    /// The group that enforces the limit; `None` to measure.
    group: Option<PathBuf>,
}

/// Where control groups are, in the layout of version 1 of the kernel's interface: one tree per
/// resource. In version 2 there is one tree, at the root.
const ROOT: &str = "/sys/fs/cgroup";
/// How the groups of replicas are called.
const PREFIX: &str = "paddle-";
/// A group that is older than this and empty was left by a supervisor that was killed.
const STALE: Duration = Duration::from_secs(60);
/// The most processes and threads of a replica that is not trusted.
const PROCESSES_MAX: u32 = 8192;
/// The period over which the kernel shares out processor time.
const PERIOD_MICROS: u64 = 100_000;

impl Limits {
    /// Makes groups for what the replica asks for. The sentences say what cannot be enforced.
    pub(super) fn prepare(start: &Start) -> (Limits, Vec<String>) {
        let mut limits = Limits { memory: None, groups: Vec::new(), joined: 0 };
        let mut notes = Vec::new();
        // By chance, as all supervisors have the same process id, each in its own namespace.
        let chance = wire::fresh_incarnation();
        let name = format!("{PREFIX}{chance:016x}-{}-{}", start.replica, start.attempt);
        if start.confinement.root.is_some() {
            let most = start.confinement.processes_max.unwrap_or(PROCESSES_MAX);
            let settings = [("pids.max", most.to_string())];
            limits.groups.extend(group("pids", &name, &settings, &settings));
        }
        if let Some(bytes_max) = start.memory_bytes_max {
            let settings = [("memory.limit_in_bytes", bytes_max.to_string())];
            let unified = [("memory.max", bytes_max.to_string())];
            let group = group("memory", &name, &settings, &unified);
            limits.groups.extend(group.clone());
            limits.memory = Some(Memory { bytes_max, group });
        }
        if let Some(milli) = start.cpu_milli_max {
            let quota = milli.saturating_mul(PERIOD_MICROS) / 1000;
            let settings = [
                ("cpu.cfs_period_us", PERIOD_MICROS.to_string()),
                ("cpu.cfs_quota_us", quota.max(1000).to_string()),
            ];
            let unified = [("cpu.max", format!("{} {PERIOD_MICROS}", quota.max(1000)))];
            match group("cpu", &name, &settings, &unified) {
                Some(group) => limits.groups.push(group),
                None => notes.push(format!(
                    "the limit of {milli}m cores for {} is not enforced: control groups cannot be \
                     made on this machine",
                    start.replica.role
                )),
            }
        }
        (limits, notes)
    }

    /// Puts this thread under the limits, with what it starts, so that no moment is left in which
    /// a replica could escape. Version 2 of the kernel's interface cannot do that.
    pub(super) fn join(&mut self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        let join = |group: &&PathBuf| fs::write(group.join("tasks"), &thread).is_ok();
        self.joined = self.groups.iter().take_while(join).count();
    }

    /// Puts a process under the limits. Whether the kernel took it; if not, memory is measured.
    pub(super) fn apply(&mut self, pid: u32) {
        // The kernel takes milliseconds to move a process, so none is moved twice.
        for group in &self.groups[self.joined..] {
            if fs::write(group.join("cgroup.procs"), pid.to_string()).is_err()
                && let Some(memory) = &mut self.memory
                && memory.group.as_ref() == Some(group)
            {
                memory.group = None;
            }
        }
    }

    /// Whether memory has to be measured.
    pub(super) fn must_measure(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.group.is_none())
    }

    /// Why the replica has to be killed, if its processes use more memory than it may.
    pub(super) fn exceeded(&self, pid: Pid) -> Option<String> {
        let memory = self.memory.as_ref().filter(|memory| memory.group.is_none())?;
        let bytes = leftover::resident_bytes(pid);
        (bytes > memory.bytes_max).then(|| too_much(memory.bytes_max, Some(bytes)))
    }

    /// Why the kernel killed the replica, if it did so for its memory.
    pub(super) fn killed_for(&self) -> Option<String> {
        let memory = self.memory.as_ref()?;
        let group = memory.group.as_ref()?;
        let counts = ["memory.oom_control", "memory.events"];
        let text = counts.iter().find_map(|file| fs::read_to_string(group.join(file)).ok())?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let is_killed = count.and_then(|count| count.trim().parse::<u64>().ok())? > 0;
        is_killed.then(|| too_much(memory.bytes_max, None))
    }
}

/// Groups go when their last process has gone; one that has not is found by the next supervisor.
impl Drop for Limits {
    fn drop(&mut self) {
        for group in &self.groups {
            let _ = fs::remove_dir(group);
        }
    }
}

/// What is told of a replica that was killed because of its limit.
pub(crate) fn too_much(bytes_max: u64, bytes: Option<u64>) -> String {
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let used = bytes.map_or(String::new(), |bytes| format!(" (it used {})", mebibytes(bytes)));
    let limit = mebibytes(bytes_max);
    format!("killed: it used more than the {limit} of memory it may use{used}: ask for more memory")
}

/// Makes a group below this process's own, with these settings; `None` where that is not allowed.
fn group(
    controller: &str,
    name: &str,
    settings: &[(&str, String)],
    unified: &[(&str, String)],
) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (parent, settings) = match Path::new(ROOT).join("cgroup.controllers").exists() {
        true => (own_group(&own, "")?, unified),
        false => (own_group(&own, controller)?, settings),
    };
    remove_stale(&parent);
    let group = parent.join(name);
    match fs::create_dir(&group) {
        // In one tree the limits of a replica share a group.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made.ok()?,
    }
    let is_set = settings.iter().all(|(file, value)| fs::write(group.join(file), value).is_ok());
    if !is_set {
        let _ = fs::remove_dir(&group);
        return None;
    }
    Some(group)
}

/// The directory of this process's group, from the text of `/proc/self/cgroup`: lines of
/// `number:controllers:path`.
fn own_group(text: &str, controller: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|known| known == controller).then_some(path)
    })?;
    Some(Path::new(ROOT).join(controller).join(path.trim_start_matches('/')))
}

fn remove_stale(parent: &Path) {
    let is_stale = |entry: &fs::DirEntry| {
        let made = entry.metadata().and_then(|metadata| metadata.modified());
        let age = made.ok().and_then(|made| SystemTime::now().duration_since(made).ok());
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && age.is_some_and(|age| age > STALE)
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_stale) {
        // One that has processes cannot be removed.
        let _ = fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_both_layouts() {
        let text = "9:name=systemd:/\n4:memory:/box/7\n2:cpu,cpuacct:/\n0::/user.slice\n";
        let find = |controller| own_group(text, controller).unwrap();
        assert_eq!(find("memory"), Path::new("/sys/fs/cgroup/memory/box/7"));
        assert_eq!(find("cpu"), Path::new("/sys/fs/cgroup/cpu/"));
        assert_eq!(find(""), Path::new("/sys/fs/cgroup/user.slice"));
        assert_eq!(own_group(text, "pids"), None);
    }

    #[test]
    fn the_reason_names_the_limit_and_the_fix() {
        insta::assert_snapshot!(too_much(64 << 20, Some(80 << 20)), @"killed: it used more than the 64 MiB of memory it may use (it used 80 MiB): ask for more memory");
    }
}
