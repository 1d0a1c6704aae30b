//! `paddlecloud resubmit`: runs exactly what a job ran, again.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::submit;
use crate::view::View;
use contract::{Result, name};
use std::process::ExitCode;

/// Run a job again: the same files and settings
///
/// The package that the job ran is kept by the server, so it does not matter what has changed here
/// since. A job that was submitted from a path below /pfs/ runs what is there now.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job: its name, or its uid for one before the newest of that name
    #[arg(value_name = "JOB")]
    job: String,
    /// Another name for the new job
    #[arg(long, value_name = "NAME")]
    jobname: Option<String>,
    /// Then print its logs until it has ended; the exit code tells how
    #[arg(long, short)]
    follow: bool,
    /// Then wait until it has ended; the exit code tells how
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    if let Some(jobname) = &args.jobname {
        name::check_job_for_submit(jobname)?;
    }
    let client = connect(globals)?;
    let detail = client.job(&args.job)?;
    let mut spec = detail.spec;
    if let Some(jobname) = &args.jobname {
        spec.name.clone_from(jobname);
    }
    let digest = detail.package.map(|package| package.digest);
    match &digest {
        // The server puts the package where jobs find it.
        Some(_) => spec.package.clear(),
        None => say(&format!("this runs what {} has now", spec.package)),
    }
    let job = client.submit(&spec, digest)?;
    args.view.tell(&job, |output| output.line(format_args!("{} submitted.", job.name)))?;
    submit::after(&client, &job.name, &job.uid, args.follow, args.wait)
}
