//! `paddle conduct`: runs one submitted job to its end. Started when a job is submitted, not by
//! people; what it does is in `scheduler::jobs::conduct`.
//!
//! The conductor of a detached job leaves the session of its submitter, and has a parent that waits
//! for nothing else and starts another one when it is killed. The conductor of a job on a leash
//! stays in the submitter's session, so that ssh can ask for passwords at its terminal; the signals
//! that a terminal sends are for the submitter alone, which decides what becomes of the job.

use crate::attach::signals::ignores_hang_ups;
use contract::exit::from_signal;
use contract::{Error, Result};
use scheduler::conductor::Stop;
use scheduler::jobs::{conduct, guard};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's directory
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// End the job when standard input closes
    #[arg(long)]
    leash: bool,
    /// Be the conductor itself, not the parent that waits for it
    #[arg(long, conflicts_with = "leash")]
    guarded: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    if !args.leash && !args.guarded {
        return guard(args);
    }
    let paddle = super::this_program()?;
    let runtime = crate::attach::follow::runtime()?;
    let result = runtime.block_on(async {
        let (sender, stops) = mpsc::channel(4);
        listen(args.leash, &sender)?;
        if args.leash {
            std::thread::spawn(move || await_end_of_leash(&sender));
        }
        conduct::conduct(&args.directory, &paddle, stops).await
    });
    // A read of standard input may still be waiting, and cannot be called back.
    runtime.shutdown_background();
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

/// SIGTERM ends the job. What a terminal sends is passed over: it is for the submitter.
fn listen(is_leashed: bool, stops: &mpsc::Sender<Stop>) -> Result<()> {
    let open = |kind: SignalKind| {
        signal(kind).map_err(|source| Error::io("cannot wait for signals", source))
    };
    let mut terminate = open(SignalKind::terminate())?;
    for kind in [SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        if is_leashed && !(kind == SignalKind::hangup() && ignores_hang_ups()) {
            let mut ignored = open(kind)?;
            tokio::spawn(async move { while ignored.recv().await.is_some() {} });
        }
    }
    let stops = stops.clone();
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

/// The leash is held by whoever submitted the job; nothing is ever written to it.
fn await_end_of_leash(stops: &mpsc::Sender<Stop>) {
    let mut byte = [0];
    while std::io::stdin().lock().read(&mut byte).is_ok_and(|count| count > 0) {}
    let exit_code = from_signal(SignalKind::hangup().as_raw_value());
    let reason = Some("gone: the process that held its leash has ended".to_owned());
    let _ = stops.blocking_send(Stop { exit_code, reason, is_forced: true });
}
