//! The programs of a node: what they print goes on, and to `log/train.log` of the workspace. When the
//! job is told to end they get a moment, and their results are still sent.

use super::ending::Ending;
use super::results::Results;
use super::unusable;
use super::workspace::Workspace;
use contract::{Error, Result, exit};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often the files of node 0 are sent while it trains.
const SEND: Duration = Duration::from_secs(10);
/// How long this process may hear later than its program that the job is to end: whoever ends a
/// job signals its processes one after another.
const HEAR: Duration = Duration::from_secs(2);

/// How a program of the node ended.
pub(super) struct Ended {
    /// Its exit code, 128 + signal.
    pub code: i32,
    /// Whether the node was asked to end before that.
    pub asked: bool,
}

/// Trains; the exit code.
pub(super) fn train(
    workspace: &Workspace,
    flags: &[String],
    results: &Results,
    ending: &Ending,
) -> Result<i32> {
    let mut command = Command::new(workspace.paddle()?);
    command.arg("train").args(flags).current_dir(&workspace.root).envs(workspace.environment());
    command.env_remove(contract::env::STAGE);
    command.env("GLOG_log_dir", workspace.root.join("log"));
    run(command, workspace, ending, Some(results)).map(|ended| ended.code)
}

/// Runs a program to its end.
pub(super) fn run(
    mut command: Command,
    workspace: &Workspace,
    ending: &Ending,
    results: Option<&Results>,
) -> Result<Ended> {
    let failed = |source| Error::io("cannot run a program of the node", source);
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let path = workspace.root.join("log/train.log");
    let opened = std::fs::File::options().create(true).append(true).open(&path);
    let mut log = opened.map_err(unusable(&path))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|source| Error::io("cannot run a program of the node", source))?;
        // The signal is for the whole group, so a program that runs has it, too.
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid.filter(|_| ending.is_asked()) {
            // It has ended already where this fails.
            let _ = kill_process(pid, Signal::TERM);
        }
        let copied = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                // A full disk must not end a training that could go on.
                let _ = log.write_all(&piece[..count]);
                let mut output = std::io::stdout().lock();
                let _ = output.write_all(&piece[..count]).and_then(|()| output.flush());
            }
        });
        let mut sending = tokio::time::interval_at(tokio::time::Instant::now() + SEND, SEND);
        sending.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(failed)?,
                _ = sending.tick(), if results.is_some() => {
                    if let Some(results) = results {
                        results.send_news();
                    }
                }
            }
        };
        let code = status.code().or(status.signal().map(exit::from_signal)).unwrap_or(1);
        let by_request = [Signal::TERM, Signal::INT].map(Signal::as_raw);
        let asked = match exit::signal(code) {
            Some(signal) if by_request.contains(&signal) => ending.is_asked_within(HEAR),
            _ => ending.is_asked(),
        };
        // What it started may still hold the pipe, and ends with the node.
        let _ = tokio::time::timeout(Duration::from_secs(5), copied).await;
        Ok(Ended { code, asked })
    })
}
