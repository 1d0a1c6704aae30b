//! `paddlecloud tree`: what is below a directory, as a tree.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use cli::output::Output;
use cli::size::human;
use contract::api::file::Entry;
use contract::{Error, Result};
use std::process::ExitCode;

/// Show what is below a directory as a tree
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory [default: your home]
    #[arg(value_name = "PFSPATH")]
    path: Option<String>,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let top = match &args.path {
        Some(text) => client.pfs_path(text)?,
        None => client.home()?,
    };
    let found = client.find(&top)?;
    if found.is_some_and(|entry| !entry.is_directory()) {
        let message = "this is a file, and no directory: use ls or stat";
        return Err(Error::invalid(message).with("path", top));
    }
    let entries = client.below(&top)?;
    let mut output = Output::open();
    output.line(&top)?;
    for line in draw(&top.to_string(), &entries) {
        output.line(line)?;
    }
    let directories = entries.iter().filter(|entry| entry.is_directory()).count();
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let files = entries.len() - directories;
    output.line(format_args!("{directories} directories, {files} files, {}", human(bytes)))?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of a tree. Entries come in the order of a walk: a directory before what is in it.
fn draw(top: &str, entries: &[Entry]) -> Vec<String> {
    let depth = |entry: &Entry| entry.path[top.len()..].matches('/').count();
    let depths: Vec<usize> = entries.iter().map(depth).collect();
    let mut lines = vec![String::new(); entries.len()];
    // From the end: whether something of this depth follows in the same directory.
    let mut follows: Vec<bool> = Vec::new();
    for (at, entry) in entries.iter().enumerate().rev() {
        let depth = depths[at];
        follows.resize(depth + 1, false);
        let mut line = String::new();
        for more in &follows[1..depth] {
            line.push_str(if *more { "│   " } else { "    " });
        }
        line.push_str(if follows[depth] { "├── " } else { "└── " });
        line.push_str(&pfs::shown(entry.name()));
        match entry.is_directory() {
            true => line.push('/'),
            false => line.push_str(&format!("  {}", human(entry.bytes))),
        }
        follows[depth] = true;
        lines[at] = line;
    }
    lines
}
