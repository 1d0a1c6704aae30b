//! `paddlecloud file`: the original's simple file operations, with its rules about slashes.

use crate::args::Globals;
use crate::cloud::connect;
use crate::cp;
use crate::moving::MovingArgs;
use crate::pfs;
use cli::output::Output;
use client::{Client, Direction, Item, LocalFile, Plan};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Simple file operations.
///
///   paddlecloud file put SRC DEST
///   paddlecloud file get SRC [DEST]
///   paddlecloud file ls [PATH]
///
/// put: SRC is below the current directory. With a slash at its end the files in it are put into
/// DEST; without, the directory itself is. DEST is in your home, /pfs/DATACENTER/home/USER.
/// get: DEST must not be there, or be a directory.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Simple file operations.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Upload a file or directory
    Put {
        /// Below the current directory
        #[arg(value_name = "SRC")]
        from: String,
        /// A directory in your home; it is made if it is not there
        #[arg(value_name = "DEST")]
        to: String,
        #[command(flatten)]
        moving: MovingArgs,
    },
    /// Download a file or directory
    Get {
        /// A file or directory in the cloud
        #[arg(value_name = "SRC")]
        from: String,
        /// Where it goes [default: the current directory]
        #[arg(value_name = "DEST")]
        to: Option<String>,
        #[command(flatten)]
        moving: MovingArgs,
    },
    /// Print the names in a directory
    Ls {
        /// The directory [default: your home]
        #[arg(value_name = "PATH")]
        path: Option<String>,
    },
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Put { from, to, moving } => {
            let current = std::env::current_dir()
                .map_err(|source| Error::io("there is no current directory", source))?;
            let source = check_source(from, &current)?;
            put(&connect(globals)?, from, &source, to, moving)
        }
        Action::Get { from, to, moving } => {
            get(&connect(globals)?, from, to.as_deref().unwrap_or("./"), moving)
        }
        Action::Ls { path } => list(&connect(globals)?, path.as_deref()),
    }
}

fn put(
    client: &Client,
    from: &str,
    source: &Path,
    to: &str,
    moving: &MovingArgs,
) -> Result<ExitCode> {
    let options = moving.options()?;
    let target = check_destination(client, to)?;
    let file = LocalFile::named(source)?;
    let mut plan = Plan::default();
    match (file.is_directory, from.ends_with('/')) {
        (false, true) => {
            return Err(Error::invalid("this is a file: leave out the slash").with("src", from));
        }
        (false, false) => {
            plan.items.push(Item::up(&file, target.join(&client::name_of(source)?)?));
        }
        (true, true) => {
            client.check_no_file(&target)?;
            client.add_tree(&mut plan, source, &target)?;
        }
        (true, false) => {
            let place = target.join(&client::name_of(source)?)?;
            client.check_no_file(&place)?;
            client.add_tree(&mut plan, source, &place)?;
        }
    }
    cp::carry_out(client, plan, moving, &options)
}

fn get(client: &Client, from: &str, to: &str, moving: &MovingArgs) -> Result<ExitCode> {
    let options = moving.options()?;
    let source = client.pfs_path(from)?;
    let entry = client.stat(&source)?;
    let target = PathBuf::from(to);
    let target = match to.ends_with('/') || target.is_dir() {
        true => target.join(client::local_name(entry.name())?),
        false => target,
    };
    if target.symlink_metadata().is_ok() {
        let message = "there is something already: remove it, or use `paddlecloud cp`";
        return Err(Error::new(Kind::AlreadyExists, message).with("file", target.display()));
    }
    let mut plan = Plan { direction: Direction::Down, ..Plan::default() };
    match entry.is_directory() {
        false => plan.items.push(Item::down(&entry, target)?),
        true => client.collect(&mut plan, &entry, &target)?,
    }
    cp::carry_out(client, plan, moving, &options)
}

fn list(client: &Client, path: Option<&str>) -> Result<ExitCode> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => client.home()?.to_string(),
    };
    let mut output = Output::open();
    for entry in client.list_path(&path, false)? {
        output.line(pfs::shown(entry.name()))?;
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The source, if it is below the current directory as it is written.
fn check_source(text: &str, current: &Path) -> Result<PathBuf> {
    let refuse = |why: &str| Err(Error::invalid(format!("src {why}")).with("src", text));
    if text.is_empty() {
        return refuse("is empty: name a file or directory below the current one");
    }
    let path = Path::new(text);
    if path.components().any(|component| component == Component::ParentDir) {
        return refuse("must be below the current directory: ../ is not allowed");
    }
    if path.is_absolute() && !path.starts_with(current) {
        return refuse(
            "must be below the current directory: go there first, or use `paddlecloud cp`",
        );
    }
    Ok(path.to_owned())
}

fn check_destination(client: &Client, text: &str) -> Result<PfsPath> {
    let home = client.home()?;
    let refuse = || {
        let message = format!("dest must be in your home: {home}/…");
        Error::invalid(message).with("dest", text)
    };
    let path = client.pfs_path(text).map_err(|error| refuse().because(error))?;
    match path.owner() == home.owner() {
        true => Ok(path),
        false => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_below_the_current_directory() {
        let check = |text: &str| check_source(text, Path::new("/data/here"));
        for text in ["a", "./a", "a/b/", ".", "/data/here/a", "..a", "a..b"] {
            assert!(check(text).is_ok(), "{text}");
        }
        for text in ["", "..", "../a", "a/../b", "a/..", "/etc/passwd", "/data/here/../x"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
