//! The programs of a node: what they print goes on, and to `log/train.log` of the workspace. When the
//! job is told to end they get a moment, and their results are still sent.

use super::results::Results;
use super::workspace::Workspace;
use super::{say, unusable};
use contract::{Error, Result, exit};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
pub(super) fn train(workspace: &Workspace, flags: &[String], results: &Results) -> Result<i32> {
    let mut command = Command::new(workspace.paddle()?);
    command.arg("train").args(flags).current_dir(&workspace.root).envs(workspace.environment());
    command.env_remove(contract::env::STAGE);
    command.env("GLOG_log_dir", workspace.root.join("log"));
    run(command, workspace, Some(results)).map(|ended| ended.code)
}

/// Runs a program to its end.
pub(super) fn run(
    mut command: Command,
    workspace: &Workspace,
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
        // From now on this process survives what ends its program, to send what there is.
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|source| Error::io("cannot run a program of the node", source))?;
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
        let mut asked = false;
        let status = loop {
            tokio::select! {
                // The signal was for the whole group, so the program has it, too.
                () = heard(&mut terminate, &mut interrupt) => asked = true,
                status = child.wait() => break status.map_err(failed)?,
                _ = sending.tick(), if results.is_some() => {
                    if let Some(results) = results {
                        results.send_news();
                    }
                }
            }
        };
        let code = status.code().or(status.signal().map(exit::from_signal)).unwrap_or(1);
        let by_request = [SignalKind::terminate(), SignalKind::interrupt()];
        let signal = exit::signal(code).map(SignalKind::from_raw);
        if !asked && signal.is_some_and(|signal| by_request.contains(&signal)) {
            let heard = heard(&mut terminate, &mut interrupt);
            asked = tokio::time::timeout(HEAR, heard).await.is_ok();
        }
        // What it started may still hold the pipe, and ends with the node.
        let _ = tokio::time::timeout(Duration::from_secs(5), copied).await;
        Ok(Ended { code, asked })
    })
}

/// Waits until this process is asked to end, and says so.
async fn heard(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    say("asked to end");
}
