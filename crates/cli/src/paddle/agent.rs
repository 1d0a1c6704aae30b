//! `paddle agent`: a job's hand on one node of its Slurm allocation. Started by `srun`, not by
//! people; what it does is in `scheduler::slurm::agent`.

use crate::attach::follow::runtime;
use crate::attach::signals;
use crate::rank::find_rank;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use scheduler::meeting::{CONDUCTOR, KEY, Meeting, Member};
use scheduler::mpi::rank::Rank;
use scheduler::slurm::{Agent, plan};
use scheduler::ssh::node;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the agents of the job keep their state, on each node
    #[arg(long, value_name = "DIR")]
    directory: String,
    /// Seconds in which the conductor must be found
    #[arg(long, value_name = "SECONDS")]
    patience: u64,
    /// Seconds in which another one must be found when it is lost
    #[arg(long, value_name = "SECONDS")]
    linger: u64,
    /// The interface that servers listen on
    #[arg(long, value_name = "NAME", default_value = "")]
    nics: String,
}

/// The node's name in Slurm, and the GPUs that it gave to the job there.
const NODE: &str = "SLURMD_NODENAME";
const GPUS: &str = "CUDA_VISIBLE_DEVICES";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let variable = |name: &'static str| {
        std::env::var(name).map_err(|_| {
            let message = "this command is for Slurm, not for people: use paddle launch";
            Error::invalid(message).with("missing", name)
        })
    };
    let meeting = Meeting {
        key: Secret::new(variable(KEY)?),
        conductors: variable(CONDUCTOR)?.split(',').map(str::to_owned).collect(),
        patience: Duration::from_secs(args.patience),
        may_repeat: true,
    };
    let config = crate::node::config()?;
    let directory = match args.directory.strip_prefix("~/") {
        Some(below) => config.home.join(below),
        None => PathBuf::from(&args.directory),
    };
    let rank = find_rank()?;
    let directory = directory.join(rank.rank.to_string());
    let agent = Agent {
        meeting,
        linger: Duration::from_secs(args.linger),
        own: member(args, &rank, &directory)?,
        directory,
        config,
        hidden: vec![KEY.to_owned(), CONDUCTOR.to_owned()],
    };
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let mut stops = signals::listen()?;
        tokio::select! {
            outcome = agent.run() => outcome.map(|()| ExitCode::SUCCESS),
            // Slurm ends the allocation, and has told the supervisor and the programs too.
            Some(stop) = stops.recv() => {
                Ok(ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1)))
            }
        }
    });
    match outcome {
        // To start it again would be of no use.
        Err(error) if error.kind() == Kind::Timeout => {
            cli::exit::report("paddle agent", &error);
            Ok(ExitCode::from(plan::NO_CONDUCTOR))
        }
        outcome => outcome,
    }
}

/// How this agent introduces itself.
fn member(args: &Args, rank: &Rank, directory: &Path) -> Result<Member> {
    let address = match args.nics.as_str() {
        "" => String::new(),
        nic => node::address_of(nic)?.to_string(),
    };
    let own_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let gpus = std::env::var(GPUS).unwrap_or_default();
    let gpus = gpus.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(Member {
        rank: rank.rank,
        size: rank.size,
        machine: std::env::var(NODE).unwrap_or_else(|_| own_name()),
        address,
        paddle: crate::this_program()?.program.to_string_lossy().into_owned(),
        // Two levels below what is this node's alone: supervisors note there who has which GPU.
        directory: directory.join("job").join("machine"),
        gpus: gpus.map(str::to_owned).collect(),
    })
}
