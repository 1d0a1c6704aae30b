//! `paddlecloud sync`: makes a directory like another one, in either direction.

use crate::args::Globals;
use crate::cloud::{connect, profile, say};
use crate::cp;
use crate::moving::MovingArgs;
use crate::pfs;
use cli::output::Output;
use client::{Client, Direction, Item, LocalFile, Plan};
use contract::api::file::{Entry, EntryKind, RemoveQuery};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

/// Make a directory in the cloud like one here, or the other way round
///
///   paddlecloud sync ./data /pfs/DATACENTER/home/USER/data
///   paddlecloud sync /pfs/DATACENTER/home/USER/models ./models
///
/// Files whose length and time of change are the same are left alone.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Make a directory like another one, here or in the cloud")]
pub(crate) struct Args {
    /// The directory that is as it should be
    #[arg(value_name = "SRC")]
    from: String,
    /// The directory that becomes like it
    #[arg(value_name = "DEST")]
    to: String,
    /// Remove from DEST what is not in SRC
    #[arg(long)]
    delete: bool,
    /// Print what would be done, and do nothing
    #[arg(long = "dry-run", alias = "dry_run", short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    moving: MovingArgs,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let options = args.moving.options()?;
    match (client::is_cloud(&args.from), client::is_cloud(&args.to)) {
        (false, true) => {
            let client = connect(globals)?;
            let target = client.pfs_path(&args.to)?;
            upload(&client, args, Path::new(&args.from), &target, &options)
        }
        (true, false) => {
            let to = Path::new(&args.to);
            if to.exists() {
                check_directory(to)?;
            }
            if args.delete {
                check_no_home(to, &profile(globals)?.home)?;
            }
            let client = connect(globals)?;
            let source = client.pfs_path(&args.from)?;
            download(&client, args, &source, to, &options)
        }
        _ => {
            let message = "one of the two is in the cloud, where paths begin with /pfs/, and the \
                           other is here";
            Err(Error::invalid(message))
        }
    }
}

fn upload(
    client: &Client,
    args: &Args,
    from: &Path,
    to: &PfsPath,
    options: &client::Options,
) -> Result<ExitCode> {
    check_directory(from)?;
    if args.delete && to.file_name().is_none() {
        let message = "--delete would remove everything else that is here, such as what jobs have \
                       written: name a directory in it";
        return Err(Error::invalid(message).with("path", to));
    }
    let mut plan = Plan::default();
    client.add_tree(&mut plan, from, to)?;
    let (there, nameless) = remote(client, to)?;
    let is_same = |item: &Item| {
        there.get(&item.path).is_some_and(|entry| {
            entry.kind == EntryKind::File
                && entry.bytes == item.bytes
                && Some(entry.modified_ms) == item.modified_ms
        })
    };
    let mut kept: BTreeSet<PfsPath> = plan.cloud_directories.iter().cloned().collect();
    // What is a link here is no link there, but what an earlier copy may have made of it: it stays.
    let copied = plan.items.iter().map(|item| &item.path).chain(&plan.cloud_directories);
    for path in copied.chain(&plan.left_out) {
        kept.insert(path.clone());
        let mut above = path.parent();
        while let Some(directory) = above {
            above = directory.parent();
            kept.insert(directory);
        }
    }
    let files: BTreeSet<&PfsPath> = plan.items.iter().map(|item| &item.path).collect();
    let is_left_out = |path: &PfsPath| {
        plan.left_out.iter().any(|out| path.components().starts_with(out.components()))
    };
    let is_stale = |path: &PfsPath, found: &Entry| {
        let is_of_another_kind = found.is_directory() == files.contains(path);
        !is_left_out(path) && (!kept.contains(path) || is_of_another_kind)
    };
    let stale = there.iter().filter(|(path, found)| is_stale(path, found));
    let stale: Vec<&PfsPath> = stale.map(|(path, _)| path).collect();
    plan.items.retain(|item| !is_same(item));
    let is_there = |path: &PfsPath| there.get(path).is_some_and(Entry::is_directory);
    plan.cloud_directories
        .retain(|directory| !is_there(directory) && directory != to || there.is_empty());
    let may_delete = may_delete(args, &plan);
    let stale = if may_delete { tops(stale) } else { Vec::new() };
    if may_delete {
        // What no path can name cannot be removed by itself.
        let goes = |name: &str| stale.iter().any(|top| name.starts_with(&format!("{top}/")));
        plan.failures.extend(nameless.into_iter().filter(|(name, _)| !goes(name)));
    }
    if args.dry_run {
        let lines = plan.items.iter().map(|item| format!("upload {}", item.path));
        let removals = stale.iter().map(|path| format!("remove {path}"));
        return print(lines.chain(removals), &plan.failures);
    }
    // What is in the way, such as a directory where a file is to be, goes first.
    for path in &stale {
        client.remove(&RemoveQuery { path: path.to_string(), is_recursive: true })?;
        say(&format!("removed {path}"));
    }
    cp::carry_out(client, plan, &args.moving, options)
}

fn download(
    client: &Client,
    args: &Args,
    from: &PfsPath,
    to: &Path,
    options: &client::Options,
) -> Result<ExitCode> {
    let top = client.stat(from)?;
    if !top.is_directory() {
        let message = "this is no directory: use cp for files";
        return Err(Error::invalid(message).with("path", from));
    }
    let mut plan = Plan { direction: Direction::Down, ..Plan::default() };
    client.collect(&mut plan, &top, to)?;
    let mut stale = Vec::new();
    if may_delete(args, &plan) && to.exists() {
        let kept: BTreeMap<&Path, bool> = plan
            .items
            .iter()
            .map(|item| (item.local.as_path(), false))
            .chain(plan.local_directories.iter().map(|path| (path.as_path(), true)))
            .collect();
        let mut unread = None;
        let fail = &mut |path: &Path, error: Error| {
            unread.get_or_insert(error.with("path", path.display()));
        };
        let files = client::walk(to, &mut |path| stale.push(path.to_owned()), fail);
        if let Some(error) = unread {
            return Err(error);
        }
        let is_wanted =
            |file: &LocalFile| kept.get(file.path.as_path()) == Some(&file.is_directory);
        stale.extend(files.into_iter().filter(|file| !is_wanted(file)).map(|file| file.path));
    }
    plan.items.retain(|item| !is_current(item));
    // What has arrived of a file that is still wanted.
    stale.retain(|path| !plan.items.iter().any(|item| client::is_download_to(path, &item.local)));
    if args.dry_run {
        let lines = plan.items.iter().map(|item| format!("download {}", item.local.display()));
        let removals = stale.iter().map(|path| format!("remove {}", path.display()));
        return print(lines.chain(removals), &plan.failures);
    }
    // Contents before their directories.
    for path in stale.iter().rev() {
        let removed = match path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
        match removed {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("cannot remove", source).with("file", path.display()));
            }
            _ => say(&format!("removed {}", path.display())),
        }
    }
    cp::carry_out(client, plan, &args.moving, options)
}

/// Whether what is not at the source is removed. What could not be looked at there may be.
fn may_delete(args: &Args, plan: &Plan) -> bool {
    let is_known = plan.failures.is_empty();
    if args.delete && !is_known {
        say("nothing is removed, because not all of the source can be read");
    }
    args.delete && is_known
}

/// What cannot be copied or removed, by name, and why.
type Failures = Vec<(String, Error)>;

/// What is below a directory that may not be there yet, and what there has a name that no path can
/// have.
fn remote(client: &Client, top: &PfsPath) -> Result<(BTreeMap<PfsPath, Entry>, Failures)> {
    let mut nameless = Failures::new();
    match client.find(top)? {
        None => Ok((BTreeMap::new(), nameless)),
        Some(entry) if !entry.is_directory() => {
            Err(Error::invalid("this is a file, and no directory").with("path", top))
        }
        Some(_) => {
            let named = client.named_below(top, &mut nameless)?;
            Ok((named.into_iter().map(|(entry, path)| (path, entry)).collect(), nameless))
        }
    }
}

/// Paths without those that go with a directory above them.
fn tops(paths: Vec<&PfsPath>) -> Vec<PfsPath> {
    let mut tops: Vec<PfsPath> = Vec::new();
    for path in paths {
        let is_below = tops.last().is_some_and(|top| {
            path.components().starts_with(top.components()) && path.owner() == top.owner()
        });
        if !is_below {
            tops.push(path.clone());
        }
    }
    tops
}

fn is_current(item: &Item) -> bool {
    let Ok(found) = item.local.symlink_metadata() else { return false };
    let modified = found.modified().ok();
    let ms = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let ms = ms.and_then(|at| u64::try_from(at.as_millis()).ok());
    found.is_file() && found.len() == item.bytes && ms == item.modified_ms
}

fn check_directory(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => {
            Err(Error::invalid("this is no directory: use cp for files")
                .with("path", path.display()))
        }
        Err(source) => {
            let kind = source.kind();
            let error = Error::io("cannot read the directory", source).with("path", path.display());
            debug_assert!(kind != std::io::ErrorKind::NotFound || error.kind() == Kind::NotFound);
            Err(error)
        }
    }
}

/// Refuses to remove what is beside the files of the cloud in somebody's home directory, or in one
/// that it is in.
fn check_no_home(to: &Path, home: &Path) -> Result<()> {
    match (to.canonicalize(), home.canonicalize()) {
        (Ok(real), Ok(home)) if home.starts_with(&real) => {
            let message = "--delete would remove everything else of your home directory: name a \
                           directory in it";
            Err(Error::invalid(message).with("path", to.display()))
        }
        // One that is not there yet has nothing to be removed.
        _ => Ok(()),
    }
}

/// What would be done, and what cannot be.
fn print(lines: impl Iterator<Item = String>, failures: &Failures) -> Result<ExitCode> {
    let mut output = Output::open();
    for line in lines {
        output.line(pfs::shown(&line))?;
    }
    output.close()?;
    for (name, error) in failures {
        say(&format!("would fail: {}: {}", pfs::shown(name), error.chain()));
    }
    match failures.len() {
        0 => Ok(ExitCode::SUCCESS),
        count => {
            let message = format!("{count} of what is there cannot be copied: see above");
            Err(Error::new(Kind::Io, message))
        }
    }
}
