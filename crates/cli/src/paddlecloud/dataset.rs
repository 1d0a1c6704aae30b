//! `paddlecloud dataset`: public data sets, for administrators.
//!
//! Files are sent as they are. Where none are given, Python's `paddle.cloud.dataset` makes them of
//! the data set of that name, split as its reader expects them.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::cp;
use crate::moving::MovingArgs;
use cli::output::Output;
use cli::python::interpreter;
use client::{Client, Item, LocalFile, Plan};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Fill public data sets (administrators)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Put files into /pfs/<datacenter>/public/dataset/NAME
    ///
    /// Without FILE, the data set NAME of paddle.v2.dataset, in files of 500 samples:
    /// train-00000.pickle and so on.
    #[command(verbatim_doc_comment)]
    Put {
        /// The data set, such as uci_housing
        #[arg(value_name = "NAME")]
        name: String,
        /// Files, or directories of files
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The Python that has paddle.v2.dataset [default: the one beside paddlecloud, else
        /// python3]
        #[arg(long, value_name = "COMMAND")]
        python: Option<PathBuf>,
        #[command(flatten)]
        moving: MovingArgs,
    },
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let Action::Put { name, files, python, moving } = &args.action;
    contract::name::check_queue(name).map_err(|_| {
        Error::invalid("a data set has letters, digits, `-`, `.` and `_`").with("name", name)
    })?;
    let client = connect(globals)?;
    // Before Python works for nothing.
    let user = client.whoami()?.user;
    if !user.is_admin {
        let message = "public data sets are filled by administrators";
        return Err(Error::new(Kind::Forbidden, message).with("user", user.username));
    }
    let made;
    let files = match files.is_empty() {
        false => list(files)?,
        true => {
            let python = python.clone().map_or_else(own_python, Ok)?;
            made = make(name, &python)?;
            list(&[made.path().to_owned()])?
        }
    };
    let datacenter = client.datacenter_name()?;
    let top = PfsPath::public(&datacenter)?.join(&format!("dataset/{name}"))?;
    put(&client, &top, &files, moving)?;
    let mut output = Output::open();
    output.line(format_args!("{top}: {} files", files.len()))?;
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

fn put(
    client: &Client,
    top: &PfsPath,
    files: &[(String, PathBuf)],
    moving: &MovingArgs,
) -> Result<ExitCode> {
    let mut plan = Plan::default();
    for (name, file) in files {
        plan.items.push(Item::up(&LocalFile::named(file)?, top.join(name)?));
    }
    cp::carry_out(client, plan, moving, &moving.options()?)
}

/// The files, and those of the directories, with the names that they get.
fn list(paths: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for path in paths {
        let refused = |source| Error::io("cannot read", source).with("file", path.display());
        match std::fs::metadata(path).map_err(refused)?.is_dir() {
            false => files.push((name_of(path)?, path.clone())),
            true => {
                for entry in std::fs::read_dir(path).map_err(refused)? {
                    let file = entry.map_err(refused)?.path();
                    if !std::fs::metadata(&file).map_err(refused)?.is_file() {
                        let message = "a data set is a list of files, and this is none: name files, \
                                       or a directory that has only files";
                        return Err(Error::invalid(message).with("file", file.display()));
                    }
                    files.push((name_of(&file)?, file));
                }
            }
        }
    }
    files.sort();
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::invalid("two files have the same name").with("name", &pair[0].0));
    }
    match files.is_empty() {
        true => Err(Error::invalid("there is no file: name some, or a directory of them")),
        false => Ok(files),
    }
}

fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let refuse = || Error::invalid("the name of a file is no UTF-8").with("file", path.display());
    name.map(str::to_owned).ok_or_else(refuse)
}

/// The Python that this command was installed with.
fn own_python() -> Result<PathBuf> {
    let program = std::env::current_exe()
        .map_err(|source| Error::io("cannot find the program itself", source))?;
    Ok(interpreter(&program))
}

/// Lets Python write the files of a data set.
fn make(name: &str, python: &Path) -> Result<Made> {
    let folder = std::env::temp_dir().join(format!("paddlecloud-dataset-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|source| {
        Error::io("cannot make a directory", source).with("directory", folder.display())
    })?;
    let made = Made(folder);
    say(&format!("making {name} by {}", python.display()));
    let status = Command::new(python)
        // Without -P a file paddle.py in the current directory would hide the package.
        .args(["-P", "-m", "paddle.cloud.dataset", name])
        .arg(made.path())
        .status()
        .map_err(|source| {
            Error::io("cannot start Python: name one by -python", source)
                .with("python", python.display())
        })?;
    match status.success() {
        true => Ok(made),
        false => {
            let message = "Python could not make the data set: see above, or name files";
            Err(Error::new(Kind::Io, message).with("name", name))
        }
    }
}

/// A directory that is removed at the end.
struct Made(PathBuf);

impl Made {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
