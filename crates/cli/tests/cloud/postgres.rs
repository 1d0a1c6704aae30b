//! A Postgres of the test's own.

use super::component::missing;
use super::server::wait_for;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server on a free port of the loopback interface, with its data in a temporary folder.
pub(crate) struct Postgres {
    folder: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl Postgres {
    /// Starts one; `None`, with a word about it, where it is not installed.
    pub(crate) fn start() -> Option<Postgres> {
        let programs = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = programs.map(|entry| entry.path().join("bin"));
        let programs = programs.filter(|path| path.join("initdb").is_file()).max();
        let Some(programs) = programs else { return missing("postgres", "it is not installed") };
        let folder = tempfile::tempdir().unwrap();
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let postgres = Postgres { folder, programs, port };
        postgres.own_folder();
        let data = postgres.data();
        let data = data.to_str().unwrap();
        postgres.run("initdb", &["-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"]);
        let options = format!(
            "-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories='' -c fsync=off"
        );
        let log = postgres.folder.path().join("log");
        let log = log.to_str().unwrap();
        postgres.run("pg_ctl", &["-s", "-w", "-D", data, "-l", log, "-o", &options, "start"]);
        wait_for("Postgres", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(postgres)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// It refuses to run as root, so the folder is its user's.
    fn own_folder(&self) {
        if rustix::process::geteuid().is_root() {
            let status = Command::new("chown").arg("postgres").arg(self.folder.path()).status();
            assert!(status.unwrap().success());
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let path = self.programs.join(program);
        let mut command = as_its_user(&path);
        let output = command
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {error}");
    }
}

fn as_its_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.data();
        let mut command = as_its_user(&self.programs.join("pg_ctl"));
        let command = command.args(["-s", "-m", "immediate", "-D"]).arg(data).arg("stop");
        let _ = command.current_dir("/").stdout(Stdio::null()).status();
    }
}
