//! Opening files that the programs of a job can tamper with: its log directory is theirs too.
//!
//! A link is not followed and a pipe is not waited for, so that whatever a program leaves under a
//! name that we write to or read from can neither mislead nor block its supervisor.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A log: a new file for the first incarnation of a replica, continued by later ones.
pub(super) fn open_log(path: &Path, is_first: bool) -> Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if is_first {
        remove(path)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
    open(path, flags)
}

/// A file that a program may have written.
pub(crate) fn open_to_read(path: &Path) -> Result<File> {
    open(path, OFlags::RDONLY)
}

/// How the files of a replica are found.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Its root, if it has one of its own.
    pub(super) root: Option<OwnedFd>,
    /// Whether it is another user's, who may have put links anywhere.
    pub(super) has_other_user: bool,
}

impl View {
    /// The files of one folder, by their names, wherever that folder is moved to.
    pub(super) fn within(&self, folder: &Path) -> Result<View> {
        let resolve = match (&self.root, self.has_other_user) {
            (Some(_), _) => ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            (None, true) => ResolveFlags::NO_SYMLINKS,
            (None, false) => ResolveFlags::empty(),
        };
        let root = self.root.as_ref().map_or(CWD, AsFd::as_fd);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat2(root, folder, flags, Mode::empty(), resolve)?;
        Ok(View { root: Some(opened), has_other_user: self.has_other_user })
    }

    /// A file that its program may have written.
    pub(super) fn open_to_read(&self, path: &Path) -> Result<File> {
        let resolve = match (&self.root, self.has_other_user) {
            (Some(_), _) => ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            (None, true) => ResolveFlags::NO_SYMLINKS,
            (None, false) => return open_to_read(path),
        };
        let root = self.root.as_ref().map_or(CWD, AsFd::as_fd);
        let flags = OFlags::RDONLY | SAFE;
        regular(openat2(root, path, flags, Mode::empty(), resolve)?)
    }
}

/// The content of such a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The most that is read of a file at once; more than any record or submission has.
const READ_BYTES_MAX: u64 = 256 << 20;

/// Removes what an earlier job left under this name.
pub(super) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(source),
        _ => Ok(()),
    }
}

/// A link is not followed, and nothing is waited for.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn open(path: &Path, flags: OFlags) -> Result<File> {
    regular(openat(CWD, path, flags | SAFE, Mode::from_raw_mode(0o644))?)
}

fn regular(file: OwnedFd) -> Result<File> {
    let file = File::from(file);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};
    use std::io::Write;

    #[test]
    fn neither_links_nor_pipes_nor_directories_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("victim"), "untouched").unwrap();
        std::os::unix::fs::symlink(path("victim"), path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        for name in ["link", "pipe", "directory"] {
            assert!(open_to_read(&path(name)).is_err(), "{name}");
            assert!(open_log(&path(name), false).is_err(), "{name}");
        }
        // The first incarnation gets a file of its own.
        for name in ["link", "pipe"] {
            writeln!(open_log(&path(name), true).unwrap(), "hello").unwrap();
            assert_eq!(std::fs::read_to_string(path(name)).unwrap(), "hello\n");
        }
        assert_eq!(std::fs::read_to_string(path("victim")).unwrap(), "untouched");
    }

    #[test]
    fn a_later_incarnation_continues_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/log");
        write!(open_log(&path, true).unwrap(), "one ").unwrap();
        write!(open_log(&path, false).unwrap(), "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
        open_log(&path, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
