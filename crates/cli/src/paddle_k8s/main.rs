//! The command `paddle_k8s`: what the pods of a job run. Environment and API server → the others →
//! the program, watched to its end.

mod args;
mod command;
mod listening;
mod log;
mod outcome;
mod program;
mod settle;
mod signals;
mod unpack;

use args::{PaddleK8s, Verb};
use clap::Parser;
use contract::env::Environment;
use contract::exit::from_signal;
use contract::job::Restore;
use contract::role::Role;
use contract::{Error, Result};
use rustix::process::Signal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const COMMAND: &str = "paddle_k8s";

fn main() -> ExitCode {
    let args = PaddleK8s::parse();
    cli::exit::run(COMMAND, || run(&args).inspect_err(|error| outcome::note(&error.chain())))
}

fn run(args: &PaddleK8s) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    runtime.block_on(async {
        // The first process of a container is not ended by a signal that it does not listen for.
        let mut signals = signals::listen()?;
        // What programs leave behind becomes ours, also where pods share their processes.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let early = |signal: Signal| {
            outcome::note("ended on request before the program was started");
            Ok(code(from_signal(signal.as_raw())))
        };
        let mut environment = tokio::select! {
            settled = prepare(args) => settled?,
            Some(signal) = signals.recv() => return early(signal),
        };
        let log = log::take_folder(&mut environment)?;
        let mut restarts = 0;
        loop {
            tokio::select! {
                listening = listen(&environment, args.wait) => listening?,
                Some(signal) = signals.recv() => return early(signal),
            }
            let command = command::command(&args.verb, &environment)?;
            let (role, log) = (environment.role, log.as_deref().map(log::open).transpose()?);
            let ended = program::run(command, role, log, &mut signals).await?;
            let exit_code = outcome::tell(&ended, role);
            let is_trainer = role == Role::Trainer;
            // What is not there will not be there the second time either.
            let is_hopeless = matches!(exit_code, 0 | NOT_EXECUTABLE | NOT_FOUND);
            if ended.signal.is_some() || is_hopeless || !is_trainer || restarts >= args.restarts {
                return Ok(code(exit_code));
            }
            environment.attempt += 1;
            restarts += 1;
            let most = args.restarts;
            listening::say(&format!("starting the program again, {restarts} of {most}"));
        }
    })
}

/// The exit codes of a shell for a program that cannot be run, and for one that is not found.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Waits for what a trainer needs.
async fn listen(environment: &Environment, wait: Duration) -> Result<()> {
    match environment.role {
        Role::Trainer => listening::wait(environment, Instant::now() + wait).await,
        Role::Pserver | Role::Master => Ok(()),
    }
}

/// Everything that the program is to be told.
async fn prepare(args: &PaddleK8s) -> Result<Environment> {
    let mut environment = Environment::parse(|name| std::env::var(name).ok())?;
    match args.verb {
        Verb::StartPserver(_) => environment.role = Role::Pserver,
        Verb::StartMaster(_) => environment.role = Role::Master,
        Verb::StartTrainer(_) | Verb::StartNewTrainer => environment.role = Role::Trainer,
        Verb::StartFluid => {}
    }
    if args.round > 0 {
        environment.attempt += args.round;
        environment.restore = restored_again(environment.restore);
    }
    if let Some(archive) = &args.unpack {
        unpack::unpack(archive, &environment)?;
    }
    command::check(&args.verb, &environment)?;
    let deadline = Instant::now() + args.wait;
    settle::settle(environment, &args.verb, deadline).await
}

/// What servers of a job that is started again begin with, by what was asked for: the newest of its
/// own checkpoints. Where it was to begin with the newest one, that must be there still: the first
/// start may have failed because there is none.
fn restored_again(asked: String) -> String {
    if asked.is_empty() || asked == Restore::Latest.to_string() {
        return asked;
    }
    settle::COMMON.to_owned()
}

fn code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::restored_again;

    #[test]
    fn a_job_that_was_to_go_on_from_a_checkpoint_never_begins_anew() {
        let again = ["", "common", "7", "latest"].map(|asked| restored_again(asked.to_owned()));
        assert_eq!(again, ["", "common", "common", "latest"]);
    }
}
