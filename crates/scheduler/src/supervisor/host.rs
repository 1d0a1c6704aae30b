//! The conductor's end of the pipe to a supervisor, on this machine or, through `ssh`, on another.

use super::message::{self, Command, Event, SILENCE_MAX};
use contract::{Error, Kind, Result};
use futures_util::future::join_all;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A supervisor that takes commands.
pub struct Host {
    commands: Commands,
    reader: Reader,
}

/// The way to a supervisor.
pub type Commands = Box<dyn AsyncWrite + Send + Unpin>;
/// The way back.
pub type Events = Box<dyn AsyncRead + Send + Unpin>;

/// The side of a supervisor that speaks.
struct Reader {
    events: BufReader<Events>,
    /// The process, if it was started here.
    process: Option<Process>,
}

/// A process that is or leads to a supervisor.
struct Process {
    child: Child,
    /// What it prints on its standard error, which is little.
    complaints: JoinHandle<String>,
}

/// The most that is kept of a supervisor's standard error.
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;
/// The most lines of others before a supervisor's first.
const NOISE_LINES_MAX: usize = 200;
/// How long the end of a supervisor is waited for, when its pipe has been closed.
const END: Duration = Duration::from_secs(20);
/// Output waits in its pipes while nobody takes it up here.
const REPORTS_MAX: usize = 64;
/// How long a machine may take to try a folder of a network file system.
const PROBE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_secs(1);

impl Host {
    /// Runs `command`, which is or leads to a `paddle supervise`, and waits until it takes commands.
    ///
    /// # Errors
    /// It cannot be run, ends (its last words are in the error) or says nothing for `patience`.
    pub async fn open(
        name: &str,
        command: std::process::Command,
        patience: Duration,
    ) -> Result<Host> {
        let refused = |source| Error::io("cannot start a supervisor", source).with("host", name);
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C on the terminal is for the launcher, which ends the others.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(refused)?;
        let (Some(commands), Some(events), Some(complaints)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::new(Kind::Io, "a supervisor has no pipe").with("host", name));
        };
        let complaints = tokio::spawn(collect(complaints));
        let process = Some(Process { child, complaints });
        Host::greet(name, Box::new(commands), Box::new(events), process, patience).await
    }

    /// Takes a supervisor that is reached in another way than by a process of ours.
    ///
    /// # Errors
    /// As [`Host::open`].
    pub async fn attach(
        name: &str,
        commands: Commands,
        events: Events,
        patience: Duration,
    ) -> Result<Host> {
        Host::greet(name, commands, events, None, patience).await
    }

    async fn greet(
        name: &str,
        commands: Commands,
        events: Events,
        process: Option<Process>,
        patience: Duration,
    ) -> Result<Host> {
        let mut reader = Reader { events: BufReader::new(events), process };
        let first = timeout(patience, reader.greeting()).await.map_err(|_| {
            Error::new(Kind::Timeout, "the supervisor does not answer")
                .with("host", name)
                .with("seconds", patience.as_secs())
        })?;
        match first {
            Ok(Event::Opened { version: message::VERSION }) => Ok(Host { commands, reader }),
            Ok(Event::Opened { version }) => {
                Err(Error::new(Kind::Unsupported, "another release of paddle runs on this host")
                    .with("host", name)
                    .with("version", version)
                    .with("expected", message::VERSION))
            }
            Ok(_) => Err(Error::new(Kind::Damaged, "this is not a supervisor").with("host", name)),
            Err(why) => Err(Error::new(Kind::Unavailable, why).with("host", name)),
        }
    }
}

impl Host {
    /// Asks a supervisor that has not started anything yet to try a folder, and returns what is
    /// wrong with it.
    ///
    /// # Errors
    /// The supervisor ends or does not answer.
    pub(crate) async fn probe(&mut self, probe: &Command) -> Result<Option<String>> {
        let gone = |why: String| Error::new(Kind::Unavailable, why);
        let line = message::encode(probe)?;
        let asked = async {
            self.commands
                .write_all(line.as_bytes())
                .await
                .map_err(|error| gone(error.to_string()))?;
            loop {
                if let Event::Probed { problem } = self.reader.next().await.map_err(gone)? {
                    return Ok(problem);
                }
            }
        };
        timeout(PROBE, asked).await.map_err(|_| {
            Error::new(Kind::Timeout, "a machine takes too long to try the checkpoint folder")
                .with("seconds", PROBE.as_secs())
        })?
    }
}

async fn collect(complaints: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let mut limited = complaints.take(COMPLAINT_BYTES_MAX);
    // Whatever came before an error is better than nothing.
    let _ = limited.read_to_end(&mut bytes).await;
    let mut rest = limited.into_inner();
    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

impl Reader {
    /// The first event. What a login shell prints before it runs a command is skipped.
    async fn greeting(&mut self) -> std::result::Result<Event, String> {
        for _ in 0..NOISE_LINES_MAX {
            let line = self.line().await?;
            if line.starts_with('{') {
                return message::decode(&line).map_err(|error| error.to_string());
            }
        }
        Err("this is not a supervisor".to_owned())
    }

    /// The next event, or the reason why no more come.
    async fn next(&mut self) -> std::result::Result<Event, String> {
        let line = self.line().await?;
        message::decode(&line).map_err(|error| error.to_string())
    }

    async fn line(&mut self) -> std::result::Result<String, String> {
        let mut line = String::new();
        let mut limited = (&mut self.events).take(message::LINE_BYTES_MAX as u64);
        match limited.read_line(&mut line).await {
            Ok(_) if line.ends_with('\n') => Ok(line),
            Ok(_) | Err(_) => Err(self.last_words().await),
        }
    }

    async fn last_words(&mut self) -> String {
        let Some(Process { child, complaints }) = &mut self.process else {
            return "the connection to the supervisor ended".to_owned();
        };
        let status = timeout(END, child.wait()).await;
        let words = timeout(END, complaints).await;
        match (words, status) {
            (Ok(Ok(words)), _) if !words.is_empty() => {
                words.strip_prefix("paddle: ").unwrap_or(&words).to_owned()
            }
            (_, Ok(Ok(status))) => format!("the supervisor ended: {status}"),
            _ => "the supervisor closed its connection".to_owned(),
        }
    }
}

/// What the supervisors of a job say.
#[derive(Debug)]
pub(crate) enum Report {
    /// One of them reports.
    Event(Event),
    /// One of them has gone. That is an end like any other once it was told to.
    Lost { host: usize, why: String },
}

/// All supervisors of a job.
pub(crate) struct Hosts {
    commands: Vec<Option<Commands>>,
    /// Why each of them is gone, once that was reported or found out.
    gone: Vec<Option<String>>,
    reports: mpsc::Receiver<Report>,
    readers: Vec<JoinHandle<()>>,
}

impl Hosts {
    pub(crate) fn new(hosts: Vec<Host>) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        let (mut commands, mut readers) = (Vec::new(), Vec::new());
        for (host, Host { commands: pipe, mut reader }) in hosts.into_iter().enumerate() {
            commands.push(Some(pipe));
            let sender = sender.clone();
            readers.push(tokio::spawn(async move {
                loop {
                    let (report, is_last) = match heard(reader.next()).await {
                        Some(Ok(Event::Alive)) => continue,
                        Some(Ok(event)) => (Report::Event(event), false),
                        Some(Err(why)) => (Report::Lost { host, why }, true),
                        None => (Report::Lost { host, why: silent() }, true),
                    };
                    // Nobody listens any more when the job is over; the pipe is still emptied.
                    let _ = sender.send(report).await;
                    if is_last {
                        return;
                    }
                }
            }));
        }
        let gone = commands.iter().map(|_| None).collect();
        Hosts { commands, gone, reports, readers }
    }

    /// The next report; for ever without one when all have gone, each having said so.
    pub(crate) async fn next(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => self.heard_of(report),
            None => std::future::pending().await,
        }
    }

    /// A report that is there already.
    pub(crate) fn try_next(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        Some(self.heard_of(report))
    }

    fn heard_of(&mut self, report: Report) -> Report {
        if let Report::Lost { host, why } = &report {
            self.gone[*host] = Some(why.clone());
        }
        report
    }

    /// Why a supervisor is gone, if it is. Each is reported as lost once only: whoever is started on
    /// it later is lost from the beginning.
    pub(crate) fn gone(&self, host: usize) -> Option<&str> {
        self.gone[host].as_deref()
    }

    /// Tells a supervisor. That it has gone is not an error: it is, or will be, reported as lost.
    pub(crate) async fn send(&mut self, host: usize, command: &Command) -> Result<()> {
        let line = message::encode(command)?;
        if let Some(pipe) = &mut self.commands[host]
            && !matches!(timeout(SILENCE_MAX, pipe.write_all(line.as_bytes())).await, Ok(Ok(())))
        {
            self.commands[host] = None;
        }
        Ok(())
    }

    /// Tells all supervisors that the job is over.
    pub(crate) async fn dismiss(&mut self) -> Result<()> {
        for host in 0..self.commands.len() {
            self.send(host, &Command::Close).await?;
        }
        Ok(())
    }

    /// Lets all supervisors end, with whatever is left of the job, and waits for that. One that
    /// does not end is killed, as far as it is a process of this machine.
    pub(crate) async fn close(self) {
        drop(self.commands);
        drop(self.reports);
        let aborts: Vec<_> = self.readers.iter().map(JoinHandle::abort_handle).collect();
        let _ = timeout(END, join_all(self.readers)).await;
        aborts.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// What comes within [`SILENCE_MAX`]. Counted in moments, not by one timer: when this process was
/// stopped itself, as by Ctrl-Z, the timer has run out before anything could be heard.
async fn heard<T>(next: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(next);
    for _ in 0..SILENCE_MAX.as_millis() / MOMENT.as_millis() {
        if let Ok(found) = timeout(MOMENT, &mut next).await {
            return Some(found);
        }
    }
    None
}

fn silent() -> String {
    let seconds = SILENCE_MAX.as_secs();
    format!("its supervisor has said nothing for {seconds} s: it hangs, or its machine does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_of_this_process_is_no_silence_of_others() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let hearing = tokio::spawn(heard(receiver));
        tokio::task::yield_now().await;
        // The clock went on while nothing ran here, and what was said arrives only now.
        tokio::time::advance(2 * SILENCE_MAX).await;
        sender.send(()).unwrap();
        assert_eq!(hearing.await.unwrap(), Some(Ok(())));
        assert!(heard(std::future::pending::<()>()).await.is_none());
    }
}
