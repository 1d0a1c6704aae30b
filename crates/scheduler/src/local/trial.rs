//! One short program of somebody else, run for what it prints.
//!
//! It runs under a supervisor as a replica does, in the same sandbox, and with less: no network, few
//! processes, little time, memory and output. Whatever it does, it is gone when this returns, with
//! all that it has started.

use super::supervise;
use crate::jobs::Paddle;
use crate::replica::ReplicaId;
use crate::submission::{Mount, RunAs, Sandbox};
use crate::supervisor::host::{Host, Hosts, Report};
use crate::supervisor::message::{Command, Confinement, Event, Root, Start};
use contract::role::Role;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program to try.
#[derive(Debug)]
pub struct Trial {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
    /// Where it runs, as it sees it.
    pub directory: PathBuf,
    /// How it is kept apart; `None` where the kernel does not permit that.
    pub apart: Option<Apart>,
    /// What it may use.
    pub allowance: Allowance,
}

/// Who runs a program, and what it sees.
#[derive(Debug)]
pub struct Apart {
    /// The user it runs as.
    pub run_as: RunAs,
    /// What it sees of the machine.
    pub sandbox: Sandbox,
    /// Directories that it sees besides.
    pub mounts: Vec<Mount>,
}

/// What a program may use.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// How long it may take.
    pub time: Duration,
    /// Memory, with all its processes.
    pub memory_bytes: u64,
    /// What it may print.
    pub output_bytes: usize,
    /// Processes and threads.
    pub processes: u32,
}

/// How a program ended.
#[derive(Debug)]
pub struct Tried {
    /// Its exit code, 128 + signal.
    pub code: i32,
    /// What it printed.
    pub output: String,
}

/// How long a supervisor may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program to its end. `directory` is an empty one of this machine, for its supervisor.
///
/// # Errors
/// It used more than it may, and was killed; or it cannot be run.
pub async fn run(paddle: &Paddle, directory: &Path, trial: &Trial) -> Result<Tried> {
    let replica = ReplicaId::new(Role::Trainer, 0);
    // Of the supervisor itself nothing is passed on that the program is not to have.
    let command = supervise(paddle, directory, true, &trial.env);
    let host = Host::open("localhost", command, PATIENCE).await?;
    let mut hosts = Hosts::new(vec![host]);
    let told = hosts.send(0, &Command::Start(Box::new(start(trial, replica, directory)))).await;
    let outcome = match told {
        Err(error) => Err(error),
        Ok(()) => {
            let allowance = trial.allowance;
            let heard = tokio::time::timeout(allowance.time, listen(&mut hosts, allowance)).await;
            heard.unwrap_or_else(|_| {
                let seconds = allowance.time.as_secs();
                Err(exceeded(format!("it takes longer than {seconds} seconds")))
            })
        }
    };
    // With whatever is left of it.
    hosts.close().await;
    outcome
}

fn start(trial: &Trial, replica: ReplicaId, directory: &Path) -> Start {
    let Trial { argv, env, apart, allowance, .. } = trial;
    let confinement = apart.as_ref().map_or_else(Confinement::default, |apart| Confinement {
        run_as: Some(apart.run_as),
        root: Some(Root {
            sandbox: apart.sandbox.clone(),
            mounts: apart.mounts.clone(),
            ..Root::default()
        }),
        is_offline: true,
        processes_max: Some(allowance.processes),
        ..Confinement::default()
    });
    // In a sandbox this is memory of its own, within its limit.
    let log = match apart {
        Some(_) => PathBuf::from("/tmp/output.log"),
        None => directory.join("output.log"),
    };
    Start {
        replica,
        attempt: 0,
        argv: argv.clone(),
        env: env.clone(),
        directory: trial.directory.clone(),
        log,
        is_server: false,
        metrics: None,
        memory_bytes_max: Some(allowance.memory_bytes),
        cpu_milli_max: Some(1000),
        preamble: Vec::new(),
        confinement,
        stopped_seconds_max: None,
    }
}

async fn listen(hosts: &mut Hosts, allowance: Allowance) -> Result<Tried> {
    let mut output = Vec::new();
    loop {
        match hosts.next().await {
            Report::Event(Event::Log { output: piece, .. }) => {
                output.extend(piece.decode());
                if output.len() > allowance.output_bytes {
                    let kibibytes = allowance.output_bytes >> 10;
                    return Err(exceeded(format!("it prints more than {kibibytes} KiB")));
                }
            }
            Report::Event(Event::Exited { message: Some(message), .. }) => {
                return Err(exceeded(message));
            }
            Report::Event(Event::Exited { code, .. }) => {
                return Ok(Tried { code, output: String::from_utf8_lossy(&output).into_owned() });
            }
            Report::Event(_) => {}
            Report::Lost { why, .. } => return Err(Error::new(Kind::Unavailable, why)),
        }
    }
}

fn exceeded(why: String) -> Error {
    Error::new(Kind::LimitExceeded, why)
}
