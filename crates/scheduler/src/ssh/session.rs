//! One connection to a host: `ssh`, and the `paddle node` at its other end, which answers requests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use contract::{Error, Kind, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, BufWriter};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command::{self, Connection, Reach};
use super::host::Host;
use super::message::{self, Reply, Request};
use super::package::Manifest;
use super::patience::Patient;
use super::transfer;

/// A host that answers.
pub(super) struct Session {
    pub(super) host: Host,
    /// Where other connections to this host find this one.
    pub(super) control: PathBuf,
    child: Child,
    input: BufWriter<Patient<ChildStdin>>,
    output: BufReader<Patient<ChildStdout>>,
    /// What `ssh` and the far side print on standard error, which is little.
    complaints: JoinHandle<String>,
}

/// What shells print before they run a command, such as greetings, is skipped up to here.
const NOISE_LINES_MAX: usize = 200;
const NOISE_BYTES_MAX: u64 = 64 << 10;
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;
/// How long the end of `ssh` is waited for once its input is closed.
const END: Duration = Duration::from_secs(10);
/// How long a host may take to run `paddle`, once nobody has to be asked for a password.
const GREETING: Duration = Duration::from_secs(60);
/// A shell that keeps Ctrl-C from `ssh`: the launcher ends jobs in an orderly way.
const SHIELD: [&str; 3] = ["sh", "-c", "trap '' INT QUIT; exec ssh \"$@\""];

impl Session {
    /// Connects, and checks that the same release is there.
    pub(super) async fn open(
        reach: &Reach,
        host: &Host,
        control: &Path,
        connection: Connection,
        release: &str,
    ) -> Result<Session> {
        let refused = |source| Error::io("cannot run ssh: is it installed?", source);
        let mut command = Command::new(SHIELD[0]);
        command.args(&SHIELD[1..]).arg("ssh");
        command.args(command::ssh(reach, host, control, connection));
        command.arg(command::remote(&[&reach.paddle, "node"]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(refused)?;
        let (Some(input), Some(output), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::new(Kind::Io, "ssh has no pipe").with("host", host));
        };
        let complaints = tokio::spawn(async move {
            let mut bytes = Vec::new();
            // Whatever came before an error is better than nothing.
            let _ = (&mut stderr).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            String::from_utf8_lossy(&bytes).trim().to_owned()
        });
        let mut session = Session {
            host: host.clone(),
            control: control.to_owned(),
            child,
            input: BufWriter::new(Patient::new(input)),
            output: BufReader::new(Patient::new(output)),
            complaints,
        };
        let greeting = match connection {
            Connection::Asking => session.greeting().await,
            _ => timeout(GREETING, session.greeting()).await.unwrap_or_else(|_| {
                let message = "this host does not run paddle: its shell or its disk hangs";
                Err(Error::new(Kind::Unavailable, message)
                    .with("host", host)
                    .with("seconds", GREETING.as_secs()))
            }),
        };
        match greeting? {
            Reply::Opened { version: message::VERSION, release: theirs } if theirs == release => {
                Ok(session)
            }
            Reply::Opened { release: theirs, .. } => {
                let message = "another release of paddle is on this host: install the same";
                Err(Error::new(Kind::Unsupported, message)
                    .with("host", host)
                    .with("release", theirs)
                    .with("expected", release))
            }
            _ => Err(session.senseless()),
        }
    }

    async fn greeting(&mut self) -> Result<Reply> {
        for _ in 0..NOISE_LINES_MAX {
            let mut line = Vec::new();
            let mut limited = (&mut self.output).take(NOISE_BYTES_MAX);
            let is_read = limited.read_until(b'\n', &mut line).await;
            if is_read.is_err() || line.is_empty() {
                return Err(self.lost().await);
            }
            if line.starts_with(b"{\"paddle_node\"") {
                return serde_json::from_slice(&line).map_err(|_| self.senseless());
            }
        }
        Err(self.senseless())
    }

    /// Asks, and waits for the answer. A refusal is an error that names the host.
    pub(super) async fn ask(&mut self, request: &Request) -> Result<Reply> {
        match message::write(&mut self.input, request).await {
            Ok(()) => self.answer().await,
            Err(error) if error.kind() == Kind::Timeout => Err(self.broken(error)),
            Err(_) => Err(self.lost().await),
        }
    }

    pub(super) async fn answer(&mut self) -> Result<Reply> {
        match message::read(&mut self.output).await {
            Ok(Some(Reply::Failed { message, is_invalid })) => {
                let kind = if is_invalid { Kind::Invalid } else { Kind::Unavailable };
                Err(Error::new(kind, message).with("host", &self.host))
            }
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.lost().await),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Sends files, as an answer asked for.
    pub(super) async fn send(
        &mut self,
        root: &Path,
        manifest: &Manifest,
        paths: &[String],
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let result = transfer::send(root, manifest, paths, &mut self.input, sent).await;
        match result {
            // The far side has left; why is in its own words.
            Err(error) if error.kind() == Kind::Unavailable => Err(self.lost().await),
            result => result.map_err(|error| self.broken(error)),
        }
    }

    /// Takes in the files that an answer announced.
    pub(super) async fn receive(&mut self, root: &Path, manifest: &Manifest) -> Result<()> {
        let paths = manifest.files_missing_in(&Manifest::default());
        let received = transfer::receive(root, manifest, &paths, &mut self.output).await;
        received.map_err(|error| self.broken(error))
    }

    /// A connection on which nothing moves is as good as none: the host is lost.
    fn broken(&self, error: Error) -> Error {
        match error.kind() {
            Kind::Timeout => Error::new(Kind::Unavailable, "this host hangs").because(error),
            _ => error,
        }
        .with("host", &self.host)
    }

    /// An answer that makes no sense.
    pub(super) fn senseless(&self) -> Error {
        let message = "this host does not answer as paddle does: is another program in its place?";
        Error::new(Kind::Damaged, message).with("host", &self.host)
    }

    /// Why the connection is gone.
    async fn lost(&mut self) -> Error {
        let status = timeout(END, self.child.wait()).await;
        let words = timeout(END, &mut self.complaints).await;
        let words = words.ok().and_then(std::result::Result::ok).unwrap_or_default();
        let code = status.ok().and_then(std::result::Result::ok).and_then(|status| status.code());
        let (kind, message) = match code {
            Some(255) | None => (Kind::Unavailable, "cannot reach this host"),
            Some(126 | 127) => (
                Kind::NotFound,
                "paddle is not on this host, or not in the PATH of its non-interactive shell: \
                 install it, or name it with --remote_paddle",
            ),
            Some(_) => (Kind::Unavailable, "paddle failed on this host: is it the same release?"),
        };
        let error = Error::new(kind, message).with("host", &self.host);
        if words.is_empty() { error } else { error.with("said", words) }
    }

    /// Closes the connection and waits for its end.
    pub(super) async fn close(mut self) {
        drop(self.input);
        if timeout(END, self.child.wait()).await.is_err() {
            // Dropping the child kills it; nothing else depends on it any more.
            let _ = self.child.start_kill();
        }
    }
}

/// Whether a first connection failed for want of an answer from a person.
pub(super) fn wants_asking(error: &Error) -> bool {
    let mut said = error.context().filter(|(key, _)| *key == "said");
    said.any(|(_, words)| {
        words.contains("Permission denied") || words.contains("Host key verification failed")
    })
}
