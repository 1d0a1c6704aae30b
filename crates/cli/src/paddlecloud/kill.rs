//! `paddlecloud kill`: ends a job.

use crate::args::Globals;
use crate::cloud::{connect, say};
use cli::output::Output;
use contract::Result;
use contract::api::job::Kill;
use contract::state::State;
use std::process::ExitCode;

/// Stop the job. -rm will remove the job from history.
///
/// Its workers are asked to end, which may take them a while; the command does not wait for it
/// unless -wait is given. `paddlecloud get workers JOB` shows which are left.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Stop the job. -rm will remove the job from history.")]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// Remove it from history when it has ended
    #[arg(long)]
    rm: bool,
    /// Kill its workers at once
    #[arg(long)]
    force: bool,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    // Removed at the end of the wait, or there would be nothing to wait for.
    let kill = Kill { is_forced: args.force, remove: args.rm && !args.wait };
    let before = client.job(&args.job)?.job;
    let mut job = client.kill(&before.uid, &kill)?;
    if args.wait {
        job = client.wait(&job.uid, None, |_| Ok(()))?.job;
        if args.rm {
            client.delete_job(&job.uid)?;
        }
    }
    let mut output = Output::open();
    match (before.state.is_final(), args.rm) {
        (false, _) => output.line(format_args!("{}: {}", job.name, job.state))?,
        (true, false) => {
            output.line(format_args!("{} had ended already: {}", job.name, job.state))?;
        }
        (true, true) => output.line(format_args!(
            "{} had ended already: {}, and is removed from history",
            job.name, job.state
        ))?,
    }
    output.close()?;
    if !job.state.is_final() {
        say(&format!("its workers are ending: `paddlecloud get workers {}`", job.name));
    }
    Ok(ExitCode::SUCCESS)
}
