//! A content that is open, under whatever name it has now.
//!
//! Programs expect that a file they have open stays what it was: when it gets another name, and when
//! another file takes its name, or nothing does. The cloud knows contents by path and etag. So a
//! content is told of every new name that this mount gives it; and before its name goes it is
//! fetched to this machine, if it is not too large for whoever takes the name to wait for that.
//! Nobody here knows what others do to names: then a reader gets an error.

use crate::remote::Remote;
use contract::api::file::Entry;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A content that is open for reading, or of which a part is to be changed.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) entry: Entry,
    names: Mutex<Names>,
    /// All of it, on this machine.
    kept: OnceLock<File>,
    /// The block that was read last.
    pub(crate) last: AtomicU64,
    /// How many blocks are fetched ahead.
    pub(crate) ahead: AtomicU64,
}

#[derive(Debug)]
struct Names {
    now: PfsPath,
    /// While it is being moved: the server may be done, and has not said so yet.
    next: Option<PfsPath>,
}

/// The largest content that is fetched because its name goes.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// What is fetched at a time.
const PIECE_BYTES: u64 = 4 << 20;

impl Content {
    pub(crate) fn new(path: PfsPath, entry: Entry) -> Content {
        Content {
            entry,
            names: Mutex::new(Names { now: path, next: None }),
            kept: OnceLock::new(),
            last: AtomicU64::new(u64::MAX),
            ahead: AtomicU64::new(0),
        }
    }

    /// Whether it needs the cloud no more.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get().is_some()
    }

    /// A part of it, which is not longer than it is.
    pub(crate) fn read(&self, remote: &Remote, offset: u64, length: u64) -> Result<Vec<u8>> {
        if let Some(file) = self.kept.get() {
            return read_kept(file, offset, length);
        }
        let path = self.lock().now.clone();
        let etag = &self.entry.etag;
        let read = remote.read(&path, etag, offset, length);
        let Err(error) = read else { return read };
        if !matches!(error.kind(), Kind::NotFound | Kind::Conflict) {
            return Err(error);
        }
        // Its name may have changed, or gone, since.
        match (self.kept.get(), self.elsewhere(&path)) {
            (Some(file), _) => read_kept(file, offset, length),
            (None, Some(path)) => remote.read(&path, etag, offset, length),
            (None, None) => Err(error),
        }
    }

    /// All of it, to a file of this machine.
    pub(crate) fn copy_to(&self, remote: &Remote, file: &File) -> Result<()> {
        let mut offset = 0;
        while offset < self.entry.bytes {
            let length = PIECE_BYTES.min(self.entry.bytes - offset);
            let piece = self.read(remote, offset, length)?;
            file.write_all_at(&piece, offset).map_err(unusable)?;
            offset += length;
        }
        Ok(())
    }

    /// Fetches it, because its name goes, unless it is too large.
    pub(crate) fn keep(&self, remote: &Remote, scratch: &Path) -> Result<()> {
        if self.is_kept() || self.entry.bytes > KEPT_BYTES_MAX {
            return Ok(());
        }
        let file = tempfile::tempfile_in(scratch).map_err(unusable)?;
        self.copy_to(remote, &file)?;
        // Somebody else may have been quicker.
        let _ = self.kept.set(file);
        Ok(())
    }

    /// What is at `from` is being moved to `to`: whether this is part of it.
    pub(crate) fn begin_move(&self, from: &PfsPath, to: &PfsPath) -> bool {
        let mut names = self.lock();
        let next = below(&names.now, from, to);
        let is_part = next.is_some();
        names.next = next.or(names.next.take());
        is_part
    }

    /// It was moved, or could not be.
    pub(crate) fn end_move(&self, is_moved: bool) {
        let mut names = self.lock();
        let next = names.next.take().filter(|_| is_moved);
        names.now = next.unwrap_or_else(|| names.now.clone());
    }

    fn elsewhere(&self, path: &PfsPath) -> Option<PfsPath> {
        let names = self.lock();
        let known = [Some(&names.now), names.next.as_ref()];
        known.into_iter().flatten().find(|name| *name != path).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the block that is read; the one before it, and how many were fetched ahead.
    pub(crate) fn step(&self, index: u64) -> (u64, u64) {
        (self.last.swap(index, Ordering::Relaxed), self.ahead.load(Ordering::Relaxed))
    }
}

/// Where a path is after what is at `from` was moved to `to`; `None` if it stays.
fn below(path: &PfsPath, from: &PfsPath, to: &PfsPath) -> Option<PfsPath> {
    if path.datacenter() != from.datacenter() || path.owner() != from.owner() {
        return None;
    }
    let rest = path.components().strip_prefix(from.components())?;
    to.join(&rest.join("/")).ok()
}

fn read_kept(file: &File, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, offset).map_err(unusable)?;
    Ok(bytes)
}

/// The file of this machine cannot be used, as when its disk is full.
pub(crate) fn unusable(source: std::io::Error) -> Error {
    match source.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) {
        true => Error::new(Kind::LimitExceeded, "the disk for files that are written is full")
            .because(source),
        false => Error::io("the copy of a file that is written cannot be used", source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::api::file::EntryKind;

    #[test]
    fn a_content_follows_its_name_once_it_was_moved() {
        let home = PfsPath::home("dc", "wu").unwrap();
        let at = |text: &str| home.join(text).unwrap();
        let entry = Entry {
            path: at("a/b/file").to_string(),
            kind: EntryKind::File,
            bytes: 0,
            modified_ms: 0,
            mode: 0,
            etag: String::new(),
        };
        let content = Content::new(at("a/b/file"), entry);
        assert!(content.begin_move(&at("a"), &at("c")));
        // Something else is moved at the same time.
        assert!(!content.begin_move(&at("other"), &at("x")));
        // The server may have done it already.
        assert_eq!(content.elsewhere(&at("a/b/file")), Some(at("c/b/file")));
        content.end_move(false);
        assert_eq!(content.lock().now, at("a/b/file"));
        assert!(content.begin_move(&at("a/b/file"), &at("new")));
        content.end_move(true);
        assert_eq!(content.lock().now, at("new"));
        assert_eq!(content.elsewhere(&at("new")), None);
        // Not every name that begins so is below.
        assert!(!content.begin_move(&at("ne"), &at("x")));
    }
}
