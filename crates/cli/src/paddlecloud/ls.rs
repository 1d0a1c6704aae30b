//! `paddlecloud ls`: lists files, in the original's form.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use crate::view::{Form, Table, View};
use cli::output::Output;
use contract::Result;
use contract::api::file::Entry;
use std::process::ExitCode;

/// List files on PaddlePaddle Cloud
///
///   paddlecloud ls [-r] /pfs/DATACENTER/home/USER/DIRECTORY...
///
/// Times are in UTC. Patterns are expanded in the cloud: quote them.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "List files on PaddlePaddle Cloud")]
pub(crate) struct Args {
    /// Directories, files or patterns [default: your home]
    #[arg(value_name = "PFSPATH")]
    paths: Vec<String>,
    /// Everything below, too
    #[arg(short, long, alias = "R")]
    recursive: bool,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let paths = match args.paths.is_empty() {
        true => vec![client.home()?.to_string()],
        false => args.paths.clone(),
    };
    let mut output = Output::open();
    let mut all = Vec::new();
    for path in &paths {
        let mut entries = client.list_path(path, args.recursive)?;
        if args.view.form != Form::Text {
            all.append(&mut entries);
            continue;
        }
        output.line(format_args!("{path} :"))?;
        let width = entries.iter().map(|entry| entry.bytes.to_string().len()).max().unwrap_or(0);
        for entry in &entries {
            output.line(format_args!(
                "{} {} {:>width$} {}",
                time(entry.modified_ms),
                pfs::letter(entry.kind),
                entry.bytes,
                pfs::shown(&entry.path),
            ))?;
        }
        output.line("")?;
    }
    if args.view.form != Form::Text {
        args.view.print(&mut output, &all, |all| table(all))?;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &[Entry]) -> Table {
    let row = |entry: &Entry| {
        vec![
            time(entry.modified_ms),
            pfs::letter(entry.kind).to_string(),
            format!("{:03o}", entry.mode),
            entry.bytes.to_string(),
            pfs::shown(&entry.path),
        ]
    };
    Table {
        header: &["MODIFIED", "KIND", "MODE", "BYTES", "PATH"],
        narrow: 5,
        rows: entries.iter().map(row).collect(),
    }
}

/// `2017-05-24 07:52:45`, in UTC.
pub(crate) fn time(ms: u64) -> String {
    cli::time::moment(ms).replace('T', " ").replace('Z', "")
}
