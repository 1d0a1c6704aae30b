//! `paddlecloud cat`: files on standard output.

use crate::args::Globals;
use crate::cloud::connect;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// Print files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files or patterns
    #[arg(value_name = "PFSPATH", required = true)]
    paths: Vec<String>,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let mut output = Output::open();
    for text in &args.paths {
        for entry in client.expand(text)? {
            client.read_file(&client::listed(&entry)?, |piece| output.bytes(piece))?;
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
