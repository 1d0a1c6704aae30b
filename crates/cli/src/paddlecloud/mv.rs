//! `paddlecloud mv`: gives files of the cloud other names.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use cli::output::Output;
use contract::api::file::Relocate;
use contract::{Error, Kind, Result};
use std::process::ExitCode;

/// Move or rename files inside the cloud
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sources, then the destination
    #[arg(value_name = "PFSPATH", required = true, num_args = 2..)]
    paths: Vec<String>,
    /// Do not replace files that are there
    #[arg(short = 'n', long = "no-clobber")]
    no_clobber: bool,
    /// Print every file
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    if let Some(local) = args.paths.iter().find(|path| !client::is_cloud(path)) {
        let message = "mv works inside the cloud, where paths begin with /pfs/: use cp, then rm";
        return Err(Error::invalid(message).with("path", local));
    }
    let Some((to, sources)) = args.paths.split_last() else {
        return Err(Error::invalid("what is moved where? write `paddlecloud mv SRC DEST`"));
    };
    let client = connect(globals)?;
    let target = client.pfs_path(to)?;
    let found = sources.iter().map(|source| client.expand(source));
    let found = found.collect::<Result<Vec<_>>>()?.concat();
    let there = client.find(&target)?;
    let is_directory = there.as_ref().is_some_and(contract::api::file::Entry::is_directory);
    let is_into = is_directory || (there.is_none() && client::ends_as_directory(to));
    if found.len() > 1 && !is_into {
        let message = "several files cannot become one: the destination must be a directory";
        return Err(Error::invalid(message).with("destination", to));
    }
    let mut output = Output::open();
    let mut failures = Vec::new();
    for entry in &found {
        let place = if is_into { target.join(entry.name())? } else { target.clone() };
        let asked = Relocate {
            from: entry.path.clone(),
            to: place.to_string(),
            if_absent: args.no_clobber,
        };
        match client.rename(&asked) {
            Ok(_) if args.verbose => {
                output.line(format_args!("{} -> {place}", pfs::shown(&entry.path)))?;
            }
            Ok(_) => {}
            // It names the destination; the source is said beside it.
            Err(error) if error.kind() == Kind::AlreadyExists => {
                let message = format!("there is something already at {place}");
                failures.push((entry.path.clone(), Error::new(error.kind(), message)));
            }
            Err(error) => failures.push((entry.path.clone(), error)),
        }
    }
    output.close()?;
    pfs::fail(failures, "moved", found.len())?;
    Ok(ExitCode::SUCCESS)
}
