//! A cloud under test: a server of its own, and home directories of its users.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take. Only a failure waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// The password of every user but the first administrator.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// A server that can be killed and started again.
pub(crate) struct Cloud {
    data: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
}

/// The home directory of somebody who uses the command.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Cloud {
    pub(crate) fn start() -> Cloud {
        let mut cloud = Cloud { data: tempfile::tempdir().unwrap(), port: 0, child: None };
        cloud.restart();
        cloud
    }

    /// Another cloud at the address of one that is gone.
    pub(crate) fn start_instead_of(mut other: Cloud) -> Cloud {
        other.kill();
        let mut cloud = Cloud { data: tempfile::tempdir().unwrap(), port: other.port, child: None };
        cloud.restart();
        cloud
    }

    /// Starts the server, on the port that it had.
    pub(crate) fn restart(&mut self) {
        let mut options = std::fs::File::options();
        let log = self.data.path().join("server.log");
        let log = options.create(true).append(true).open(log).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_paddlecloud"))
            .args(["serve", "-listen", &format!("127.0.0.1:{}", self.port), "-data_dir"])
            .arg(self.data.path().join("data"))
            .env("HOME", self.data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(':').next().and_then(|port| port.parse().ok());
        self.port = port.unwrap_or_else(|| panic!("the server does not start: {}", self.log()));
        self.child = Some(child);
    }

    /// Kills the server. Jobs go on.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("server.log")).unwrap_or_default()
    }

    /// Where the server keeps a path of its files.
    pub(crate) fn local_path(&self, path: &str) -> PathBuf {
        self.data.path().join("data/files").join(path.strip_prefix("/pfs/").unwrap())
    }

    /// The home of the first administrator.
    pub(crate) fn admin(&self) -> Home {
        let password = std::fs::read_to_string(self.data.path().join("data/admin_password"));
        let home = Home::new();
        home.configure(&[("dc", "admin", Some(password.unwrap().trim()), &self.endpoint())], "dc");
        home
    }

    /// Adds a user, and gives them a home.
    pub(crate) fn user(&self, name: &str) -> Home {
        let added = self.admin().run_with(&["user", "add", name], PASSWORD);
        assert_eq!(added.code, 0, "{added:?}");
        let home = Home::new();
        home.configure(&[("dc", name, Some(PASSWORD), &self.endpoint())], "dc");
        home
    }
}

/// Jobs outlive their server, so they are ended before it.
impl Drop for Cloud {
    fn drop(&mut self) {
        if self.child.is_some() && self.data.path().join("data/admin_password").exists() {
            let admin = self.admin();
            let active = ["get", "jobs", "-active", "-user", "*", "-o", "json"];
            for job in admin.json(&active).as_array().unwrap() {
                let _ = admin.run(&["kill", "-force", "-wait", job["uid"].as_str().unwrap()]);
            }
        }
        self.kill();
    }
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join(".paddle/config")
    }

    /// Writes a configuration of (name, user, password, endpoint).
    pub(crate) fn configure(&self, entries: &[(&str, &str, Option<&str>, &str)], current: &str) {
        let mut text = "datacenters:\n".to_owned();
        for (name, user, password, endpoint) in entries {
            text += &format!("- name: {name}\n  username: {user}\n  endpoint: {endpoint}\n");
            if let Some(password) = password {
                text += &format!("  password: {password}\n");
            }
        }
        self.write(".paddle/config", &format!("{text}current-datacenter: {current}\n"));
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A package whose `run.sh` is this script, and a job that runs it.
    pub(crate) fn submit(&self, job: &str, script: &str, flags: &[&str]) -> Ended {
        self.write("package/run.sh", script);
        let fixed = ["submit", "-jobname", job, "-entry", "sh run.sh", "-allow_idle"];
        self.run(&[&fixed, flags, &["./package"]].concat())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddlecloud"));
        command.args(args).current_dir(self.path()).env("HOME", self.path());
        command.env_remove("PADDLECLOUD_TOKEN");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "")
    }

    /// Runs a command with this on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ended {
        ended(self.command(args), input)
    }

    /// What a command prints as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let ended = self.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// The state of a job, as `describe` has it.
    pub(crate) fn state(&self, job: &str) -> String {
        self.json(&["describe", job, "-o", "json"])["state"].as_str().unwrap().to_owned()
    }
}

/// Runs a command to its end.
pub(crate) fn ended(mut command: Command, input: &str) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read it has closed it already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Ended::of(child.wait_with_output().unwrap())
}

impl Ended {
    pub(crate) fn of(output: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or(-1);
        Ended { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The output, after it is known to be a success.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }
}

/// Looks again and again, up to the deadline.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
