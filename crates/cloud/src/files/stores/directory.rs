//! Files in a directory of this machine, or of a file system that is mounted there.
//!
//! Homes belong to their users, whose jobs may put links, pipes and other traps anywhere at any
//! time. So nothing is reached by a path that the kernel might resolve elsewhere: every name is
//! opened below the store's own directory with all links refused (`openat2`), and what was opened
//! is looked at before it is used.

use super::{
    Change, Condition, Files, Opened, Publication, Renaming, Source, file_on_the_way, into_itself,
    is_a_directory, is_within, missing, not_empty, over_a_file, parent_of, relative, taken,
};
use crate::blocking::blocking;
use crate::files::{Owner, unusable};
use bytes::Bytes;
use contract::api::file::{Entry, EntryKind};
use contract::checksum::Checksum;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Statx, StatxFlags, Timespec,
    Timestamps, Uid, fchmod, fchown, fsync, futimens, mkdirat, openat2, renameat, statx, syncfs,
    unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The files of one datacenter, below a directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    root: Arc<OwnedFd>,
}

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are read ahead of a slow reader.
const PIECES_AHEAD: usize = 4;
/// From so many files on, one sync of the whole file system is quicker than one of each.
const SYNC_TOGETHER: usize = 8;
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

impl Directory {
    /// Files below `root`.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let root = File::open(root).map_err(unusable(root))?;
        Ok(Directory { root: Arc::new(root.into()) })
    }

    /// Opens what a path leads to.
    fn reach(&self, path: &PfsPath, flags: OFlags) -> Result<OwnedFd> {
        let relative = relative(path);
        // The top of a store that has no homes.
        let relative = if relative.is_empty() { "." } else { &relative };
        self.reach_text(relative, flags).map_err(|errno| refused(errno, path))
    }

    fn reach_text(&self, relative: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        const RACES_MAX: u32 = 64;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let mut races = 0;
        loop {
            match openat2(&*self.root, relative, flags, Mode::empty(), resolve) {
                // Something was renamed at the same time.
                Err(Errno::AGAIN | Errno::INTR) if races < RACES_MAX => races += 1,
                opened => return opened,
            }
        }
    }

    /// The directory above a path, and its name there.
    fn above<'a>(&self, path: &'a PfsPath) -> Result<(OwnedFd, &'a str)> {
        let (parent, name) = parent_of(path)?;
        Ok((self.reach(&parent, DIRECTORY)?, name))
    }

    /// The directory above a path, which is made if it is not there.
    fn make_above<'a>(&self, path: &'a PfsPath, owner: Owner) -> Result<(OwnedFd, &'a str)> {
        let (parent, name) = parent_of(path)?;
        match self.reach(&parent, DIRECTORY) {
            Err(error) if error.kind() == Kind::NotFound => Ok((self.make(&parent, owner)?, name)),
            reached => Ok((reached?, name)),
        }
    }

    /// Makes a directory, and those above it.
    fn make(&self, path: &PfsPath, owner: Owner) -> Result<OwnedFd> {
        if let Ok(directory) = self.reach(path, DIRECTORY) {
            return Ok(directory);
        }
        let Ok((parent, name)) = parent_of(path) else {
            return self.reach(path, DIRECTORY);
        };
        let above = self.make(&parent, owner)?;
        match mkdirat(&above, name, DIRECTORY_MODE) {
            Ok(()) => {
                let made = self.reach(path, DIRECTORY)?;
                // Whatever the umask of the server is.
                fchmod(&made, DIRECTORY_MODE).map_err(|errno| refused(errno, path))?;
                own(&made, owner).map_err(|errno| refused(errno, path))?;
                fsync(&above).map_err(|errno| refused(errno, path))?;
                Ok(made)
            }
            Err(Errno::EXIST) => self.reach(path, DIRECTORY),
            Err(errno) => Err(refused(errno, path)),
        }
    }

    fn stat_now(&self, path: &PfsPath) -> Result<Entry> {
        let stat = match parent_of(path) {
            Ok((parent, name)) => {
                let above = self.reach(&parent, DIRECTORY)?;
                look(&above, name)
            }
            Err(_) => look_at(self.reach(path, DIRECTORY)?),
        };
        Ok(entry(path.to_string(), &stat.map_err(|errno| refused(errno, path))?))
    }

    fn list_now(&self, path: &PfsPath) -> Result<Vec<Entry>> {
        let failed = |errno| refused(errno, path);
        let directory = self.reach(path, DIRECTORY)?;
        let mut entries = Vec::new();
        for found in Dir::read_from(&directory).map_err(failed)? {
            let found = found.map_err(failed)?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match look(&directory, name) {
                Ok(stat) => {
                    let path = format!("{path}/{}", name.to_string_lossy());
                    entries.push(entry(path, &stat));
                }
                // It was removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    fn open_now(&self, path: &PfsPath) -> Result<(Entry, File)> {
        // A pipe would keep us waiting for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.reach(path, flags).map_err(|error| match error.kind() {
            // A socket cannot be opened at all.
            Kind::Io => not_a_file(path),
            _ => error,
        })?;
        let stat = look_at(&file).map_err(|errno| refused(errno, path))?;
        let entry = entry(path.to_string(), &stat);
        match entry.kind {
            EntryKind::File => Ok((entry, file.into())),
            EntryKind::Directory => Err(is_a_directory(path)),
            _ => Err(not_a_file(path)),
        }
    }

    fn publish_now(&self, files: &[Publication]) -> Vec<Result<Entry>> {
        let ready: Vec<Result<()>> = match files.len() < SYNC_TOGETHER {
            true => files.iter().map(|file| prepare(file, true)).collect(),
            false => {
                let ready: Vec<_> = files.iter().map(|file| prepare(file, false)).collect();
                match syncfs(&*self.root) {
                    Ok(()) => ready,
                    Err(errno) => {
                        files.iter().map(|file| Err(refused(errno, &file.path))).collect()
                    }
                }
            }
        };
        // Directories that got names, each synced once.
        let mut touched: BTreeMap<PfsPath, OwnedFd> = BTreeMap::new();
        let mut results: Vec<Result<Entry>> = Vec::new();
        for (file, ready) in files.iter().zip(ready) {
            results.push(ready.and_then(|()| self.place(file, &mut touched)));
        }
        for (directory, fd) in touched {
            if let Err(errno) = fsync(&fd) {
                for (file, result) in files.iter().zip(&mut results) {
                    if file.path.parent().as_ref() == Some(&directory) {
                        *result = Err(refused(errno, &file.path));
                    }
                }
            }
        }
        results
    }

    /// Gives a file that is ready its name.
    fn place(&self, file: &Publication, touched: &mut BTreeMap<PfsPath, OwnedFd>) -> Result<Entry> {
        let (parent, name) = parent_of(&file.path)?;
        let failed = |errno| refused(errno, &file.path);
        let above = match touched.get(&parent) {
            Some(above) => above.try_clone().map_err(|source| trouble(source, &file.path))?,
            None => self.make_above(&file.path, file.owner)?.0,
        };
        let there = match look(&above, name) {
            Ok(stat) => Some(entry(file.path.to_string(), &stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(errno)),
        };
        if there.as_ref().is_some_and(Entry::is_directory) {
            return Err(is_a_directory(&file.path));
        }
        let Condition { if_absent, .. } = file.condition;
        file.condition.check(there.as_ref())?;
        let renamed = match if_absent {
            true => disk::rename_new(CWD, &*file.staged, &above, name),
            false => renameat(CWD, &file.staged, &above, name),
        };
        match renamed {
            Err(Errno::EXIST) => {
                return file.condition.check(there.as_ref()).and_then(|()| {
                    Err(Error::new(Kind::AlreadyExists, "there is something already")
                        .with("path", &file.path))
                });
            }
            renamed => renamed.map_err(failed)?,
        }
        let stat = look(&above, name).map_err(failed)?;
        touched.insert(parent, above);
        Ok(entry(file.path.to_string(), &stat))
    }

    fn rename_now(&self, from: &PfsPath, to: &PfsPath, how: Renaming) -> Result<Entry> {
        let source = self.stat_now(from)?;
        if let Ok(there) = self.stat_now(to) {
            Condition { if_absent: how.if_absent, if_match: None }.check(Some(&there))?;
            if there.is_directory() && !source.is_directory() {
                return Err(is_a_directory(to));
            }
        }
        let (old, old_name) = self.above(from)?;
        let (new, new_name) = self.make_above(to, how.owner)?;
        let renamed = match how.if_absent {
            true => disk::rename_new(&old, old_name, &new, new_name),
            false => renameat(&old, old_name, &new, new_name),
        };
        renamed.map_err(|errno| match errno {
            Errno::INVAL if is_within(to, from) => into_itself(to),
            Errno::NOTEMPTY | Errno::EXIST => taken(to),
            Errno::NOTDIR => over_a_file(to),
            errno => refused(errno, to),
        })?;
        for directory in [&new, &old] {
            fsync(directory).map_err(|errno| refused(errno, to))?;
        }
        self.stat_now(to)
    }

    fn remove_now(&self, path: &PfsPath, is_recursive: bool) -> Result<()> {
        let (above, name) = self.above(path)?;
        let failed = |errno| refused(errno, path);
        let stat = look(&above, name).map_err(failed)?;
        match kind_of(&stat) {
            FileType::Directory if is_recursive => {
                // Below an open directory it neither follows links nor leaves the tree.
                let tree = format!("/proc/self/fd/{}/{name}", above.as_raw_fd());
                disk::remove_tree(tree.as_ref()).map_err(|source| trouble(source, path))?;
            }
            FileType::Directory => {
                unlinkat(&above, name, AtFlags::REMOVEDIR).map_err(|errno| match errno {
                    Errno::NOTEMPTY | Errno::EXIST => not_empty(path),
                    errno => failed(errno),
                })?;
            }
            _ => unlinkat(&above, name, AtFlags::empty()).map_err(failed)?,
        }
        fsync(&above).map_err(failed)
    }

    fn dress_now(&self, path: &PfsPath, mode: Option<u32>, ms: Option<u64>) -> Result<Entry> {
        // Homes and the public area have the permissions that the server needs.
        parent_of(path)?;
        let failed = |errno| refused(errno, path);
        let file = self.reach(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let kind = kind_of(&look_at(&file).map_err(failed)?);
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(not_a_file(path));
        }
        if let Some(mode) = mode {
            fchmod(&file, Mode::from_raw_mode(mode & 0o777)).map_err(failed)?;
        }
        if let Some(ms) = ms {
            futimens(&file, &times(ms)).map_err(failed)?;
        }
        fsync(&file).map_err(failed)?;
        self.stat_now(path)
    }

    fn change_now(&self, path: &PfsPath, change: &Change, owner: Owner) -> Result<()> {
        let failed = |errno| refused(errno, path);
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
        match change {
            Change::Write(offset, bytes) => {
                let file = File::from(self.reach(path, flags)?);
                let stat = look_at(&file).map_err(failed)?;
                if kind_of(&stat) != FileType::RegularFile {
                    return Err(not_a_file(path));
                }
                file.write_all_at(bytes, *offset).map_err(|source| trouble(source, path))
            }
            Change::Touch(bytes) => {
                let (above, name) = self.make_above(path, owner)?;
                if let Ok(stat) = look(&above, name) {
                    match kind_of(&stat) {
                        FileType::RegularFile if stat.stx_size == *bytes => {
                            return Ok(());
                        }
                        FileType::Directory => return Err(is_a_directory(path)),
                        _ => unlinkat(&above, name, AtFlags::empty()).map_err(failed)?,
                    }
                }
                let create =
                    flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let file = rustix::fs::openat(&above, name, create, mode).map_err(failed)?;
                own(&file, owner).map_err(failed)?;
                rustix::fs::ftruncate(&file, *bytes).map_err(failed)
            }
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let own = self.clone();
        blocking(move || work(&own)).await
    }
}

impl Files for Directory {
    fn stat(&self, path: PfsPath) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(self.run(move |own| own.stat_now(&path)))
    }

    fn list(&self, path: PfsPath) -> BoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(self.run(move |own| own.list_now(&path)))
    }

    fn open(&self, path: PfsPath) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move {
            let (entry, file) = self.run(move |own| own.open_now(&path)).await?;
            let source = Box::new(Plain { file, as_of: (entry.bytes, entry.modified_ms) });
            Ok(Opened { source, entry })
        })
    }

    fn publish(&self, files: Vec<Publication>) -> BoxFuture<'_, Vec<Result<Entry>>> {
        Box::pin(async move {
            let count = files.len();
            match self.run(move |own| Ok(own.publish_now(&files))).await {
                Ok(results) => results,
                Err(error) => {
                    let lost = |_| Err(Error::new(error.kind(), error.message().to_owned()));
                    (0..count).map(lost).collect()
                }
            }
        })
    }

    fn make_directory(&self, path: PfsPath, owner: Owner) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(self.run(move |own| {
            own.make(&path, owner)?;
            own.stat_now(&path)
        }))
    }

    fn rename(&self, from: PfsPath, to: PfsPath, how: Renaming) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(self.run(move |own| own.rename_now(&from, &to, how)))
    }

    fn remove(&self, path: PfsPath, is_recursive: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(move |own| own.remove_now(&path, is_recursive)))
    }

    fn dress(
        &self,
        path: PfsPath,
        mode: Option<u32>,
        ms: Option<u64>,
    ) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(self.run(move |own| own.dress_now(&path, mode, ms)))
    }

    fn changes_in_place(&self) -> bool {
        true
    }

    fn change(&self, path: PfsPath, change: Change, owner: Owner) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(move |own| own.change_now(&path, &change, owner)))
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A file on the disk.
struct Plain {
    file: File,
    /// Length and time of change when it was opened.
    as_of: (u64, u64),
}

impl Source for Plain {
    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn pieces(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (sender, receiver) = tokio::sync::mpsc::channel(PIECES_AHEAD);
        tokio::task::spawn_blocking(move || {
            let mut offset = range.start;
            while offset < range.end {
                let length = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
                let piece = self.read(offset, length.min(PIECE_BYTES));
                offset += piece.as_ref().map_or(0, |piece| piece.len() as u64);
                let is_last = offset == range.end;
                let piece = piece.and_then(|piece| match is_last {
                    // A job may have written into it while it was read.
                    true => self.check().map(|()| piece),
                    false => Ok(piece),
                });
                let is_over = piece.is_err();
                if sender.blocking_send(piece).is_err() || is_over {
                    return;
                }
            }
        });
        Box::pin(stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|piece| (piece, receiver))
        }))
    }
}

impl Plain {
    /// So many bytes, in memory that nobody filled with zeros before.
    fn read(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut piece = Vec::with_capacity(length);
        while piece.len() < length {
            let at = offset + piece.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut piece), at) {
                Ok(0) => return Err(changed()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("the file cannot be read", errno.into())),
            }
        }
        piece.truncate(length);
        Ok(piece.into())
    }

    fn check(&self) -> Result<()> {
        let stat = look_at(&self.file).map_err(|_| changed())?;
        // Not its etag, which may change when its name goes to another file.
        let now = entry(String::new(), &stat);
        match (now.bytes, now.modified_ms) == self.as_of {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

fn changed() -> Error {
    Error::new(Kind::Conflict, "the file was changed while it was read")
}

/// Makes a staged file ready to be published.
fn prepare(file: &Publication, is_synced: bool) -> Result<()> {
    let refused = unusable(&file.staged);
    let staged = File::options().write(true).open(&file.staged).map_err(refused)?;
    let failed = |errno: Errno| refused(errno.into());
    fchmod(&staged, Mode::from_raw_mode(file.mode & 0o777)).map_err(failed)?;
    own(&staged, file.owner).map_err(failed)?;
    if let Some(ms) = file.modified_ms {
        futimens(&staged, &times(ms)).map_err(failed)?;
    }
    match is_synced {
        true => staged.sync_all().map_err(refused),
        false => Ok(()),
    }
}

fn times(ms: u64) -> Timestamps {
    let time = Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000).unwrap_or(0) * 1_000_000,
    };
    Timestamps { last_access: time, last_modification: time }
}

fn own(file: impl AsFd, owner: Owner) -> rustix::io::Result<()> {
    match owner.uid() {
        None => Ok(()),
        Some(uid) => fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid))),
    }
}

/// What a name in a directory is. A link is one.
fn look(directory: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<Statx> {
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, FACTS)
}

/// What was opened.
fn look_at(file: impl AsFd) -> rustix::io::Result<Statx> {
    statx(file, "", AtFlags::EMPTY_PATH, FACTS)
}

const FACTS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn kind_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn entry(path: String, stat: &Statx) -> Entry {
    let kind = match kind_of(stat) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let is_file = kind == EntryKind::File;
    let modified_ms =
        stat.stx_mtime.tv_sec.saturating_mul(1000) + i64::from(stat.stx_mtime.tv_nsec / 1_000_000);
    Entry {
        path,
        kind,
        bytes: if is_file { stat.stx_size } else { 0 },
        modified_ms: u64::try_from(modified_ms).unwrap_or(0),
        mode: u32::from(stat.stx_mode) & 0o777,
        etag: if is_file { etag(stat) } else { String::new() },
    }
}

/// Changes with every change of the content, without reading it.
///
/// A number of a file that was removed is used again, and times of change are what people say, so
/// the time of its birth is in it. Where the file system has none, the time of the last change of
/// anything takes its place: there other permissions look like another content.
fn etag(stat: &Statx) -> String {
    let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let birth = if has_birth { stat.stx_btime } else { stat.stx_ctime };
    let facts = format!(
        "{}:{} {} {} {}.{} {}.{}",
        stat.stx_dev_major,
        stat.stx_dev_minor,
        stat.stx_ino,
        stat.stx_size,
        stat.stx_mtime.tv_sec,
        stat.stx_mtime.tv_nsec,
        birth.tv_sec,
        birth.tv_nsec
    );
    Checksum::of(facts.as_bytes()).to_string()[..32].to_owned()
}

fn not_a_file(path: &PfsPath) -> Error {
    Error::invalid("this is a pipe, a socket or a device, and no file").with("path", path)
}

/// The disk refuses, and nothing better is known.
fn trouble(source: std::io::Error, path: &PfsPath) -> Error {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(source.kind(), StorageFull | QuotaExceeded) {
        return super::disk_full(source).with("path", path);
    }
    Error::io("the server's disk refuses", source).with("path", path)
}

fn refused(errno: Errno, path: &PfsPath) -> Error {
    match errno {
        Errno::NOENT => missing(path),
        Errno::LOOP | Errno::XDEV => {
            let message = "a symbolic link is on the way, and links are not followed: use the path \
                           that it stands for";
            Error::new(Kind::Forbidden, message).with("path", path)
        }
        Errno::NOTDIR => file_on_the_way(path),
        Errno::ISDIR => is_a_directory(path),
        Errno::NAMETOOLONG => Error::invalid("a name is too long for the disk").with("path", path),
        errno => trouble(errno.into(), path),
    }
}

#[cfg(test)]
mod tests;
