//! `paddle supervise`: the processes of one job on this host. Started by launchers, not by people;
//! what it does, and the messages that it takes, are in `scheduler::supervisor`.

use contract::Result;
use scheduler::supervisor::gpu::{Pool, VISIBLE};
use scheduler::supervisor::{guard, keeper};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's directory on this host
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Where it is noted who has which GPU of this host
    #[arg(long, value_name = "DIR")]
    gpus: PathBuf,
    /// Use a PID namespace where that is permitted
    #[arg(long)]
    namespace: bool,
    /// End with the input alone: SIGTERM is for the programs, which get it too
    #[arg(long)]
    patient: bool,
    /// Be the inner process
    #[arg(long)]
    keeper: bool,
    /// Be the inner process, and the first of a namespace
    #[arg(long = "in_namespace", requires = "keeper")]
    in_namespace: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    if args.keeper {
        let gpus = Pool::new(args.gpus.clone(), &std::env::var(VISIBLE).unwrap_or_default());
        let kept = keeper::run(&args.directory, gpus, args.in_namespace, args.patient);
        return kept.map(|()| ExitCode::SUCCESS);
    }
    let mut keeper = Command::new(super::this_program()?.program);
    keeper.args(["supervise", "--keeper", "--directory"]).arg(&args.directory);
    keeper.arg("--gpus").arg(&args.gpus);
    if args.patient {
        keeper.arg("--patient");
    }
    let code = guard::run(&args.directory, args.namespace, args.patient, keeper)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
