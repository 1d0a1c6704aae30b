//! `paddlecloud stat`: everything about a file.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use crate::view::{Table, View};
use contract::Result;
use contract::api::file::Entry;
use std::process::ExitCode;

/// Show what is at a path
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, directories or patterns
    #[arg(value_name = "PFSPATH", required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let found = args.paths.iter().map(|path| client.expand(path));
    let found: Vec<Entry> = found.collect::<Result<Vec<_>>>()?.concat();
    args.view.show(&found, |found| table(found))?;
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &[Entry]) -> Table {
    let row = |entry: &Entry| {
        vec![
            pfs::letter(entry.kind).to_string(),
            format!("{:03o}", entry.mode),
            entry.bytes.to_string(),
            cli::time::moment(entry.modified_ms),
            pfs::shown(&entry.path),
            entry.etag.clone(),
        ]
    };
    Table {
        header: &["KIND", "MODE", "BYTES", "MODIFIED", "PATH", "ETAG"],
        narrow: 5,
        rows: entries.iter().map(row).collect(),
    }
}
