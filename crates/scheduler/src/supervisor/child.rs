//! One replica: how it is started, and the task that keeps what it prints.

use super::figures::Figures;
use super::files;
use super::leftover;
use super::limits::Limits;
use super::message::{self, Event, Start};
use crate::lines::Lines;
use crate::replica::ReplicaId;
use contract::env::{SetBy, VARIABLES};
use contract::ready::{Farewell, Ready};
use rustix::process::{Pid, kill_process_group};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// How often figures are looked at.
const FIGURES_EVERY: Duration = Duration::from_millis(500);
/// How often memory is measured, where the kernel does not limit it.
const MEMORY_EVERY: Duration = Duration::from_millis(200);
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
/// stay in order. The sentences are for the job's record.
pub(super) fn spawn(
    start: &Start,
    supervisor: &Path,
) -> std::result::Result<(Child, Output, Vec<String>), NotStarted> {
    let log = start.directory.join(&start.log);
    let is_first = start.attempt == 0;
    let mut log = files::open_log(&log, is_first).map_err(|source| NotStarted {
        code: 1,
        message: format!("cannot write its log {}: {source}", log.display()),
    })?;
    let figures = start.metrics.as_ref().map(|path| start.directory.join(path));
    if let (true, Some(path)) = (is_first, &figures) {
        // What an earlier job left there is not this one's. A directory is not figures either.
        let _ = files::remove(path);
    }
    let (mut limits, notes) = Limits::prepare(start);
    let outcome = spawn_into(start, supervisor);
    if let Err(not_started) = &outcome {
        // For those who look for the reason in the log only.
        let _ = writeln!(log, "{}", not_started.message);
    }
    let (child, pipe) = outcome?;
    limits.apply(child.id());
    let output = Output {
        replica: start.replica,
        pid: child.id().try_into().ok().and_then(Pid::from_raw),
        pipe,
        log,
        lines: Lines::default(),
        is_server: start.is_server,
        awaits_ready: start.is_server,
        figures: figures.map(if is_first { Figures::new } else { Figures::from_now_on }),
        limits,
        reason: None,
    };
    Ok((child, output, notes))
}

fn spawn_into(
    start: &Start,
    supervisor: &Path,
) -> std::result::Result<(Child, pipe::Receiver), NotStarted> {
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
        .env(leftover::MARK, supervisor)
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

/// What a replica prints, on its way to its log and to those who watch.
pub(super) struct Output {
    replica: ReplicaId,
    pid: Option<Pid>,
    pipe: pipe::Receiver,
    log: File,
    lines: Lines,
    is_server: bool,
    awaits_ready: bool,
    figures: Option<Figures>,
    limits: Limits,
    /// Why it was killed here.
    reason: Option<String>,
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
        let (mut figures_tick, mut memory_tick) = (every(FIGURES_EVERY), every(MEMORY_EVERY));
        let must_measure = self.limits.must_measure();
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
                _ = figures_tick.tick(), if self.figures.is_some() => {
                    self.report_figures(&events).await;
                }
                _ = memory_tick.tick(), if must_measure => self.check_memory(),
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
        let mut words = Vec::new();
        self.lines.finish(|line| words.push(line.to_owned()));
        self.look_for_words(&words, &events).await;
        self.report_figures(&events).await;
        let message = self.reason.take().or_else(|| self.limits.killed_for());
        let exited = Event::Exited { replica: self.replica, code, message };
        let _ = events.send(exited).await;
    }

    /// Nobody listens any more when the conductor is gone; the keeper ends by itself then.
    async fn take(&mut self, bytes: &[u8], events: &mpsc::Sender<Event>) {
        let replica = self.replica;
        if let Err(source) = self.log.write_all(bytes) {
            // A full disk must not end a training that could go on; those who watch are told.
            let text = format!("the log of {replica} cannot be written: {source}");
            let _ = events.send(Event::Note { text }).await;
        }
        let output = message::Output::encode(bytes);
        let _ = events.send(Event::Log { replica, output }).await;
        if self.is_server {
            let mut words = Vec::new();
            self.lines.feed(bytes, |line| words.push(line.to_owned()));
            self.look_for_words(&words, events).await;
        }
    }

    /// Servers say when they serve and, at their end, whom they served. Trainers say nothing to us:
    /// what they print is their own.
    async fn look_for_words(&mut self, lines: &[String], events: &mpsc::Sender<Event>) {
        let replica = self.replica;
        for line in lines {
            if self.awaits_ready
                && let Some(ready) = understood(Ready::parse(line))
            {
                self.awaits_ready = false;
                let _ = events.send(Event::Ready { replica, ready }).await;
            } else if let Some(farewell) = understood(Farewell::parse(line)) {
                let _ = events.send(Event::Farewell { replica, farewell }).await;
            }
        }
    }

    async fn report_figures(&mut self, events: &mpsc::Sender<Event>) {
        let lines = self.figures.as_mut().map(Figures::next).unwrap_or_default();
        if !lines.is_empty() {
            let _ = events.send(Event::Metrics { replica: self.replica, lines }).await;
        }
    }

    fn check_memory(&mut self) {
        let Some(pid) = self.pid.filter(|_| self.reason.is_none()) else { return };
        if let Some(reason) = self.limits.exceeded(pid) {
            self.reason = Some(reason);
            // It may have ended a moment ago.
            let _ = kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    tick
}

fn understood<T>(line: contract::Result<Option<T>>) -> Option<T> {
    line.unwrap_or_else(|error| {
        tracing::warn!(error = error.to_string(), "a damaged line of a server is passed over");
        None
    })
}
