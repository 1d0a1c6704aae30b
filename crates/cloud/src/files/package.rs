//! The directory of a job: its package, made from contents, at `jobs/<name>` in its user's home.
//!
//! It appears complete. What an earlier job of the same name left there beside its program (its
//! output, its checkpoints) stays; files of the earlier program go. A crash in between is repaired
//! by doing it again:
//!
//! 1. the files are written to a hidden directory that nobody but the server can enter;
//! 2. it changes places with the directory that is there;
//! 3. what is kept is moved over, one rename each, and the rest is removed.
//!
//! After step 2 the hidden name holds the old directory. A second attempt cannot tell it from an
//! unfinished step 1, so step 1 marks its directory, and the mark goes after step 2.
//!
//! The home belongs to its user, who may change it meanwhile: nothing is reached by a path through
//! it, only from directory to directory, and links are not followed.

use super::blobs::Blobs;
use super::{Owner, walk};
use contract::Result;
use contract::api::package::Manifest;
use rustix::fs::{
    AtFlags, Dir, Gid, Mode, RenameFlags, Uid, fchmod, fchown, mkdirat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What is put where.
pub(crate) struct Placement<'a> {
    /// The user's home.
    pub(crate) home: &'a Path,
    /// The job's name.
    pub(crate) name: &'a str,
    /// Tells this job from others of its name.
    pub(crate) uid: &'a str,
    /// Whose the files will be.
    pub(crate) owner: Owner,
    /// The package.
    pub(crate) manifest: &'a Manifest,
    /// The package of the job that had this name before.
    pub(crate) previous: Option<&'a Manifest>,
}

/// The directory of the jobs in a home.
const JOBS: &str = "jobs";
/// In a directory that has not changed places yet.
const UNFINISHED: &str = ".unfinished";

/// Makes the directory. Doing it again is no error, as long as the job has not started.
pub(crate) fn place(blobs: &Blobs, username: &str, placement: &Placement<'_>) -> Result<()> {
    let Placement { name, uid, owner, .. } = placement;
    let home = walk::open(placement.home)?;
    make(&home, JOBS, *owner)?;
    let jobs = walk::open_in(&home, JOBS)?;
    let hidden = format!(".{name}.{uid}");
    let is_swapped = match walk::open_in(&jobs, &hidden) {
        Ok(found) => match walk::open_in(&found, UNFINISHED) {
            Ok(_) => {
                remove(&jobs, &hidden)?;
                false
            }
            Err(_) => true,
        },
        Err(_) => false,
    };
    if !is_swapped {
        fill(blobs, username, placement, &jobs, &hidden)?;
        make(&jobs, name, *owner)?;
        renameat_with(&jobs, hidden.as_str(), &jobs, *name, RenameFlags::EXCHANGE)
            .map_err(|errno| walk::refused(errno, name))?;
        rustix::fs::fsync(&jobs).map_err(|errno| walk::refused(errno, JOBS))?;
    }
    let (old, new) = (walk::open_in(&jobs, &hidden)?, walk::open_in(&jobs, name)?);
    // Only now: a complete directory that has not changed places yet must not pass for the old one.
    match unlinkat(&new, UNFINISHED, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(walk::refused(errno, name)),
    }
    let stale: BTreeSet<&str> = placement
        .previous
        .map(|manifest| manifest.files.keys().map(String::as_str).collect())
        .unwrap_or_default();
    keep(&old, &new, "", &stale, *owner)?;
    remove(&jobs, &hidden)
}

/// Writes the package into a hidden directory that is the server's alone until it is complete.
fn fill(
    blobs: &Blobs,
    username: &str,
    placement: &Placement<'_>,
    jobs: &OwnedFd,
    hidden: &str,
) -> Result<()> {
    mkdirat(jobs, hidden, Mode::RWXU).map_err(|errno| walk::refused(errno, hidden))?;
    let top = walk::open_in(jobs, hidden)?;
    mkdirat(&top, UNFINISHED, Mode::RWXU).map_err(|errno| walk::refused(errno, hidden))?;
    // Below a directory that only we can enter, paths are safe.
    let root = PathBuf::from(format!("/proc/self/fd/{}", top.as_raw_fd()));
    let mut folders = BTreeSet::new();
    for (path, file) in &placement.manifest.files {
        let target = root.join(path);
        let refused = super::unusable(&target);
        for folder in Path::new(path).ancestors().skip(1) {
            if !folder.as_os_str().is_empty() {
                folders.insert(root.join(folder));
            }
        }
        fs::create_dir_all(target.parent().unwrap_or(&root)).map_err(refused)?;
        let mode = if file.is_executable { 0o755 } else { 0o644 };
        let mut options = fs::OpenOptions::new();
        let mut copy =
            options.write(true).create_new(true).mode(mode).open(&target).map_err(refused)?;
        blobs.copy(username, file, &mut copy).map_err(|error| error.with("file", path))?;
        copy.set_permissions(fs::Permissions::from_mode(mode)).map_err(refused)?;
        own(&copy, placement.owner).map_err(refused)?;
    }
    for folder in folders {
        let refused = super::unusable(&folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).map_err(refused)?;
        own(&fs::File::open(&folder).map_err(refused)?, placement.owner).map_err(refused)?;
    }
    rustix::fs::syncfs(&top).map_err(|errno| walk::refused(errno, hidden))?;
    fchmod(&top, Mode::from_raw_mode(0o755)).map_err(|errno| walk::refused(errno, hidden))?;
    own(&top, placement.owner).map_err(super::unusable(Path::new(hidden)))
}

fn own(file: impl AsFd, owner: Owner) -> std::io::Result<()> {
    match owner.uid() {
        None => Ok(()),
        Some(uid) => Ok(fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))?),
    }
}

/// Makes a directory, unless there is one.
fn make(parent: &OwnedFd, name: &str, owner: Owner) -> Result<()> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => {
            own(walk::open_in(parent, name)?, owner).map_err(super::unusable(Path::new(name)))
        }
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(walk::refused(errno, name)),
    }
}

/// Moves what is not in `new`, and no file of the earlier program, from `old` to `new`.
fn keep(
    old: &OwnedFd,
    new: &OwnedFd,
    prefix: &str,
    stale: &BTreeSet<&str>,
    owner: Owner,
) -> Result<()> {
    let failed = |errno| walk::refused(errno, prefix);
    for entry in Dir::read_from(old).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else {
            // No package has such a name.
            let name = entry.file_name();
            match renameat_with(old, name, new, name, RenameFlags::NOREPLACE) {
                Ok(()) | Err(Errno::NOENT | Errno::EXIST) => continue,
                Err(errno) => return Err(failed(errno)),
            }
        };
        if name == "." || name == ".." {
            continue;
        }
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        if stale.contains(path.as_str()) {
            continue;
        }
        let below = format!("{path}/");
        let has_stale =
            stale.range(below.as_str()..).next().is_some_and(|file| file.starts_with(&below));
        let open = || Some((walk::open_in(old, name).ok()?, walk::open_in(new, name).ok()?));
        if has_stale {
            // What is kept in a folder of the earlier program needs the folder.
            make(new, name, owner)?;
            if let Some((old, new)) = open() {
                keep(&old, &new, &path, stale, owner)?;
            }
            continue;
        }
        match renameat_with(old, name, new, name, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::EXIST | Errno::NOTEMPTY) => {
                if let Some((old, new)) = open() {
                    keep(&old, &new, &path, stale, owner)?;
                }
            }
            Err(errno) => return Err(walk::refused(errno, &path)),
        }
    }
    Ok(())
}

/// Removes a directory with all that is in it.
fn remove(parent: &OwnedFd, name: &str) -> Result<()> {
    let path = format!("/proc/self/fd/{}/{name}", parent.as_raw_fd());
    // It does not follow links, nor leave the directory if one is put in its way.
    disk::remove_tree(path.as_ref()).map_err(super::unusable(Path::new(name)))
}
