//! The programs of a node: what they print goes on, and to `log/train.log` of the workspace. When the
//! job is told to end they get a moment, and their results are still sent.

use super::ending::Ending;
use super::results::Results;
use super::unusable;
use super::workspace::Workspace;
use contract::{Error, Result, exit};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often the files of node 0 are sent while a program of it runs.
const SEND: Duration = Duration::from_secs(10);
/// How long this process may hear later than its program that the job is to end: whoever ends a
/// job signals its processes one after another.
const HEAR: Duration = Duration::from_secs(2);
/// How long the output of a program that has ended is waited for. What it has left behind may hold
/// it for ever.
const OUTPUT: Duration = Duration::from_secs(5);

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
    run(command, workspace, results, ending).map(|ended| ended.code)
}

/// Runs a program to its end.
pub(super) fn run(
    mut command: Command,
    workspace: &Workspace,
    results: &Results,
    ending: &Ending,
) -> Result<Ended> {
    let program = PathBuf::from(command.get_program());
    let failed = |source| {
        Error::io("cannot run a program of the node", source).with("program", program.display())
    };
    let (mut reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let path = workspace.root.join("log/train.log");
    let opened = std::fs::File::options().create(true).append(true).open(&path);
    let mut log = opened.map_err(unusable(&path))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut child = tokio::process::Command::from(command).spawn().map_err(|source| {
            match source.kind() {
                ErrorKind::NotFound if program.is_file() => {
                    let fix = "the interpreter that its first line names is not on this node";
                    failed(source).with("fix", fix)
                }
                _ => failed(source),
            }
        })?;
        // The signal is for the whole group, so a program that runs has it, too.
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid.filter(|_| ending.is_asked()) {
            // It has ended already where this fails.
            let _ = kill_process(pid, Signal::TERM);
        }
        let (over, is_over) = tokio::sync::oneshot::channel::<()>();
        // No thread of the runtime, whose end would wait for it.
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                // A full disk must not end a training that could go on.
                let _ = log.write_all(&piece[..count]);
                let mut output = std::io::stdout().lock();
                let _ = output.write_all(&piece[..count]).and_then(|()| output.flush());
            }
            drop(over);
        });
        let mut sending = tokio::time::interval_at(tokio::time::Instant::now() + SEND, SEND);
        sending.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(failed)?,
                _ = sending.tick() => results.send_news(),
            }
        };
        let code = status.code().or(status.signal().map(exit::from_signal)).unwrap_or(1);
        let by_request = [Signal::TERM, Signal::INT].map(Signal::as_raw);
        let asked = match exit::signal(code) {
            Some(signal) if by_request.contains(&signal) => ending.is_asked_within(HEAR),
            _ => ending.is_asked(),
        };
        // What it started may still hold the pipe, and ends with the node.
        let _ = tokio::time::timeout(OUTPUT, is_over).await;
        Ok(Ended { code, asked })
    })
}
