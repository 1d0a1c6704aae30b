//! `paddlecloud wait`: until a job has ended.

use crate::args::Globals;
use crate::cloud::{connect, say};
use cli::output::Output;
use contract::Result;
use contract::api::job::JobDetail;
use contract::state::JobState;
use std::process::ExitCode;
use std::time::Duration;

/// Wait until a job has ended; the exit code tells how
///
/// 0 if it has succeeded, 1 if it failed or was killed, or did not end in time. The server may be
/// away for some minutes meanwhile.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// Give up after this time, such as 90m [default: never]
    #[arg(long, value_name = "TIME", value_parser = cli::duration::parse)]
    timeout: Option<Duration>,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let mut shown = None;
    let detail = client.wait(&args.job, args.timeout, |detail| {
        let line = (detail.job.state, detail.job.reason.clone());
        if shown.as_ref() != Some(&line) && detail.job.ended_ms.is_none() {
            let (state, reason) = &line;
            let separator = if reason.is_empty() { "" } else { ": " };
            say(&format!("{state}{separator}{reason}"));
            shown = Some(line);
        }
        Ok(())
    })?;
    tell(&detail)
}

/// How a job has ended, in a line and as the exit code.
pub(crate) fn tell(detail: &JobDetail) -> Result<ExitCode> {
    let job = &detail.job;
    let mut output = Output::open();
    output.line(format_args!("{}: {}", job.name, job.state))?;
    output.close()?;
    if job.state == JobState::Succeeded {
        return Ok(ExitCode::SUCCESS);
    }
    if !job.reason.is_empty() {
        say(&job.reason);
    }
    Ok(ExitCode::FAILURE)
}
