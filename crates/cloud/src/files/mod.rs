//! Everything that touches files: users' homes and the public area of each datacenter, contents of
//! packages, archived logs. The rest of the crate knows paths of the file system as users see it
//! (`contract::path::PfsPath`), and asks here.

pub(crate) mod blobs;
pub(crate) mod calls;
pub(crate) mod change;
pub(crate) mod content;
pub(crate) mod incoming;
pub(crate) mod listing;
pub(crate) mod log;
pub(crate) mod operation;
pub(crate) mod package;
pub(crate) mod packs;
pub(crate) mod place;
pub(crate) mod service;
pub(crate) mod staging;
pub(crate) mod stores;
pub(crate) mod usage;
mod walk;

use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What one datacenter keeps on the server's disks: the logs of its jobs, uploads under way, and
/// its files, `home/<user>` and `public`, unless they are in a store elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
    logs: PathBuf,
    /// Whether the files are somewhere else.
    is_elsewhere: bool,
}

/// Who owns a user's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The server's own user: jobs cannot be kept apart here.
    Server,
    /// A user id of their own.
    Uid(u32),
}

impl Owner {
    /// The ids for `chown`.
    pub(crate) fn uid(self) -> Option<u32> {
        match self {
            Owner::Server => None,
            Owner::Uid(uid) => Some(uid),
        }
    }
}

impl Store {
    /// Files below `root`, logs below `logs`.
    pub(crate) fn open(root: &Path, logs: &Path) -> Result<Self> {
        let store = Store { root: root.to_owned(), logs: logs.to_owned(), is_elsewhere: false };
        // People reach their homes only through their jobs' mounts.
        make_private(root)?;
        make_private(&root.join("home"))?;
        make_private(logs)?;
        let public = store.public();
        if !public.is_dir() {
            fs::create_dir_all(&public).map_err(unusable(&public))?;
            fs::set_permissions(&public, fs::Permissions::from_mode(0o755))
                .map_err(unusable(&public))?;
        }
        Ok(store)
    }

    /// Files in a store, uploads below `root`, logs below `logs`.
    pub(crate) fn open_elsewhere(root: &Path, logs: &Path) -> Result<Self> {
        make_private(root)?;
        make_private(logs)?;
        let (root, logs) = (root.to_owned(), logs.to_owned());
        Ok(Store { root, logs, is_elsewhere: true })
    }

    /// The public area.
    pub(crate) fn public(&self) -> PathBuf {
        self.root.join("public")
    }

    /// A user's home, which may not be there yet.
    pub(crate) fn home(&self, username: &str) -> PathBuf {
        self.root.join("home").join(username)
    }

    /// Where unfinished uploads are: on the disk of the files, so that publishing is a rename.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    /// The directory of all of them.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a path of the file system is.
    pub(crate) fn locate(&self, path: &PfsPath) -> PathBuf {
        let top = match path.owner() {
            Some(owner) => self.home(owner),
            None => self.public(),
        };
        path.components().iter().fold(top, |path, component| path.join(component))
    }

    /// Makes a user's home, for them alone.
    pub(crate) fn ensure_home(&self, username: &str, owner: Owner) -> Result<PathBuf> {
        let home = self.home(username);
        if self.is_elsewhere {
            // In a store it is there when something is in it.
            return Ok(home);
        }
        let refused = unusable(&home);
        match fs::DirBuilder::new().mode(0o700).create(&home) {
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(refused(source));
            }
            _ => {}
        }
        if let Some(uid) = owner.uid() {
            std::os::unix::fs::lchown(&home, Some(uid), Some(uid)).map_err(refused)?;
        }
        Ok(home)
    }

    /// The archived logs of a job.
    pub(crate) fn logs(&self, uid: &str) -> PathBuf {
        self.logs.join(uid)
    }

    /// Removes the archived logs of a job.
    pub(crate) fn remove_logs(&self, uid: &str) -> Result<()> {
        let path = self.logs(uid);
        disk::remove_tree(&path).map_err(unusable(&path))
    }
}

/// Makes a directory that only the server may look into.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable(path))
}

/// A file or directory of the server cannot be used.
pub(crate) fn unusable(path: &Path) -> impl Fn(std::io::Error) -> Error + Copy + '_ {
    move |source| {
        if source.kind() == std::io::ErrorKind::StorageFull {
            let message = "the server's disk is full: its administrator has to make room";
            return Error::new(Kind::LimitExceeded, message).because(source);
        }
        Error::io("cannot use the server's files", source).with("path", path.display())
    }
}
