//! `paddlecloud scale`: another number of trainers for a fault-tolerant job.

use crate::args::Globals;
use crate::cloud::connect;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Change the number of trainers of a fault-tolerant job
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// How many trainers are wanted
    #[arg(long, alias = "parallelism", value_name = "N", value_parser = cli::number::parse::<u32>)]
    trainers: u32,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let job = connect(globals)?.scale(&args.job, args.trainers)?;
    let mut output = Output::open();
    output.line(format_args!("{}: {} trainers wanted", job.name, args.trainers))?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
