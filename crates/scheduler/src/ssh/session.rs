//! One connection to a host, by `ssh` or in another way, and the `paddle node` at its other end, which
//! answers requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use contract::{Error, Kind, Result};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader, BufWriter, DuplexStream,
};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command::{self, Connection, Reach};
use super::host::Host;
use super::message::{self, Prepare, Reply, Request};
use super::package::{Entry, Manifest};
use super::patience::{Patient, SILENCE_MAX};
use super::{Source, Wanted, earlier, transfer};

/// A host that answers.
pub(crate) struct Session {
    /// As people know it.
    name: String,
    input: BufWriter<Box<dyn AsyncWrite + Send + Sync + Unpin>>,
    output: BufReader<Box<dyn AsyncRead + Send + Sync + Unpin>>,
    /// What leads to the host, if that is a process of ours.
    process: Option<Process>,
}

/// A process that leads to a host.
struct Process {
    child: Child,
    /// What `ssh` and the far side print on standard error, which is little.
    complaints: JoinHandle<String>,
}

/// What shells print before they run a command, such as greetings, is skipped up to here.
const NOISE_LINES_MAX: usize = 200;
const NOISE_BYTES_MAX: u64 = 64 << 10;
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;
/// How long the end of `ssh` is waited for once its input is closed.
const END: Duration = Duration::from_secs(10);
/// How long a host that was reached already may take to run `paddle`.
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
        let session = Session {
            name: host.to_string(),
            input: BufWriter::new(Box::new(Patient::new(input))),
            output: BufReader::new(Box::new(Patient::new(output))),
            process: Some(Process { child, complaints }),
        };
        // Somebody who is asked for a password may take their time.
        let limit = match connection {
            Connection::Asking => SILENCE_MAX,
            Connection::First | Connection::Shared => reach.answer_within(),
        };
        session.greet(release, limit).await
    }

    /// Takes a host that is reached in another way than by a process of ours, and checks that the
    /// same release is there.
    pub(crate) async fn attach(
        name: &str,
        input: DuplexStream,
        output: DuplexStream,
        release: &str,
    ) -> Result<Session> {
        let session = Session {
            name: name.to_owned(),
            input: BufWriter::new(Box::new(Patient::new(input))),
            output: BufReader::new(Box::new(Patient::new(output))),
            process: None,
        };
        session.greet(release, GREETING).await
    }

    async fn greet(mut self, release: &str, limit: Duration) -> Result<Session> {
        let greeting = timeout(limit, self.greeting()).await.unwrap_or_else(|_| {
            let message = "this host does not run paddle: its shell or its disk hangs";
            Err(Error::new(Kind::Unavailable, message)
                .with("host", &self.name)
                .with("seconds", limit.as_secs()))
        });
        match greeting? {
            Reply::Opened { version: message::VERSION, release: theirs } if theirs == release => {
                Ok(self)
            }
            Reply::Opened { release: theirs, .. } => {
                let message = "another release of paddle is on this host: install the same";
                Err(Error::new(Kind::Unsupported, message)
                    .with("host", &self.name)
                    .with("release", theirs)
                    .with("expected", release))
            }
            _ => Err(self.senseless()),
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
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Reply> {
        match message::write(&mut self.input, request).await {
            Ok(()) => self.answer().await,
            Err(error) if error.kind() == Kind::Timeout => Err(self.broken(error)),
            Err(_) => Err(self.lost().await),
        }
    }

    pub(crate) async fn answer(&mut self) -> Result<Reply> {
        match message::read(&mut self.output).await {
            Ok(Some(Reply::Failed { message, is_invalid })) => {
                let kind = if is_invalid { Kind::Invalid } else { Kind::Unavailable };
                Err(Error::new(kind, message).with("host", &self.name))
            }
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.lost().await),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Sends files, as an answer asked for.
    pub(crate) async fn send(
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
    pub(crate) async fn receive(&mut self, root: &Path, manifest: &Manifest) -> Result<()> {
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
        .with("host", &self.name)
    }

    /// Makes the job's directory ready, and sends the files of the package that the host does not
    /// have. The directory comes back.
    pub(crate) async fn prepare(
        &mut self,
        request: Prepare,
        source: Option<&Source<'_>>,
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<String> {
        let mut reply = self.ask(&Request::Prepare(request)).await?;
        if let (Reply::Needed { paths }, Some(source)) = (&reply, source) {
            // A host may ask for what is in the package only, and for each file once.
            let mut asked = BTreeSet::new();
            let is_file = |path| matches!(source.manifest.0.get(path), Some(Entry::File { .. }));
            if !paths.iter().all(|path| is_file(path) && asked.insert(path)) {
                return Err(self.senseless());
            }
            // What the host has already is as good as sent.
            let all = source.manifest.files_missing_in(&Manifest::default());
            sent(source.manifest.bytes_of(&all) - source.manifest.bytes_of(paths));
            self.send(source.root, source.manifest, paths, sent).await?;
            reply = self.answer().await?;
        }
        match reply {
            Reply::Prepared { directory } => Ok(directory),
            _ => Err(self.senseless()),
        }
    }

    /// Brings a directory of the job here; in words what could not be copied.
    pub(crate) async fn gather(&mut self, wanted: &Wanted) -> Result<Vec<String>> {
        match self.ask(&Request::Gather { name: wanted.name.to_owned() }).await? {
            Reply::Gathered { manifest, passed_over } => {
                if let Some(manifest) = manifest {
                    manifest.check()?;
                    if wanted.replaces {
                        earlier::forget(&wanted.to)?;
                    }
                    transfer::shape(&wanted.to, &manifest)?;
                    self.receive(&wanted.to, &manifest).await?;
                }
                let host = &self.name;
                Ok(passed_over.into_iter().map(|what| format!("{host}: {what}")).collect())
            }
            _ => Err(self.senseless()),
        }
    }

    /// An answer that makes no sense.
    pub(crate) fn senseless(&self) -> Error {
        let message = "this host does not answer as paddle does: is another program in its place?";
        Error::new(Kind::Damaged, message).with("host", &self.name)
    }

    /// Why the connection is gone.
    async fn lost(&mut self) -> Error {
        let Some(Process { child, complaints }) = &mut self.process else {
            return Error::new(Kind::Unavailable, "the connection to this host ended")
                .with("host", &self.name);
        };
        let status = timeout(END, child.wait()).await;
        let words = timeout(END, complaints).await;
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
        let error = Error::new(kind, message).with("host", &self.name);
        if words.is_empty() { error } else { error.with("said", words) }
    }

    /// Closes the connection and waits for its end.
    pub(crate) async fn close(mut self) {
        drop(self.input);
        if let Some(Process { child, .. }) = &mut self.process
            && timeout(END, child.wait()).await.is_err()
        {
            // Dropping the child kills it; nothing else depends on it any more.
            let _ = child.start_kill();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tokio::io::duplex;

    #[tokio::test]
    async fn a_host_may_ask_for_files_of_the_package_only_and_once() {
        let file = Entry::File { bytes: 5, sha256: String::new(), is_executable: false };
        let entries = [("data".to_owned(), Entry::Directory), ("data/a".to_owned(), file)];
        let manifest = Manifest(BTreeMap::from(entries));
        for asked in [vec!["data/a", "data/a"], vec!["data"], vec!["/etc/passwd"], vec!["../a"]] {
            let (input, _far_input) = duplex(1 << 16);
            let (mut far, output) = duplex(1 << 16);
            let opened = Reply::Opened { version: message::VERSION, release: "1".to_owned() };
            message::write(&mut far, &opened).await.unwrap();
            let paths = asked.iter().map(|path| (*path).to_owned()).collect();
            message::write(&mut far, &Reply::Needed { paths }).await.unwrap();
            let mut session = Session::attach("host", input, output, "1").await.unwrap();
            let request = Prepare {
                directory: "/x".to_owned(),
                node: 0,
                nodes: 1,
                trainers: 1,
                is_again: false,
                log_dir: "log".to_owned(),
                shard_train_list: false,
                topology: String::new(),
                package: None,
            };
            let root = Path::new("/nowhere");
            let source = Source { root, manifest: &manifest, by_rsync: Vec::new() };
            let prepared = session.prepare(request, Some(&source), &|_| ()).await;
            assert_eq!(prepared.unwrap_err().kind(), Kind::Damaged, "{asked:?}");
        }
    }
}
