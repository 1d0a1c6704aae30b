//! `paddlecloud why`: what a job waits for, or why it failed, in one sentence.

use crate::args::Globals;
use crate::cloud::connect;
use crate::view::View;
use cli::output::Output;
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
    let mut output = Output::open();
    match args.view.is_table() {
        true => {
            output.line(format_args!("{}: {}", why.state, why.sentence))?;
            for note in &why.notes {
                output.line(format_args!("note: {note}"))?;
            }
        }
        false => args.view.print(&mut output, &why, |_| unreachable!("no table"))?,
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
