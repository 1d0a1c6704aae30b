//! A job's directory on a host: copied there, complete or not at all, and given what programs look
//! for in it.
//!
//! A package is first brought to a mirror, which stays between jobs, so that only what changed is
//! sent. The job's directory is a copy of the mirror under a hidden name, checked, and renamed when
//! it is complete: a program never runs in half a package.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use contract::{Error, Kind, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Duration, Instant, sleep};

use super::super::earlier;
use super::super::message::{self, Package, Prepare, Reply};
use super::super::package::{Manifest, expand};
use super::super::transfer::{self, prune, shape};
use crate::jobs::check::no_topology;
use crate::supervisor::guard;

/// How long another launch may have its turn at a mirror. Less than the conductor waits for us.
const TURN: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);
const LIST: &str = "train.list";
/// Where the whole list is kept, so that it can be shared out again.
const WHOLE_LIST: &str = "train.list.all";

/// Makes the job's directory and returns its path.
pub(super) async fn prepare(
    request: &Prepare,
    home: &Path,
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<PathBuf> {
    let directory = expand(&request.directory, home);
    let Some(package) = &request.package else {
        if !directory.is_dir() {
            let message = "the workspace is not there: deploy it, or let --job_dispatch_package \
                           copy it";
            let error = Error::new(Kind::NotFound, message);
            return Err(error.with("job_workspace", directory.display()));
        }
        check_topology(&directory, request)?;
        if !request.is_again {
            // Another job that runs here keeps its logs, and the files by which it knows itself.
            let _lock = guard::take_lock(&directory.join(guard::LOCK)).await?;
            furnish(&directory, request)?;
        }
        return Ok(directory);
    };
    if request.is_again && directory.is_dir() {
        // It appeared complete, by a rename.
        return Ok(directory);
    }
    let mirror = expand(&package.mirror, home);
    let _lock = lock(&mirror).await?;
    update(&mirror, package, input, output).await?;
    check_topology(&mirror, request)?;
    let pending = pending(&directory, request.is_again)?;
    copy(&mirror, &pending, &package.manifest)?;
    // Old logs that came with the package.
    transfer::remove(&pending.join(&request.log_dir))?;
    furnish(&pending, request)?;
    fs::rename(&pending, &directory).map_err(|source| {
        Error::io("cannot publish the job's directory", source)
            .with("directory", directory.display())
    })?;
    Ok(directory)
}

/// Two launches of one package take turns at its mirror.
async fn lock(mirror: &Path) -> Result<fs::File> {
    let path = mirror.with_extension("lock");
    let refused = |source| Error::io("cannot use ROOT_DIR", source).with("file", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(refused)?;
    }
    let file = fs::File::create(&path).map_err(refused)?;
    let deadline = Instant::now() + TURN;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(LOOK).await,
            Err(Errno::WOULDBLOCK) => {
                let message = "another launch copies the same package to this host and does not \
                               end: end it, or give the job another name";
                return Err(Error::new(Kind::Conflict, message)
                    .with("file", path.display())
                    .with("seconds", TURN.as_secs()));
            }
            Err(errno) => return Err(refused(errno.into())),
        }
    }
}

async fn update(
    mirror: &Path,
    package: &Package,
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<()> {
    let manifest = &package.manifest;
    manifest.check()?;
    shape(mirror, manifest)?;
    prune(mirror, manifest)?;
    let paths = manifest.files_missing_in(&Manifest::scan(mirror, &[])?);
    message::write(output, &Reply::Needed { paths: paths.clone() }).await?;
    transfer::receive(mirror, manifest, &paths, input).await
}

/// The hidden neighbour of a job's directory, made for this job alone.
fn pending(directory: &Path, is_again: bool) -> Result<PathBuf> {
    let refused = |source| {
        Error::io("cannot make the job's directory", source).with("directory", directory.display())
    };
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let pending = directory.with_file_name(format!(".{name}.pending"));
    if is_again {
        // Left by a conductor that was killed while it copied.
        transfer::remove(&pending)?;
    }
    let is_there = directory.exists();
    match fs::create_dir(&pending) {
        Ok(()) if !is_there => Ok(pending),
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => Err(refused(source)),
        Ok(()) | Err(_) => {
            let message = "the job's directory is there already: hosts must not share ROOT_DIR";
            Err(Error::invalid(message).with("directory", directory.display()))
        }
    }
}

fn copy(mirror: &Path, target: &Path, manifest: &Manifest) -> Result<()> {
    transfer::copy(mirror, target, manifest)?;
    if Manifest::scan(target, &[])? == *manifest {
        return Ok(());
    }
    Err(Error::new(Kind::Damaged, "the copy differs from the package: is the disk all right?")
        .with("directory", target.display()))
}

fn check_topology(directory: &Path, request: &Prepare) -> Result<()> {
    let topology = &request.topology;
    match topology.is_empty() || directory.join(topology).is_file() {
        true => Ok(()),
        false => Err(no_topology(topology).with("directory", directory.display())),
    }
}

/// Gives a workspace what its programs look for.
fn furnish(directory: &Path, request: &Prepare) -> Result<()> {
    let write = |name: &str, text: String| {
        fs::write(directory.join(name), text).map_err(|source| {
            Error::io("cannot write into the workspace", source).with("file", name)
        })
    };
    let log_dir = directory.join(&request.log_dir);
    match log_dir.symlink_metadata().map(|found| found.file_type()) {
        // A link that an earlier job has made may lead anywhere.
        Ok(kind) if kind.is_symlink() => transfer::remove(&log_dir)?,
        Ok(kind) if !kind.is_dir() => {
            let message = "the folder for logs is a file: choose another with log_dir";
            return Err(Error::invalid(message).with("path", log_dir.display()));
        }
        Ok(_) => earlier::forget(&log_dir)?,
        Err(_) => {}
    }
    fs::create_dir_all(&log_dir).map_err(|source| {
        Error::io("cannot make the folder for logs", source).with("path", log_dir.display())
    })?;
    // Programs that write no such log of their own have it under the name that people know.
    let link = log_dir.join("paddle_trainer.INFO");
    symlink("train.log", &link)
        .map_err(|source| Error::io("cannot link a log", source).with("path", link.display()))?;
    write("nodefile", format!("{}\n", request.node))?;
    write("trainer_id", format!("{}\n", request.node))?;
    write("trainer_count", format!("{}\n", request.trainers))?;
    if !request.shard_train_list {
        return Ok(());
    }
    let whole = [WHOLE_LIST, LIST].map(|name| fs::read_to_string(directory.join(name)));
    let Some(whole) = whole.into_iter().find_map(std::result::Result::ok) else {
        return Err(Error::new(
            Kind::NotFound,
            "--shard_train_list needs a train.list in the package",
        ));
    };
    let own = shard(&whole, request.node, request.nodes);
    write(WHOLE_LIST, whole)?;
    write(LIST, own)
}

/// The lines of a list that are one host's, by their place modulo the number of hosts.
fn shard(list: &str, node: u32, nodes: u32) -> String {
    let lines = list.lines().filter(|line| !line.trim().is_empty());
    let own = lines.skip(node as usize).step_by(nodes.max(1) as usize);
    own.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_list_is_one_hosts() {
        let list = "a\nb\n\nc\nd\r\ne";
        assert_eq!(shard(list, 0, 2), "a\nc\ne\n");
        assert_eq!(shard(list, 1, 2), "b\nd\n");
        assert_eq!(shard(list, 0, 1), "a\nb\nc\nd\ne\n");
        assert_eq!(shard("a\n", 1, 2), "");
    }
}
