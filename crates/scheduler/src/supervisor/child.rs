//! One replica: how it is started, and the task that keeps what it prints.

use super::lines::Lines;
use super::message::{Event, Start};
use crate::replica::ReplicaId;
use contract::env::{SetBy, VARIABLES};
use contract::ready::Ready;
use contract::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// How often figures are looked at.
const METRICS_EVERY: Duration = Duration::from_secs(1);
/// The newest line of figures is looked for in this much of the file's end.
const METRICS_BYTES_MAX: u64 = 64 << 10;
/// How much is read at once, and the most that a pipe holds after its writer has ended.
const PIECE_BYTES: usize = 64 << 10;
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// A replica that could not be started, in the words of an exit.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) code: i32,
    pub(super) message: String,
}

/// Starts a replica in a process group of its own, with both its outputs in one pipe, so that they
/// stay in order.
pub(super) fn spawn(start: &Start) -> std::result::Result<(Child, Output), NotStarted> {
    let failed = |error: Error| NotStarted { code: 1, message: error.chain() };
    let mut log = open_log(start).map_err(failed)?;
    let outcome = spawn_into(start);
    if let Err(not_started) = &outcome {
        // For those who look for the reason in the log only.
        let _ = writeln!(log, "{}", not_started.message);
    }
    let (child, pipe) = outcome?;
    let metrics = start.metrics.as_ref().map(|path| start.directory.join(path));
    let output = Output {
        replica: start.replica,
        pipe,
        log,
        lines: Lines::default(),
        awaits_ready: start.is_server,
        metrics: metrics.map(Metrics::from_now_on),
    };
    Ok((child, output))
}

fn spawn_into(start: &Start) -> std::result::Result<(Child, pipe::Receiver), NotStarted> {
    let io = |source: std::io::Error| NotStarted {
        code: 1,
        message: format!("cannot make a pipe for the output: {source}"),
    };
    let Some((program, arguments)) = start.argv.split_first() else {
        return Err(NotStarted { code: 2, message: "there is no program to run".to_owned() });
    };
    if !start.directory.is_dir() {
        let message = format!("its workspace is not a directory: {}", start.directory.display());
        return Err(NotStarted { code: 1, message });
    }
    let (reader, writer) = std::io::pipe().map_err(io)?;
    let mut command = Command::new(program);
    // What this process was told about itself, if it runs inside another job, is not the replica's.
    for variable in VARIABLES {
        if matches!(variable.set_by, SetBy::Backend | SetBy::BackendSecret) {
            command.env_remove(variable.name);
        }
    }
    command
        .args(arguments)
        .envs(&start.env)
        .current_dir(&start.directory)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(io)?)
        .stderr(writer)
        .process_group(0);
    let child = command.spawn().map_err(|source| not_started(program, &source))?;
    let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(io)?;
    Ok((child, pipe))
}

/// The codes are those of a shell.
fn not_started(program: &str, source: &std::io::Error) -> NotStarted {
    let (code, hint) = match source.kind() {
        ErrorKind::NotFound if program.contains('/') => {
            (127, "there is no such file, or its interpreter is missing")
        }
        ErrorKind::NotFound => (127, "there is no such command in PATH"),
        ErrorKind::PermissionDenied => (126, "is its file executable?"),
        _ => (126, "is it a program or a script that begins with #! ?"),
    };
    NotStarted { code, message: format!("cannot run {program}: {source}: {hint}") }
}

fn open_log(start: &Start) -> Result<File> {
    let path = start.directory.join(&start.log);
    let refused =
        |source| Error::io("cannot write the replica's log", source).with("file", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    // A log may be a link to an older one of another user; it is opened, never replaced.
    let is_first = start.attempt == 0;
    let mut options = OpenOptions::new();
    options.create(true).append(!is_first).write(true).truncate(is_first);
    options.open(&path).map_err(refused)
}

/// What a replica prints, on its way to its log and to those who watch.
pub(super) struct Output {
    replica: ReplicaId,
    pipe: pipe::Receiver,
    log: File,
    lines: Lines,
    awaits_ready: bool,
    metrics: Option<Metrics>,
}

impl Output {
    /// Keeps and reports everything up to the end of the process, which `ended` tells, and reports
    /// that end last. Whoever still has the pipe then, has it no longer.
    pub(super) async fn keep(
        mut self,
        mut ended: oneshot::Receiver<i32>,
        events: mpsc::Sender<Event>,
    ) {
        let mut piece = vec![0; PIECE_BYTES];
        let mut tick = tokio::time::interval(METRICS_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut is_open = true;
        let code = loop {
            tokio::select! {
                read = self.pipe.read(&mut piece), if is_open => match read {
                    Ok(0) | Err(_) => is_open = false,
                    Ok(bytes) => self.take(&piece[..bytes], &events).await,
                },
                // The keeper drops the sender only when everything ends.
                code = &mut ended => match code {
                    Ok(code) => break code,
                    Err(_) => return,
                },
                _ = tick.tick(), if self.metrics.is_some() => self.report_metrics(&events).await,
            }
        };
        let mut drained = 0;
        // Asked of the system itself: the runtime may not have noticed yet that there is something.
        while let Ok(bytes @ 1..) = rustix::io::read(&self.pipe, &mut piece[..]) {
            self.take(&piece[..bytes], &events).await;
            drained += bytes;
            // More than a pipe holds is not from the process that ended.
            if drained >= DRAIN_BYTES_MAX {
                break;
            }
        }
        if let Some(text) = self.lines.finish() {
            self.report(text, &events).await;
        }
        self.report_metrics(&events).await;
        let exited = Event::Exited { replica: self.replica, code, message: None };
        let _ = events.send(exited).await;
    }

    async fn take(&mut self, bytes: &[u8], events: &mpsc::Sender<Event>) {
        if let Err(source) = self.log.write_all(bytes) {
            // A full disk must not end a training that could go on; those who watch are told.
            let text = format!("paddle: its log cannot be written: {source}\n");
            let _ = events.send(Event::Log { replica: self.replica, text }).await;
        }
        if let Some(text) = self.lines.push(bytes) {
            self.report(text, events).await;
        }
    }

    /// Nobody listens any more when the launcher is gone; the keeper ends by itself then.
    async fn report(&mut self, text: String, events: &mpsc::Sender<Event>) {
        let ready = self.awaits_ready.then(|| text.lines().find_map(ready_line)).flatten();
        let _ = events.send(Event::Log { replica: self.replica, text }).await;
        if let Some(ready) = ready {
            self.awaits_ready = false;
            let _ = events.send(Event::Ready { replica: self.replica, ready }).await;
        }
    }

    async fn report_metrics(&mut self, events: &mpsc::Sender<Event>) {
        if let Some(metrics) = self.metrics.as_mut().and_then(Metrics::newest) {
            let _ = events.send(Event::Metrics { replica: self.replica, metrics }).await;
        }
    }
}

fn ready_line(line: &str) -> Option<Ready> {
    Ready::parse(line).unwrap_or_else(|error| {
        tracing::warn!(error = error.to_string(), "a damaged readiness line is passed over");
        None
    })
}

/// A file of JSON lines that grows.
struct Metrics {
    path: PathBuf,
    seen_bytes: u64,
}

impl Metrics {
    /// What an earlier run has left in the file is not this one's.
    fn from_now_on(path: PathBuf) -> Self {
        let seen_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        Metrics { path, seen_bytes }
    }

    /// The newest whole line, if there is a newer one than last time.
    fn newest(&mut self) -> Option<serde_json::Value> {
        let mut file = File::open(&self.path).ok()?;
        let bytes = file.metadata().ok()?.len();
        if bytes <= self.seen_bytes {
            return None;
        }
        let from = self.seen_bytes.max(bytes.saturating_sub(METRICS_BYTES_MAX));
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut text = Vec::new();
        file.take(METRICS_BYTES_MAX).read_to_end(&mut text).ok()?;
        let end = text.iter().rposition(|byte| *byte == b'\n')?;
        let line = text[..end].split(|byte| *byte == b'\n').next_back()?;
        let metrics = serde_json::from_slice(line).ok();
        self.seen_bytes = from + end as u64 + 1;
        metrics
    }
}
