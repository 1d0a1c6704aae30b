//! A server process of a test, which can be killed and started again on the same data.

use super::user::User;
use contract::state::State;
use scheduler::Backend;
use scheduler::jobs::{Jobs, Paddle};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for anything. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server and its data.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    process: Option<Child>,
    url: String,
    /// Whether another one owns the data.
    is_guest: bool,
}

impl Server {
    /// A server with nothing but defaults.
    pub(crate) fn start() -> Server {
        Server::with_config("")
    }

    /// A server with a configuration.
    pub(crate) fn with_config(yaml: &str) -> Server {
        Server::with(yaml, &[])
    }

    /// A server with a configuration and more arguments.
    pub(crate) fn with(yaml: &str, arguments: &[&str]) -> Server {
        let mut server = Server::prepared(yaml, arguments);
        server.restart();
        server
    }

    /// A server that does not run yet.
    pub(crate) fn prepared(yaml: &str, arguments: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        if !yaml.is_empty() {
            fs::write(folder.path().join("cloud.yaml"), yaml).unwrap();
            let path = folder.path().join("cloud.yaml").to_str().unwrap().to_owned();
            all.extend(["--config".to_owned(), path]);
        }
        let data = folder.path().join("data").to_str().unwrap().to_owned();
        all.extend(["--data_dir".to_owned(), data]);
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Server { folder, arguments: all, process: None, url: String::new(), is_guest: false }
    }

    /// Another server on the same data and database.
    pub(crate) fn beside(other: &Server) -> Server {
        let mut server = Server::guest(other);
        server.restart();
        server
    }

    /// As [`Server::beside`], not started.
    pub(crate) fn guest(other: &Server) -> Server {
        Server {
            folder: tempfile::tempdir().unwrap(),
            arguments: other.arguments.clone(),
            process: None,
            url: String::new(),
            is_guest: true,
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The command, not started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddlecloud"));
        command.arg("serve").args(&self.arguments);
        command
    }

    /// Starts it, again if it was killed.
    pub(crate) fn restart(&mut self) {
        let command = self.command();
        self.run(command);
    }

    /// Starts it by this command, and waits until it can be reached.
    pub(crate) fn run(&mut self, mut command: Command) {
        assert!(self.process.is_none(), "it runs already");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("server.log"))
            .unwrap();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ");
        self.url = url.unwrap_or_else(|| panic!("no address: {line:?}\n{}", self.log())).to_owned();
        self.process = Some(child);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// What the server said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// Stops it where it is, or lets it go on.
    pub(crate) fn suspend(&self, is_suspended: bool) {
        use rustix::process::{Signal, kill_process};
        let signal = if is_suspended { Signal::STOP } else { Signal::CONT };
        let pid = rustix::process::Pid::from_child(self.process.as_ref().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let mut process = self.process.take().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().unwrap().code()
    }

    /// The first administrator.
    pub(crate) fn admin(&self) -> User {
        let password = fs::read_to_string(self.data().join("admin_password")).unwrap();
        User::login(self, "admin", password.trim())
    }

    /// A new user.
    pub(crate) fn user(&self, name: &str) -> User {
        self.admin().add_user(name)
    }

    fn jobs(&self) -> Jobs {
        Jobs {
            root: self.data().join("jobs/local"),
            paddle: Paddle {
                program: Path::new(env!("CARGO_BIN_EXE_paddle")).to_owned(),
                release: env!("CARGO_PKG_VERSION").to_owned(),
            },
        }
    }
}

/// Nothing of a test outlives it.
impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = format!("--- server log\n{}\n---\n", self.log());
            let _ = std::io::stderr().write_all(log.as_bytes());
        }
        self.kill();
        if self.is_guest {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let jobs = self.jobs();
        runtime.block_on(async {
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                let all = jobs.list("cloud", None).await.unwrap_or_default();
                let running: Vec<_> = all.iter().filter(|job| !job.state.is_final()).collect();
                if running.is_empty() {
                    break;
                }
                for job in running {
                    let _ = jobs.kill(&job.id, true).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

/// Looks again and again until there is something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// As [`wait_for`], for something that is so or not.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
