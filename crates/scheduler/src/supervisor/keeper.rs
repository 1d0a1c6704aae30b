//! The inner process of a supervisor: does what the messages on its standard input say, until they
//! end.

use super::child::{self, NotStarted, Spawned};
use super::gpu::Pool;
use super::message::{self, Command, Event, Signal, Start};
use super::namespace::Outside;
use super::{guard, leftover, lock};
use crate::replica::ReplicaId;
use contract::{Error, Result};
use rustix::process::{
    Pid, WaitOptions, WaitStatus, getpid, getppid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use std::collections::HashMap;
use std::io::{BufRead, BufWriter, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Output waits in its pipes while the launcher does not take it.
const EVENTS_MAX: usize = 64;
/// One to keep outputs while another waits for a slow disk.
const THREADS: usize = 2;

/// Runs until the input ends, the launcher says so, or SIGTERM comes, unless that is left to the
/// programs (`is_patient`); then kills what is left. In a namespace the rest dies with this process,
/// which must exit at once. `directory` is that of the supervisor, `gpus` are what replicas may have.
///
/// # Errors
/// The system refuses what a keeper needs. Failures of replicas are reported, not returned.
pub fn run(directory: &Path, gpus: Pool, is_in_namespace: bool, is_patient: bool) -> Result<()> {
    keep_files_to_ourselves();
    // Before there are threads, which would stay outside.
    let outside = is_in_namespace.then(Outside::leave).flatten();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(refused)?;
    let guard = is_patient.then(getppid);
    let directory = directory.to_owned();
    runtime.block_on(keep(directory, gpus, is_in_namespace, outside, guard))
}

/// `patient_of` is the guard, if SIGTERM while it lives is not for this process.
async fn keep(
    directory: PathBuf,
    gpus: Pool,
    is_in_namespace: bool,
    outside: Option<Outside>,
    patient_of: Option<Option<Pid>>,
) -> Result<()> {
    let death = match is_in_namespace {
        true => rustix::process::Signal::KILL,
        // There the guard's death has to be survived for a moment, to kill the others.
        false => rustix::process::Signal::TERM,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    set_parent_process_death_signal(Some(death)).map_err(|errno| refused(errno.into()))?;
    set_child_subreaper(Some(getpid())).map_err(|errno| refused(errno.into()))?;
    let mut ends = signal(SignalKind::child()).map_err(refused)?;
    let (events, outgoing) = mpsc::channel(EVENTS_MAX);
    let (incoming, mut commands) = mpsc::channel(1);
    let thread = std::thread::Builder::new;
    thread().spawn(|| write_events(outgoing)).map_err(refused)?;
    thread().spawn(move || read_commands(&incoming)).map_err(refused)?;
    let lock = directory.join(guard::LOCK);
    let mut beat = tokio::time::interval(message::BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut keeper = Keeper { directory, gpus, replicas: HashMap::new(), outside, events };
    let _ = keeper.events.send(Event::Opened { version: message::VERSION }).await;
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Start(start)) => keeper.start(&start).await,
                Some(Command::Signal { replicas, signal }) => keeper.signal(&replicas, signal),
                Some(Command::Probe(probe)) => {
                    let answer = super::probe::answer(&probe).await;
                    let _ = keeper.events.send(answer).await;
                }
                Some(Command::Close) | None => break,
            },
            _ = ends.recv() => keeper.reap(),
            _ = beat.tick() => {
                lock::beat(&lock);
                // A full channel shows as much.
                let _ = keeper.events.try_send(Event::Alive);
            }
            () = keeper.events.closed() => break,
            _ = terminate.recv() => if patient_of.is_none_or(|guard| getppid() != guard) { break },
        }
    }
    if !is_in_namespace {
        leftover::end().await;
    }
    Ok(())
}

/// Whatever files this process was started with are not passed on to replicas, which may be programs
/// of somebody else.
fn keep_files_to_ourselves() {
    let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> =
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        #[expect(unsafe_code, reason = "a file that was inherited has no owner in this program")]
        // SAFETY: this is the only thread, and the number is used for this one call, which fails
        // if the file is closed by now, as that of the listing is.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC);
    }
}

fn refused(source: std::io::Error) -> Error {
    Error::io("cannot keep a job's processes", source)
}

struct Keeper {
    directory: PathBuf,
    gpus: Pool,
    /// Replicas that run, by the process that is theirs.
    replicas: HashMap<Pid, Running>,
    outside: Option<Outside>,
    events: mpsc::Sender<Event>,
}

struct Running {
    replica: ReplicaId,
    ended: oneshot::Sender<i32>,
}

impl Keeper {
    async fn start(&mut self, start: &Start) {
        let replica = start.replica;
        let spawned = child::spawn(start, &self.directory, &self.gpus, self.outside.as_ref());
        let Spawned { child, pid, output, notes } = match spawned {
            Ok(started) => started,
            Err(NotStarted { code, message }) => {
                let exited = Event::Exited { replica, code, message: Some(message) };
                let _ = self.events.send(exited).await;
                return;
            }
        };
        for text in notes {
            let _ = self.events.send(Event::Note { text }).await;
        }
        let (sender, ended) = oneshot::channel();
        let process = child.id().try_into().ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            self.replicas.insert(process, Running { replica, ended: sender });
        }
        let _ = self.events.send(Event::Started { replica, pid }).await;
        tokio::spawn(output.keep(ended, self.events.clone()));
    }

    fn signal(&self, replicas: &[ReplicaId], signal: Signal) {
        let signal = match signal {
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        for (pid, running) in &self.replicas {
            if replicas.contains(&running.replica) {
                // It may have ended a moment ago.
                let _ = kill_process_group(*pid, signal);
            }
        }
    }

    /// Takes note of every process that has ended, replicas and strangers: a subreaper gets both.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let Some(Running { ended, .. }) = self.replicas.remove(&pid) else { continue };
            // Its helpers end with it; those that have left its group end with the job.
            let _ = kill_process_group(pid, rustix::process::Signal::KILL);
            let _ = ended.send(code(status));
        }
    }
}

fn code(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(contract::exit::from_signal);
    status.exit_status().or(signal).unwrap_or(1)
}

/// On a thread of its own: a launcher that does not read must not keep us from hearing it.
fn write_events(mut events: mpsc::Receiver<Event>) {
    let mut output = BufWriter::new(std::io::stdout().lock());
    while let Some(event) = events.blocking_recv() {
        let Ok(line) = message::encode(&event) else { continue };
        let written = output.write_all(line.as_bytes());
        // Flushed when there is a pause, so that large outputs go in large pieces.
        let flushed = if events.is_empty() { output.flush() } else { Ok(()) };
        if written.and(flushed).is_err() {
            // Nobody reads any more: the keeper notices that this channel is closed.
            return;
        }
    }
}

fn read_commands(commands: &mpsc::Sender<Command>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = String::new();
        let mut limited = (&mut input).take(message::LINE_BYTES_MAX as u64);
        match limited.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => {}
            // The end of the input, or half a command of a launcher that died.
            _ => return,
        }
        match message::decode(&line) {
            Ok(command) => {
                if commands.blocking_send(command).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(error = error.to_string(), "ending: the launcher makes no sense");
                return;
            }
        }
    }
}
