//! Walking where somebody else may have put links: every step is opened in the directory before
//! it, and a link is refused instead of followed.

use contract::{Error, Kind, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// How directories are opened.
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory that is trusted.
pub(super) fn open(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, DIRECTORY, Mode::empty())
        .map_err(|errno| refused(errno, &path.to_string_lossy()))
}

/// Opens a directory in another one.
pub(super) fn open_in(parent: impl AsFd, name: &str) -> Result<OwnedFd> {
    openat(parent, name, DIRECTORY, Mode::empty()).map_err(|errno| refused(errno, name))
}

/// An error that says what is there instead.
pub(super) fn refused(errno: Errno, name: &str) -> Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            let message = "this is a link or a file, where a directory is needed";
            Error::new(Kind::Invalid, message).with("name", name)
        }
        errno => super::unusable(Path::new(name))(errno.into()),
    }
}
