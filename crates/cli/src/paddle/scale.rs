//! `paddle scale`: changes the number of trainers of a job of this machine.

use crate::attach::follow::runtime;
use crate::jobs::{everywhere, find};
use cli::number;
use cli::output::{Format, Output};
use contract::Result;
use scheduler::Backend;
use std::process::ExitCode;

/// Change the number of trainers of a running job
///
/// The job must have been submitted with --min_trainers or --max_trainers, and N must be between
/// them. New trainers take part as soon as they have started. With fewer, those of the highest ranks
/// are asked to end, and others train what they had not finished. Those below N that failed and were
/// given up are started again, also if N is what the job has. Returns when the job has been
/// told; `paddle jobs` and `paddle attach` show the trainers.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job: its id, the beginning of it, or its name for the newest of that name that runs
    #[arg(value_name = "JOB")]
    id: String,
    /// The number of trainers that it should have
    #[arg(long, value_name = "N", value_parser = number::parse::<u32>)]
    trainers: u32,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let jobs = everywhere::open()?;
    let (id, before) = runtime()?.block_on(async {
        let job = find::find_running(&jobs, &args.id).await?;
        jobs.scale(&job.id, args.trainers).await?;
        contract::Result::Ok((job.id, job.trainers))
    })?;
    let mut output = Output::open();
    match args.output {
        Format::Json => output.json(&serde_json::json!({
            "id": id, "trainers": args.trainers, "before": before,
        }))?,
        Format::Text => {
            output.line(format_args!("{id}: from {before} to {} trainers", args.trainers))?;
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
