//! One launch under test: a folder of its own, in which jobs are kept too, how it ended, and whether
//! anything of it is left on this machine.

use super::processes::processes_with;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take. Only a failure waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A folder to launch in.
pub(crate) struct Job {
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Job {
    pub(crate) fn new() -> Self {
        Job { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command that keeps its jobs in the folder, and runs there. Every process of it has the
    /// folder in its environment.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder());
        command.env("PADDLE_JOBS_DIR", self.folder().join(".jobs"));
        command
    }

    /// `paddle` with these arguments.
    pub(crate) fn paddle(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_paddle"), args)
    }

    /// `paddle launch` of a shell script, with one trainer and without servers unless flags say
    /// otherwise. Such scripts use no server.
    pub(crate) fn launch(&self, flags: &[&str], script: &str) -> Command {
        let mut command = self.paddle(&["launch", "--allow-idle"]);
        command.args(flags).args(["sh", "-c", script]);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: Command) -> Ended {
        ended(spawn(command).wait_with_output().unwrap())
    }

    /// Runs a command to its end; nothing may be left running afterwards.
    pub(crate) fn run_to_the_end(&self, command: Command) -> Ended {
        self.finish(spawn(command))
    }

    /// Waits for the end of a launch; nothing may be left running afterwards.
    pub(crate) fn finish(&self, launch: Child) -> Ended {
        let output = launch.wait_with_output().unwrap();
        self.assert_nothing_is_left();
        ended(output)
    }

    /// A file in the folder, once it is there.
    pub(crate) fn await_file(&self, name: &str) {
        wait_until(name, || self.folder().join(name).exists());
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.folder().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        let marker = self.folder().to_str().unwrap().to_owned();
        wait_until("no process is left", || processes_with(&marker).is_empty());
    }
}

/// Whatever a test left running ends with it.
impl Drop for Job {
    fn drop(&mut self) {
        let listed = self.run(self.paddle(&["jobs", "-o", "json"]));
        let jobs: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        for job in jobs.as_array().into_iter().flatten() {
            let ends = ["succeeded", "failed", "killed"];
            if let Some(id) = job["id"]
                .as_str()
                .filter(|_| !ends.contains(&job["state"].as_str().unwrap_or_default()))
            {
                let _ = self.run(self.paddle(&["kill", "--force", id]));
            }
        }
    }
}

fn ended(output: Output) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code, stdout: text(output.stdout), stderr: text(output.stderr) }
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

/// Sends a signal by its name; to a whole process group with a `-` before its id.
pub(crate) fn signal(pid: impl std::fmt::Display, name: &str) {
    let arguments = [&format!("-{name}"), "--", &pid.to_string()];
    let status = Command::new("kill").args(arguments).status().unwrap();
    assert!(status.success(), "cannot send {name} to {pid}");
}

/// Makes a file that can be executed.
pub(crate) fn write_script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
