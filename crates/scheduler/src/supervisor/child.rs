//! One replica: how it is started, and the task that keeps what it prints.

use super::figures::Figures;
use super::files;
use super::gpu::{self, Gpus, Pool};
use super::leftover;
use super::limits::Limits;
use super::message::{self, Event, Start};
use super::namespace::{Outside, unshare};
use super::sandbox;
use crate::lines::Lines;
use crate::replica::ReplicaId;
use crate::submission::RunAs;
use contract::env::{SetBy, VARIABLES};
use contract::ready::{Farewell, Ready};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
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
/// How often it is looked whether a replica is stopped.
const STOPPED_EVERY: Duration = Duration::from_secs(1);
/// How much is read at once, and the most that a pipe holds after its writer has ended.
const PIECE_BYTES: usize = 64 << 10;
const DRAIN_BYTES_MAX: usize = 1 << 20;
/// In the supervisor's directory: what the root of a replica is mounted on, and empty without.
const SCRATCH: &str = "scratch";

/// A replica that could not be started, in the words of an exit.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) code: i32,
    pub(super) message: String,
}

impl From<String> for NotStarted {
    fn from(message: String) -> Self {
        NotStarted { code: 1, message }
    }
}

/// A replica that runs.
pub(super) struct Spawned {
    pub(super) child: Child,
    /// Its process, as the host numbers it.
    pub(super) pid: Option<u32>,
    pub(super) output: Output,
    /// Sentences for the job's record.
    pub(super) notes: Vec<String>,
}

/// Starts a replica in a process group of its own, with both its outputs in one pipe, so that they
/// stay in order. `outside` are the processes outside of the namespace of this one, if it has one.
pub(super) fn spawn(
    start: &Start,
    supervisor: &Path,
    pool: &Pool,
    outside: Option<&Outside>,
) -> std::result::Result<Spawned, NotStarted> {
    let hides_others = start.confinement.root.is_some();
    let acquire = |count| Gpus::acquire(pool, count, hides_others);
    let gpus = start.confinement.gpus.map(acquire).transpose()?;
    let (mut limits, mut notes) = Limits::prepare(start);
    let begun = match start.confinement.run_as {
        None => begin(start, supervisor, outside, gpus.as_ref(), None),
        // On a thread of its own: what it gives up it does not get back.
        Some(run_as) => std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                limits.join();
                let root = confine(start, run_as, supervisor, outside, gpus.as_ref())?;
                begin(start, supervisor, outside, gpus.as_ref(), root)
            });
            confined.join().unwrap_or_else(|_| Err("its thread was lost".to_owned().into()))
        }),
    };
    let Begun { child, pid, pipe, log, figures, note } = begun?;
    notes.extend(note);
    let pipe = pipe::Receiver::from_owned_fd(pipe).map_err(|error| no_pipe(&error))?;
    limits.apply(child.id());
    let preamble = start.preamble.iter().flat_map(|line| [line.as_bytes(), b"\n"]);
    let output = Output {
        replica: start.replica,
        pid: child.id().try_into().ok().and_then(Pid::from_raw),
        preamble: preamble.collect::<Vec<_>>().concat(),
        pipe,
        log,
        lines: Lines::default(),
        is_server: start.is_server,
        awaits_ready: start.is_server,
        figures,
        limits,
        _gpus: gpus,
        stopped: Stopped { seconds_max: start.stopped_seconds_max, seconds: 0 },
        reason: None,
    };
    Ok(Spawned { child, pid, output, notes })
}

/// Takes from this thread what the replica must not have. The root of its own comes back, if it
/// has one.
fn confine(
    start: &Start,
    run_as: RunAs,
    supervisor: &Path,
    outside: Option<&Outside>,
    gpus: Option<&Gpus>,
) -> std::result::Result<Option<OwnedFd>, String> {
    let root = match &start.confinement.root {
        None => None,
        Some(_) if outside.is_none() => {
            return Err("its sandbox cannot be made: there is no PID namespace".to_owned());
        }
        Some(root) => {
            let mut root = root.clone();
            root.devices.extend(gpus.into_iter().flat_map(Gpus::devices));
            let directory = supervisor.join(SCRATCH);
            let make = |path: &Path| std::fs::create_dir_all(path);
            make(&directory).map_err(|error| no_directory(&directory, &error))?;
            for kept in root.kept.iter().filter(|kept| kept.starts_with(supervisor)) {
                make(kept)
                    .and_then(|()| chown(kept, Some(run_as.uid), Some(run_as.gid)))
                    .map_err(|error| no_directory(kept, &error))?;
            }
            if start.confinement.is_offline && !unshare(UnshareFlags::NEWNET) {
                return Err("it cannot be kept from the network".to_owned());
            }
            let bytes_max = start.memory_bytes_max.unwrap_or_else(scratch_bytes_max);
            Some(sandbox::enter(&root, run_as, &directory, bytes_max)?)
        }
    };
    sandbox::give_up_privileges()
        .map_err(|errno| format!("it cannot be kept from privileges: {errno}"))?;
    Ok(root)
}

/// How much a replica may write to its own root, where its memory is not limited.
fn scratch_bytes_max() -> u64 {
    let memory = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the type depends on the system")]
    let bytes = u64::from(memory.totalram).saturating_mul(u64::from(memory.mem_unit));
    bytes / 4
}

/// The parts of a replica that runs.
struct Begun {
    child: Child,
    pid: Option<u32>,
    pipe: OwnedFd,
    log: File,
    figures: Option<Figures>,
    /// What is wrong with its files, if it can do without.
    note: Option<String>,
}

/// Opens its files and starts it.
fn begin(
    start: &Start,
    supervisor: &Path,
    outside: Option<&Outside>,
    gpus: Option<&Gpus>,
    root: Option<OwnedFd>,
) -> std::result::Result<Begun, NotStarted> {
    let opened = match start.confinement.run_as {
        None => Ok(open_files(start)),
        Some(run_as) => sandbox::with_rights_of(run_as, || open_files(start)),
    };
    let (mut log, note) = opened.map_err(|errno| format!("its user cannot be used: {errno}"))??;
    let started = spawn_into(start, supervisor, gpus);
    if let Err(not_started) = &started {
        // For those who look for the reason in the log only.
        let _ = writeln!(log, "{}", not_started.message);
    }
    let (child, pipe) = started?;
    let pid = match outside {
        Some(outside) => outside.pid(child.id()),
        None => Some(child.id()),
    };
    let figures = start.metrics.as_ref().filter(|_| note.is_none()).map(|path| {
        let view = files::View { root, has_other_user: start.confinement.run_as.is_some() };
        let path = start.directory.join(path);
        match start.attempt {
            0 => Figures::new(view, path),
            _ => Figures::from_now_on(view, path),
        }
    });
    Ok(Begun { child, pid, pipe, log, figures, note })
}

/// Opens the log, and removes the figures of an earlier job; in words, if they cannot be.
fn open_files(start: &Start) -> std::result::Result<(File, Option<String>), NotStarted> {
    let path = start.directory.join(&start.log);
    let is_first = start.attempt == 0;
    if !start.directory.is_dir() {
        let directory = start.directory.display();
        return Err(format!("its workspace is not a directory: {directory}").into());
    }
    let figures = start.metrics.as_ref().filter(|_| is_first).map(|own| start.directory.join(own));
    let note = figures.and_then(|figures| {
        let source = files::remove(&figures).err()?;
        let (replica, figures) = (start.replica, figures.display());
        Some(format!(
            "no figures of {replica}: what is in their place cannot be removed: {figures}: {source}"
        ))
    });
    let log = files::open_log(&path, is_first).map_err(|source| {
        let path = path.display();
        format!("cannot write its log {path}: {source}: choose another directory with log_dir")
    })?;
    Ok((log, note))
}

fn spawn_into(
    start: &Start,
    supervisor: &Path,
    gpus: Option<&Gpus>,
) -> std::result::Result<(Child, OwnedFd), NotStarted> {
    let Some((program, arguments)) = start.argv.split_first() else {
        return Err(NotStarted { code: 2, message: "there is no program to run".to_owned() });
    };
    let (reader, writer) = std::io::pipe().map_err(|error| no_pipe(&error))?;
    let mut command = Command::new(program);
    // What this process was told about itself, if it runs inside another job, is not the replica's.
    for variable in VARIABLES {
        if matches!(variable.set_by, SetBy::Backend | SetBy::BackendSecret | SetBy::ReceiverSecret)
        {
            command.env_remove(variable.name);
        }
    }
    command
        .args(arguments)
        .envs(&start.env)
        .env(leftover::MARK, supervisor)
        .current_dir(&start.directory)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(|error| no_pipe(&error))?)
        .stderr(writer)
        .process_group(0);
    if let Some(gpus) = gpus {
        command.env(gpu::VISIBLE, gpus.visible());
    }
    if let Some(RunAs { uid, gid }) = start.confinement.run_as {
        // Without the groups of the supervisor, which the standard library takes away with root.
        command.uid(uid).gid(gid);
    }
    let refused = |source| {
        let (code, message) = not_started(program, &source);
        NotStarted { code, message }
    };
    let child = command.spawn().map_err(refused)?;
    Ok((child, OwnedFd::from(reader)))
}

fn no_directory(path: &Path, source: &std::io::Error) -> String {
    format!("cannot make {}: {source}", path.display())
}

fn no_pipe(source: &std::io::Error) -> String {
    format!("cannot make a pipe for the output: {source}")
}

/// The exit code of a program that cannot be started, as a shell's, and why it cannot.
pub fn not_started(program: &str, source: &std::io::Error) -> (i32, String) {
    let (code, hint) = match source.kind() {
        ErrorKind::NotFound if program.contains('/') => {
            (127, "there is no such file, or its interpreter is missing")
        }
        ErrorKind::NotFound => (127, "there is no such command in PATH"),
        ErrorKind::PermissionDenied => (126, "is its file executable?"),
        // These pass.
        ErrorKind::WouldBlock => (1, "this user may not have more processes (ulimit -u)"),
        ErrorKind::OutOfMemory => (1, "the machine has no memory left"),
        _ => (126, "is it a program or a script that begins with #! ?"),
    };
    (code, format!("cannot run {program}: {source}: {hint}"))
}

/// What a replica prints, on its way to its log and to those who watch.
pub(super) struct Output {
    replica: ReplicaId,
    pid: Option<Pid>,
    /// What its log begins with.
    preamble: Vec<u8>,
    pipe: pipe::Receiver,
    log: File,
    lines: Lines,
    is_server: bool,
    awaits_ready: bool,
    figures: Option<Figures>,
    limits: Limits,
    /// Nobody else gets them while it runs.
    _gpus: Option<Gpus>,
    stopped: Stopped,
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
        let mut stopped_tick = every(STOPPED_EVERY);
        let must_measure = self.limits.must_measure();
        let preamble = std::mem::take(&mut self.preamble);
        if !preamble.is_empty() {
            self.take(&preamble, &events).await;
        }
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
                _ = stopped_tick.tick(), if self.stopped.seconds_max.is_some() => {
                    self.check_stopped();
                }
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
        // What it held is free before anybody hears of its end, which may be that of this process.
        drop(self);
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
            self.kill(pid, reason);
        }
    }

    fn check_stopped(&mut self) {
        let Some(pid) = self.pid.filter(|_| self.reason.is_none()) else { return };
        if let Some(reason) = self.stopped.exceeded(pid) {
            self.kill(pid, reason);
        }
    }

    fn kill(&mut self, pid: Pid, reason: String) {
        self.reason = Some(reason);
        // It may have ended a moment ago.
        let _ = kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// How long a process has been stopped, which the others of the job can only wait for.
struct Stopped {
    seconds_max: Option<u64>,
    /// Looks in a row that found it stopped, one a second. Not a time: if this process was stopped
    /// too, that does not count.
    seconds: u64,
}

impl Stopped {
    fn exceeded(&mut self, pid: Pid) -> Option<String> {
        // The stop is seen, not taken note of, so that the next look sees it too.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let is_stopped = matches!(waitid(WaitId::Pid(pid), look), Ok(Some(_)));
        self.seconds = if is_stopped { self.seconds + 1 } else { 0 };
        let seconds_max = self.seconds_max.filter(|seconds_max| self.seconds > *seconds_max)?;
        Some(format!(
            "it was stopped (SIGSTOP) for more than {seconds_max} s, and killed: others wait for it"
        ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};

    #[test]
    fn what_may_pass_is_not_blamed_on_the_program() {
        let check = |kind: ErrorKind| not_started("sh", &kind.into());
        let (code, words) = check(ErrorKind::WouldBlock);
        assert!(code == 1 && words.contains("ulimit -u"), "{code} {words}");
        let (code, words) = check(ErrorKind::PermissionDenied);
        assert!(code == 126 && words.contains("executable"), "{code} {words}");
    }

    #[test]
    fn a_process_that_stays_stopped_is_noticed_and_one_that_goes_on_is_not() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        let mut stopped = Stopped { seconds_max: Some(2), seconds: 0 };
        assert_eq!((0..9).find_map(|_| stopped.exceeded(pid)), None);
        kill_process(pid, Signal::STOP).unwrap();
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), look).unwrap();
        assert_eq!((0..2).find_map(|_| stopped.exceeded(pid)), None);
        let reason = stopped.exceeded(pid).unwrap();
        assert!(reason.contains("stopped (SIGSTOP) for more than 2 s"), "{reason}");
        kill_process(pid, Signal::CONT).unwrap();
        assert_eq!((0..9).find_map(|_| stopped.exceeded(pid)), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
