//! `paddle conduct`: runs one submitted job to its end. Started when a job is submitted, not by
//! people; what it does is in `scheduler::jobs::conduct`.
//!
//! The conductor leaves the session of the job's submitter, and has a parent that waits for nothing
//! else and starts another one when it is killed. A job that ends with its submitter has no such
//! process: the submitter conducts it.

use contract::exit::from_signal;
use contract::{Error, Result};
use scheduler::conductor::Stop;
use scheduler::jobs::{conduct, guard};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's directory
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Be the conductor itself, not the parent that waits for it
    #[arg(long)]
    guarded: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    if !args.guarded {
        return guard(args);
    }
    let paddle = super::this_program()?;
    let result = crate::attach::follow::runtime()?.block_on(async {
        let (sender, stops) = mpsc::channel(4);
        listen(sender)?;
        conduct::conduct(&args.directory, &paddle, stops).await
    });
    if let Some(guard) = rustix::process::getppid() {
        // Somebody may have stopped it; it has nothing to wait for any more. Harmless otherwise.
        let _ = rustix::process::kill_process(guard, rustix::process::Signal::CONT);
    }
    result.map(|()| ExitCode::SUCCESS)
}

fn guard(args: &Args) -> Result<ExitCode> {
    // Out of the submitter's session: what ends that must not end the job.
    rustix::process::setsid()
        .map_err(|errno| Error::io("cannot leave the session", errno.into()))?;
    let program = super::this_program()?.program;
    guard::run(&args.directory, || {
        let mut command = Command::new(&program);
        command.args(["conduct", "--guarded", "--directory"]).arg(&args.directory);
        command.stdin(Stdio::null());
        command
    })?;
    Ok(ExitCode::SUCCESS)
}

/// SIGTERM ends the job.
fn listen(stops: mpsc::Sender<Stop>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|source| Error::io("cannot wait for signals", source))?;
    tokio::spawn(async move {
        let mut is_forced = false;
        while terminate.recv().await.is_some() {
            let exit_code = from_signal(SignalKind::terminate().as_raw_value());
            let reason = Some("its conductor was told to end".to_owned());
            let _ = stops.send(Stop { exit_code, reason, is_forced }).await;
            is_forced = true;
        }
    });
    Ok(())
}
