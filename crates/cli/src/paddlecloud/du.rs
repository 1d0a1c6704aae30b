//! `paddlecloud du`: how much is below a path.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use cli::output::Output;
use cli::size::human;
use contract::Result;
use std::process::ExitCode;

/// Show how much room files take
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories, files or patterns [default: your home]
    #[arg(value_name = "PFSPATH")]
    paths: Vec<String>,
    /// In bytes
    #[arg(short, long)]
    bytes: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let paths = match args.paths.is_empty() {
        true => vec![client.home()?.to_string()],
        false => args.paths.clone(),
    };
    let mut output = Output::open();
    let mut rows = Vec::new();
    for text in &paths {
        for entry in client.expand(text)? {
            let usage = client.disk_usage(&client::listed(&entry)?)?;
            let size = if args.bytes { usage.bytes.to_string() } else { human(usage.bytes) };
            rows.push(vec![
                size,
                usage.files.to_string(),
                usage.directories.to_string(),
                pfs::shown(&entry.path),
            ]);
        }
    }
    output.table(&["SIZE", "FILES", "DIRECTORIES", "PATH"], &rows)?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
