//! `paddlecloud mkdir`: makes directories.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use cli::output::Output;
use contract::Result;
use std::process::ExitCode;

/// mkdir directoies on PaddlePaddle Cloud
///
/// Directories above are made too; one that is there is no error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "mkdir directoies on PaddlePaddle Cloud")]
pub(crate) struct Args {
    /// The directories
    #[arg(value_name = "PFSPATH", required = true)]
    paths: Vec<String>,
    /// Taken for the sake of habit: directories above are always made
    #[arg(short, hide = true)]
    parents: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let mut output = Output::open();
    let mut failures = Vec::new();
    for text in &args.paths {
        match client.pfs_path(text).and_then(|path| client.make_directory(&path)) {
            Ok(_) => output.line(format_args!("mkdir {text}"))?,
            Err(error) => failures.push((text.clone(), error)),
        }
    }
    output.close()?;
    pfs::fail(failures, "made", args.paths.len())?;
    Ok(ExitCode::SUCCESS)
}
