//! Runs the program to its end: signals go to everything that it has started, its output also to
//! a file, and processes that it leaves behind are collected, since this is the first process of
//! the container.

use contract::exit::from_signal;
use contract::ready::Farewell;
use contract::role::Role;
use contract::{Error, Result};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait, waitpgid};
use scheduler::lines::Lines;
use scheduler::supervisor::not_started;
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long the output may stay open once the program has ended: what it left behind holds it.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(2);
/// How long the rest of a program may take to end once it has heard a signal, when the shell before
/// it has ended. A pod has as long by default.
const TOLD_PATIENCE: Duration = Duration::from_secs(30);
const PIECE_BYTES: usize = 64 << 10;

/// How a program ended.
pub(crate) struct Ended {
    /// Its exit code, 128 + signal; 126 and 127 as a shell uses them.
    pub(crate) code: i32,
    /// Why it could not be started.
    pub(crate) message: Option<String>,
    /// The last signal that was passed on to it.
    pub(crate) signal: Option<Signal>,
    /// Whether a server has said that a signal ended it while it had trainers to wait for.
    pub(crate) was_stopped: bool,
}

/// Runs a command until it ends, with its output in a file too.
pub(crate) async fn run(
    mut command: Command,
    role: Role,
    log: Option<File>,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<Ended> {
    // A group of its own: a shell would keep a signal to itself.
    command.process_group(0);
    let copied = match (log, role) {
        (None, Role::Trainer) => None,
        (log, _) => Some(copy(&mut command, log)?),
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(source) => {
            let program = command.get_program().to_string_lossy();
            let (code, message) = not_started(&program, &source);
            return Ok(Ended { code, message: Some(message), signal: None, was_stopped: false });
        }
    };
    // Ours to close, so that the output ends with the program.
    drop(command);
    let pid = Pid::from_child(&child);
    let mut ended = reap(pid)?;
    let mut passed_on = None;
    let status = loop {
        tokio::select! {
            status = &mut ended => {
                break status.map_err(|_| Error::invalid("the program cannot be waited for"))?;
            }
            Some(signal) = signals.recv() => {
                // It may just have ended.
                let _ = kill_process_group(pid, signal);
                passed_on = Some(signal);
            }
        }
    };
    if passed_on.is_some() {
        wait_for_group(pid, TOLD_PATIENCE).await;
    }
    let mut was_stopped = false;
    if let Some(copied) = copied {
        // Its end is told either way; what comes later is of nobody who is waited for.
        let last = tokio::time::timeout(OUTPUT_PATIENCE, copied).await;
        was_stopped = matches!(last, Ok(Ok(Some(Farewell { was_stopped: true, .. }))));
    }
    end_group(pid).await;
    let killed = status.terminating_signal().map(from_signal);
    let code = status.exit_status().or(killed).unwrap_or(1);
    Ok(Ended { code, message: None, signal: passed_on, was_stopped })
}

/// Ends what a program has left behind in its group, as on other places, and waits for it: the next
/// attempt begins alone, with its ports free.
async fn end_group(group: Pid) {
    // Mostly there is nothing left. What the kernel holds ends later.
    if kill_process_group(group, Signal::KILL).is_ok() {
        wait_for_group(group, OUTPUT_PATIENCE).await;
    }
}

/// Waits until no process of a group is left, or for so long. Orphans are our children: see `main`.
async fn wait_for_group(group: Pid, patience: Duration) {
    let (sender, gone) = oneshot::channel();
    let work = move || {
        while retry_on_intr(|| waitpgid(group, WaitOptions::empty())).is_ok() {}
        let _ = sender.send(());
    };
    if std::thread::Builder::new().name("orphans".to_owned()).spawn(work).is_ok() {
        let _ = tokio::time::timeout(patience, gone).await;
    }
}

/// Waits for every child, and tells about one of them.
fn reap(pid: Pid) -> Result<oneshot::Receiver<WaitStatus>> {
    let (sender, receiver) = oneshot::channel();
    let collect = move || {
        while let Ok(ended) = retry_on_intr(|| wait(WaitOptions::empty())) {
            if let Some((_, status)) = ended.filter(|(other, _)| *other == pid) {
                // Nobody listens any more when this process ends itself.
                let _ = sender.send(status);
                return;
            }
        }
    };
    let refused = |source| Error::io("cannot start a thread", source);
    std::thread::Builder::new().name("reaper".to_owned()).spawn(collect).map_err(refused)?;
    Ok(receiver)
}

/// Sends the output of a command to our own and, with its errors, to a file. Resolves when it has
/// ended, to the last line of a server.
fn copy(command: &mut Command, file: Option<File>) -> Result<oneshot::Receiver<Option<Farewell>>> {
    let refused = |source| Error::io("cannot take the program's output", source);
    let (reader, writer) = std::io::pipe().map_err(refused)?;
    if file.is_some() {
        command.stderr(writer.try_clone().map_err(refused)?);
    }
    command.stdout(writer);
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        // Nobody waits any more when the output stayed open for too long.
        let _ = sender.send(copy_all(reader, file));
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(work).map_err(refused)?;
    Ok(receiver)
}

fn copy_all(mut reader: PipeReader, mut file: Option<File>) -> Option<Farewell> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut lines, mut farewell) = (Lines::default(), None);
    while let Ok(count @ 1..) = reader.read(&mut piece) {
        let piece = &piece[..count];
        if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(piece)) {
            // A full disk must not stop the program, and its output is also in the pod's log.
            file = None;
            crate::listening::say(&format!("the log file ends here: {error}"));
        }
        let mut output = std::io::stdout().lock();
        let _ = output.write_all(piece).and_then(|()| output.flush());
        lines.feed(piece, |line| {
            if let Ok(Some(found)) = Farewell::parse(line) {
                farewell = Some(found);
            }
        });
    }
    farewell
}
