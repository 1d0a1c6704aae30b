//! `paddle agent`: a job's hand on one node of its Slurm allocation. Started by `srun`, not by
//! people; what it does is in `scheduler::slurm::agent`.

use crate::attach::follow::runtime;
use crate::attach::signals;
use crate::rank;
use contract::{Kind, Result};
use scheduler::meeting::{CONDUCTOR, KEY, Member};
use scheduler::mpi::rank::Rank;
use scheduler::slurm::{Agent, plan};
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

/// How long programs may take to end that Slurm has told to: longer than its KillWait usually is.
const LAST: Duration = Duration::from_secs(120);
/// The node's name in Slurm.
const NODE: &str = "SLURMD_NODENAME";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let meeting = rank::meeting("Slurm", args.patience)?;
    let config = crate::node::config()?;
    let directory = match args.directory.strip_prefix("~/") {
        Some(below) => config.home.join(below),
        None => PathBuf::from(&args.directory),
    };
    let rank = rank::find_rank()?;
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
        let mut run = std::pin::pin!(agent.run());
        tokio::select! {
            outcome = &mut run => outcome.map(|()| ExitCode::SUCCESS),
            // Slurm ends the allocation, and has told the programs too. It kills what is still there
            // after its KillWait; until then they save what they have, and the conductor hears it.
            Some(stop) = stops.recv() => {
                let _ = tokio::time::timeout(LAST, run).await;
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
    let own = rank::member(rank, directory.join("machine"), &args.nics)?;
    Ok(Member { machine: std::env::var(NODE).unwrap_or(own.machine), ..own })
}
