//! `paddle rank`: one rank of a job whose conductor runs `mpirun`. Started by that, not by people;
//! what it does is in `scheduler::mpi::join`. `paddle launch --mpi` is a rank too.

use crate::attach::follow::runtime;
use crate::attach::signals;
use contract::secret::Secret;
use contract::{Error, Result};
use scheduler::meeting::{CONDUCTOR, KEY, Meeting, Member};
use scheduler::mpi::join;
use scheduler::mpi::rank::{self, Rank};
use scheduler::ssh;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the ranks of the job keep their state, on each machine
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Seconds in which the conductor must be found
    #[arg(long, value_name = "SECONDS")]
    patience: u64,
    /// The interface that servers listen on
    #[arg(long, value_name = "NAME", default_value = "")]
    nics: String,
}

/// How long a rank that was told to end waits for the conductor to end the job in order.
pub(crate) const ORDERLY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let meeting = meeting("mpirun", args.patience)?;
    let rank = find_rank()?;
    let own = member(&rank, args.directory.join(rank.rank.to_string()), &args.nics)?;
    runtime()?.block_on(follow(&meeting, &own))
}

/// How a process that `starter` was told to start finds the conductor.
pub(crate) fn meeting(starter: &str, patience_seconds: u64) -> Result<Meeting> {
    let variable = |name: &'static str| {
        std::env::var(name).map_err(|_| {
            let message =
                format!("this command is for {starter}, not for people: use paddle launch");
            Error::invalid(message).with("missing", name)
        })
    };
    Ok(Meeting {
        key: Secret::new(variable(KEY)?),
        conductors: variable(CONDUCTOR)?.split(',').map(str::to_owned).collect(),
        patience: Duration::from_secs(patience_seconds),
        may_repeat: true,
    })
}

/// Which rank this process is. It ends with the process that started it: where `mpirun` is killed
/// nobody else tells.
pub(crate) fn find_rank() -> Result<Rank> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|errno| Error::io("cannot follow mpirun's end", errno.into()))?;
    rank::find(|name| std::env::var(name).ok())
}

/// How this rank introduces itself. Its supervisor's `directory` must be no other rank's, also where
/// machines share their homes.
pub(crate) fn member(rank: &Rank, directory: PathBuf, nic: &str) -> Result<Member> {
    let address = match nic {
        "" => String::new(),
        nic => ssh::node::address_of(nic)?.to_string(),
    };
    Ok(Member {
        rank: rank.rank,
        size: rank.size,
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        address,
        paddle: crate::this_program()?.program.to_string_lossy().into_owned(),
        directory,
    })
}

/// Does what the conductor says, to the end of the job.
pub(crate) async fn follow(meeting: &Meeting, own: &Member) -> Result<ExitCode> {
    let mut stops = signals::listen()?;
    let hidden = [CONDUCTOR, KEY];
    let joined = join(meeting, own, &hidden);
    tokio::pin!(joined);
    tokio::select! {
        joined = &mut joined => joined.map(|()| ExitCode::SUCCESS),
        Some(stop) = stops.recv() => {
            // The conductor was told too, and ends the job in order; or it is gone, and so are we.
            let _ = tokio::time::timeout(ORDERLY, joined).await;
            Ok(ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1)))
        }
    }
}
