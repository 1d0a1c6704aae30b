//! `paddle supervise`: the processes of one job on this host. Started by launchers, not by people;
//! what it does, and the messages that it takes, are in `scheduler::supervisor`.

use contract::{Error, Result};
use scheduler::supervisor::{guard, keeper, lock};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's directory on this host
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Use a PID namespace where that is permitted
    #[arg(long)]
    namespace: bool,
    /// End the supervisor that runs for this directory, and its job with it
    #[arg(long)]
    end: bool,
    /// Be the inner process
    #[arg(long)]
    keeper: bool,
    /// Be the inner process, and the first of a namespace
    #[arg(long = "in_namespace", requires = "keeper")]
    in_namespace: bool,
}

/// How long the end of a supervisor is waited for.
const END: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    if args.keeper {
        return keeper::run(&args.directory, args.in_namespace).map(|()| ExitCode::SUCCESS);
    }
    if args.end {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::io("cannot start a runtime", source))?;
        runtime.block_on(lock::end_holder(&args.directory.join(guard::LOCK), END))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut keeper = Command::new(super::this_program()?.program);
    keeper.args(["supervise", "--keeper", "--directory"]).arg(&args.directory);
    let code = guard::run(&args.directory, args.namespace, keeper)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
