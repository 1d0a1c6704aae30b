//! The directory of a job: its package, made from contents, at `jobs/<name>` in its user's home.
//!
//! It appears complete. What an earlier job of the same name left there beside its program (its
//! output, its checkpoints) stays; files of the earlier program go. A crash in between is repaired
//! by doing it again:
//!
//! 1. the files are written to a hidden directory that nobody but the server can enter;
//! 2. the directory that is there, if any, gets another hidden name;
//! 3. the new one gets the job's name;
//! 4. what is kept is moved over, one rename each, and the rest is removed.
//!
//! The second hidden name is there from step 2 on, when the first directory is complete: a second
//! attempt goes on from there if it finds it, and from the beginning if not. These are plain
//! renames, because NFS and CephFS cannot let two directories change places.
//!
//! The home belongs to its user, who may change it meanwhile: nothing is reached by a path through
//! it, only from directory to directory, and links are not followed.

use super::blobs::Blobs;
use super::{Owner, walk};
use contract::api::package::Manifest;
use contract::{Error, Kind, Result};
use rustix::fs::{Dir, Gid, Mode, Uid, fchmod, fchown, mkdirat, renameat};
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

/// Makes the directory. Doing it again is no error, as long as the job has not started.
pub(crate) fn place(blobs: &Blobs, username: &str, placement: &Placement<'_>) -> Result<()> {
    let Placement { name, uid, owner, .. } = placement;
    let home = walk::open(placement.home)?;
    make(&home, JOBS, *owner)?;
    let jobs = walk::open_in(&home, JOBS)?;
    let (hidden, aside) = (format!(".{name}.{uid}"), format!(".{name}.{uid}.old"));
    let failed = |errno| walk::refused(errno, name);
    if walk::open_in(&jobs, &aside).is_err() {
        remove(&jobs, &hidden)?;
        let is_there = match walk::open_in(&jobs, name) {
            Err(error) if error.kind() == Kind::NotFound => false,
            Err(error) if error.kind() == Kind::Invalid => return Err(in_the_way(name)),
            there => there.map(|_| true)?,
        };
        if let Err(error) = fill(blobs, username, placement, &jobs, &hidden) {
            // Half a program is of no use, and may be what has filled the disk.
            let _ = remove(&jobs, &hidden);
            return Err(error);
        }
        if is_there {
            renameat(&jobs, *name, &jobs, aside.as_str()).map_err(failed)?;
        }
    }
    match renameat(&jobs, hidden.as_str(), &jobs, *name) {
        // An earlier attempt has done it.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(errno)),
    }
    rustix::fs::fsync(&jobs).map_err(|errno| walk::refused(errno, JOBS))?;
    let Ok(old) = walk::open_in(&jobs, &aside) else { return Ok(()) };
    let new = walk::open_in(&jobs, name)?;
    let stale: BTreeSet<&str> = placement
        .previous
        .map(|manifest| manifest.files.keys().map(String::as_str).collect())
        .unwrap_or_default();
    keep(&old, &new, "", &stale, *owner)?;
    remove(&jobs, &aside)
}

fn in_the_way(name: &str) -> Error {
    let message = format!(
        "there is a link or a file in the home where the program belongs, jobs/{name}: move or \
         remove it, or choose another name"
    );
    Error::invalid(message)
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
            match disk::rename_new(old, name, new, name) {
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
        match disk::rename_new(old, name, new, name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What was there before, with what a job left beside its program.
    fn earlier(directory: &Path) {
        fs::create_dir_all(directory.join("out")).unwrap();
        fs::write(directory.join("out/model"), "trained").unwrap();
        fs::write(directory.join("train.py"), "old program").unwrap();
    }

    #[test]
    fn what_a_job_left_is_kept_wherever_the_server_was_killed() {
        let files =
            r#"{"files": {"train.py": {"bytes": 0, "sha256": "", "is_executable": false}}}"#;
        let previous: Manifest = serde_json::from_str(files).unwrap();
        let manifest: Manifest = serde_json::from_str(r#"{"files": {}}"#).unwrap();
        // Before it began; in the middle of 1; after 1, 2 and 3; and a second job of the name.
        for killed_after in ["nothing", "half of 1", "1", "2", "3", "all"] {
            let root = tempfile::tempdir().unwrap();
            let blobs = Blobs::open(&root.path().join("blobs"), 1 << 20).unwrap();
            let jobs = root.path().join("home/jobs");
            let at = |name: &str| jobs.join(name);
            fs::create_dir_all(&jobs).unwrap();
            earlier(&at(match killed_after {
                "2" | "3" => ".ctr.u1.old",
                _ => "ctr",
            }));
            match killed_after {
                "half of 1" | "1" | "2" => fs::create_dir_all(at(".ctr.u1")).unwrap(),
                "3" => fs::create_dir_all(at("ctr")).unwrap(),
                _ => {}
            }
            let placement = Placement {
                home: &root.path().join("home"),
                name: "ctr",
                uid: "u1",
                owner: Owner::Server,
                manifest: &manifest,
                previous: Some(&previous),
            };
            place(&blobs, "wu", &placement).unwrap();
            if killed_after == "all" {
                place(&blobs, "wu", &placement).unwrap();
            }
            let names = |directory: &Path| -> Vec<String> {
                let entries = fs::read_dir(directory).unwrap();
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
            };
            assert_eq!(names(&jobs), ["ctr"], "killed after {killed_after}");
            assert_eq!(names(&at("ctr")), ["out"], "killed after {killed_after}");
            assert_eq!(fs::read_to_string(at("ctr/out/model")).unwrap(), "trained");
        }
    }

    #[test]
    fn a_program_that_cannot_be_placed_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(&root.path().join("blobs"), 1 << 20).unwrap();
        let jobs = root.path().join("home/jobs");
        fs::create_dir_all(&jobs).unwrap();
        // A content that the server does not have.
        let digest = "a".repeat(64);
        let files = format!(
            r#"{{"files": {{"train.py": {{"bytes": 1, "sha256": "{digest}", "is_executable": false}}}}}}"#
        );
        let manifest: Manifest = serde_json::from_str(&files).unwrap();
        let placement = Placement {
            home: &root.path().join("home"),
            name: "ctr",
            uid: "u1",
            owner: Owner::Server,
            manifest: &manifest,
            previous: None,
        };
        let refused = || place(&blobs, "wu", &placement).unwrap_err().to_string();
        let entries = || fs::read_dir(&jobs).unwrap().count();
        refused();
        assert_eq!(entries(), 0);
        std::os::unix::fs::symlink("/etc", jobs.join("ctr")).unwrap();
        insta::assert_snapshot!(refused(), @"there is a link or a file in the home where the program belongs, jobs/ctr: move or remove it, or choose another name");
        assert_eq!(entries(), 1);
    }
}
