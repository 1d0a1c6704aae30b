//! Machines for tests: ssh servers on this one, each with a port and a home of its own, and keys
//! that are thrown away. They end with the test.

use super::component;
use super::job::wait_until;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// How many there are.
pub(crate) const MACHINES: u32 = 6;

/// Machines, reached by `ssh -F` with [`Machines::ssh_config`].
pub(crate) struct Machines {
    folder: PathBuf,
    ports: Vec<u16>,
    /// Removes the folder when this process, and with it the pipe to that one, is gone: a static is
    /// never dropped.
    _remover: Child,
}

impl Machines {
    /// As `--hosts` takes them.
    pub(crate) fn hosts(&self, count: u32) -> String {
        let hosts: Vec<_> =
            self.ports[..count as usize].iter().map(|port| format!("127.0.0.1:{port}")).collect();
        hosts.join(",")
    }

    pub(crate) fn home(&self, index: u32) -> PathBuf {
        self.folder.join(format!("home-{index}"))
    }

    pub(crate) fn ssh_config(&self) -> PathBuf {
        self.folder.join("ssh_config")
    }
}

/// The machines, started when they are first asked for; none where ssh cannot be tested.
pub(crate) fn machines() -> Option<&'static Machines> {
    static MACHINES_ONCE: OnceLock<Option<Machines>> = OnceLock::new();
    let start = || {
        let sshd = component::find("sshd")?;
        component::find("ssh")?;
        Some(start(&sshd))
    };
    MACHINES_ONCE.get_or_init(start).as_ref()
}

fn start(sshd: &Path) -> Machines {
    let folder = tempfile::Builder::new().prefix("paddle-sshd-").tempdir().unwrap().keep();
    let remover = Command::new("sh")
        .args(["-c", "cat > /dev/null; rm -rf \"$0\""])
        .arg(&folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    for key in ["host_key", "user_key"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
        assert!(command.status().unwrap().success());
    }
    let config = format!(
        "IdentityFile {0}/user_key\nIdentitiesOnly yes\nUserKnownHostsFile {0}/known_hosts\n\
         StrictHostKeyChecking accept-new\n",
        folder.display()
    );
    std::fs::write(folder.join("ssh_config"), config).unwrap();
    // Where a server of root keeps its children apart; its packages make it at boot.
    let _ = std::fs::create_dir_all("/run/sshd");
    let (sender, receiver) = std::sync::mpsc::channel();
    let (sshd, place) = (sshd.to_owned(), folder.clone());
    // A server is told of the end of the thread that started it, so that thread stays.
    std::thread::spawn(move || {
        let (servers, ports): (Vec<Child>, Vec<u16>) =
            (0..MACHINES).map(|index| serve(&sshd, &place, index)).unzip();
        sender.send(ports).unwrap();
        for mut server in servers {
            server.wait().unwrap();
        }
    });
    let ports = receiver.recv().unwrap();
    for port in &ports {
        wait_until("an ssh server answers", || has_banner(*port));
    }
    Machines { folder, ports, _remover: remover }
}

fn serve(sshd: &Path, folder: &Path, index: u32) -> (Child, u16) {
    let home = folder.join(format!("home-{index}"));
    std::fs::create_dir(&home).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // One of them has no rsync, and greets whoever comes.
    let path = if index == 1 { without_rsync(folder, &path) } else { path };
    if index == 1 {
        std::fs::write(home.join(".bashrc"), "echo Welcome to the cluster!\n").unwrap();
    }
    let config = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {0}/host_key\n\
         AuthorizedKeysFile {0}/user_key.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 200\nMaxSessions 100\n\
         Subsystem sftp internal-sftp\n\
         SetEnv HOME={1} PATH={2}:{path}\n",
        folder.display(),
        home.display(),
        bin.display(),
    );
    let file = folder.join(format!("sshd_config_{index}"));
    std::fs::write(&file, config).unwrap();
    let server = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(sshd)
        .args(["-D", "-e", "-f"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (server, port)
}

/// A PATH that leads to everything but rsync.
fn without_rsync(folder: &Path, path: &str) -> String {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for place in std::env::split_paths(path).filter(|place| place.join("rsync").exists()) {
        for entry in std::fs::read_dir(place).unwrap().flatten() {
            if entry.file_name() != "rsync" {
                // The first place that has a command is the one that counts.
                let _ = std::os::unix::fs::symlink(entry.path(), bin.join(entry.file_name()));
            }
        }
    }
    let rest = std::env::split_paths(path).filter(|place| !place.join("rsync").exists());
    let joined = std::env::join_paths(rest.chain([bin])).unwrap();
    joined.into_string().unwrap()
}

fn has_banner(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut banner = [0; 4];
    stream.read_exact(&mut banner).is_ok() && &banner == b"SSH-"
}
