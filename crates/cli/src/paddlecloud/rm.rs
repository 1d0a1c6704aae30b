//! `paddlecloud rm`: removes files.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use cli::output::Output;
use contract::api::file::RemoveQuery;
use contract::{Error, Kind, Result};
use std::process::ExitCode;

/// rm files on PaddlePaddle Cloud
///
/// Patterns are expanded in the cloud: quote them.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "rm files on PaddlePaddle Cloud")]
pub(crate) struct Args {
    /// Files, directories or patterns
    #[arg(value_name = "PFSPATH", required = true)]
    paths: Vec<String>,
    /// Directories with everything in them
    #[arg(short, long, alias = "R")]
    recursive: bool,
    /// What is not there is no error
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let mut output = Output::open();
    let mut failures = Vec::new();
    let mut count = 0;
    for text in &args.paths {
        let entries = match client.expand(text) {
            Err(error) if args.force && error.kind() == Kind::NotFound => continue,
            Err(error) => {
                count += 1;
                failures.push((text.clone(), error));
                continue;
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            count += 1;
            if entry.is_directory() && !args.recursive {
                let message = "this is a directory: use -r to remove everything in it";
                failures.push((entry.path.clone(), Error::invalid(message)));
                continue;
            }
            let query = RemoveQuery { path: entry.path.clone(), is_recursive: args.recursive };
            match client.remove(&query) {
                Ok(()) => output.line(format_args!("rm {}", pfs::shown(&entry.path)))?,
                Err(error) => failures.push((entry.path, error)),
            }
        }
    }
    output.close()?;
    pfs::fail(failures, "removed", count)?;
    Ok(ExitCode::SUCCESS)
}
