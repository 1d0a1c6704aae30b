//! One launch under test: a workspace of its own, the command as a backend's harness builds it, how
//! it ended, and whether anything of it is left on this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A backend, as the suite sees it. `count` is the number of trainers, and of pservers.
pub(crate) trait Harness {
    /// A place for one launch. The harness may keep what it needs in it.
    fn prepare(&self, folder: &Path, count: u32);

    /// `paddle launch` with everything up to the `--` before the program, to be run in the folder.
    fn launch(&self, folder: &Path, count: u32) -> Command;

    /// Where trainers run: what a program writes into `.` is found here.
    fn workspace(&self, folder: &Path, rank: u32) -> PathBuf;

    /// The log of a trainer, on this machine, after the end.
    fn trainer_log(&self, folder: &Path, rank: u32) -> PathBuf;

    /// A number of replicas that is large for this backend.
    fn many(&self) -> u32;
}

/// How long anything may take. Only a failure waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// One launch.
pub(crate) struct Job<'a> {
    pub(crate) harness: &'a dyn Harness,
    pub(crate) count: u32,
    folder: tempfile::TempDir,
}

/// How a launch ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl<'a> Job<'a> {
    pub(crate) fn new(harness: &'a dyn Harness, count: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        harness.prepare(folder.path(), count);
        Job { harness, count, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command, with more flags, for a program.
    pub(crate) fn command(&self, flags: &[&str], program: &[&str]) -> Command {
        let mut command = self.harness.launch(self.folder(), self.count);
        command.args(flags).arg("--").args(program).current_dir(self.folder());
        command
    }

    /// Runs a shell script as the program, to the end; nothing may be left afterwards.
    pub(crate) fn run(&self, flags: &[&str], script: &str) -> Ended {
        self.finish(self.start(flags, script))
    }

    /// Starts a launch whose program is a shell script.
    pub(crate) fn start(&self, flags: &[&str], script: &str) -> Child {
        spawn(self.command(flags, &["sh", "-c", script]))
    }

    /// Waits for the end of a launch; nothing may be left afterwards.
    pub(crate) fn finish(&self, launch: Child) -> Ended {
        let output = launch.wait_with_output().unwrap();
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
        self.assert_nothing_is_left();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// A file that a trainer writes in its workspace, once it is there.
    pub(crate) fn await_file(&self, rank: u32, name: &str) -> String {
        let path = self.harness.workspace(self.folder(), rank).join(name);
        wait_until(&format!("{name} of trainer {rank}"), || path.exists());
        std::fs::read_to_string(path).unwrap()
    }

    pub(crate) fn file(&self, rank: u32, name: &str) -> Vec<u8> {
        let path = self.harness.workspace(self.folder(), rank).join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn log(&self, rank: u32) -> Vec<u8> {
        let path = self.harness.trainer_log(self.folder(), rank);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Every process of the job has the folder in its environment or its arguments, whatever
    /// session it is in.
    pub(crate) fn assert_nothing_is_left(&self) {
        let marker = self.folder().to_str().unwrap().to_owned();
        wait_until("no process is left", || processes_with(&marker).is_empty());
    }
}

pub(crate) fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Looks again and again, up to the deadline.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The ids of other processes with `marker` in their environment or arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let has_marker = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(marker);
    let find = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let is_marked = has_marker(read("cmdline")) || has_marker(read("environ"));
        (is_marked && pid != std::process::id()).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(find).collect()
}

/// Sends a signal by its name.
pub(crate) fn signal(pid: u32, name: &str) {
    let status =
        Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "cannot send {name} to {pid}");
}
