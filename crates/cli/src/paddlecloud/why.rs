//! `paddlecloud why`: what a job waits for, or why it failed, in one sentence.

use crate::args::Globals;
use crate::cloud::connect;
use crate::view::View;
use contract::Result;
use std::process::ExitCode;

/// Say what a job waits for, or why it failed
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let why = connect(globals)?.why(&args.job)?;
    args.view.tell(&why, |output| {
        output.line(format_args!("{}: {}", why.state, why.sentence))?;
        why.notes.iter().try_for_each(|note| output.line(format_args!("note: {note}")))
    })?;
    Ok(ExitCode::SUCCESS)
}
