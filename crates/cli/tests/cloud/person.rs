//! Somebody at a terminal: the command `paddlecloud` with a home and a current directory.

use super::server::Server;
use super::user::{PASSWORD, User};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A person who has a configuration.
pub(crate) struct Person {
    home: tempfile::TempDir,
    pub(crate) name: String,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Standard output of a command that must have worked.
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }

    /// Standard error of one that must have failed so.
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        &self.err
    }
}

impl Person {
    /// Somebody new.
    pub(crate) fn new(server: &Server, name: &str) -> Person {
        server.user(name);
        Person::known(server, name, PASSWORD)
    }

    /// The first administrator.
    pub(crate) fn admin(server: &Server) -> Person {
        let password = std::fs::read_to_string(server.data().join("admin_password")).unwrap();
        Person::known(server, "admin", password.trim())
    }

    fn known(server: &Server, name: &str, password: &str) -> Person {
        let home = tempfile::tempdir().unwrap();
        let config = format!(
            "datacenters:\n- name: local\n  username: {name}\n  password: {password}\n  endpoint: {}\n\
             current-datacenter: local\n",
            server.url()
        );
        std::fs::create_dir(home.path().join(".paddle")).unwrap();
        std::fs::write(home.path().join(".paddle/config"), config).unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        Person { home, name: name.to_owned() }
    }

    /// The current directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// A path of their home in the cloud.
    pub(crate) fn pfs(&self, below: &str) -> String {
        format!("/pfs/local/home/{}/{below}", self.name)
    }

    /// A file of the current directory.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.work().join(path)).unwrap()
    }

    /// The command, not started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddlecloud"));
        command.args(words).env("HOME", self.home.path()).current_dir(self.work());
        command.env_remove("PADDLECLOUD_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command.
    pub(crate) fn says(&self, words: &[&str]) -> Said {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        Said {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Their home on the server's disk.
    pub(crate) fn on_disk(&self, server: &Server) -> PathBuf {
        server.data().join("files/local/home").join(&self.name)
    }
}

/// Bytes that do not repeat.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// Everything below a directory: names and contents.
pub(crate) fn tree(top: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true => {
                    found.push((format!("{name}/"), Vec::new()));
                    open.push(path);
                }
                false => found.push((name, std::fs::read(&path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// A user of the API with the same name.
pub(crate) fn login(server: &Server, person: &Person) -> User {
    User::login(server, &person.name, PASSWORD)
}
