//! Files as objects of S3, Google Cloud Storage, Azure or OSS, through OpenDAL. The key is the path.
//!
//! An object appears when its last byte has arrived, and replaces another one in one step. What a
//! file system has beside that is built from keys:
//!
//! - A directory is there if an object's key begins with its name and a slash. One without files is
//!   an empty object of that name (`a/b/`), and so is one whose last file was removed.
//! - That nothing is a file and a directory at once is looked at before something is written. Two
//!   writers of `a` and `a/b` in the same moment can both succeed; `a` is seen as the file.
//! - Mode and time are metadata of the object. Lists do not have them, so they are asked for, and
//!   remembered as long as the object is the same.
//! - Another name is a copy and a removal ([`rename`]): a directory is moved file by file.
//! - A file that is replaced while it is read is an error for its reader, never a mix: every read
//!   says which object it is of.
//!
//! A server that is killed in the middle leaves parts of a multipart upload, which nobody sees:
//! [`parts`] removes those of S3, and Google and Azure do it themselves.

mod carrier;
mod connect;
mod parts;
mod publish;
mod rename;

use self::carrier::is_unreachable;
use super::{
    Files, Opened, Publication, Renaming, Source, disk_full, file_on_the_way, is_a_directory,
    missing, not_empty, parent_of, plain_directory, relative, replaced,
};
use crate::config::{StoreConfig, StoreUrl};
use crate::files::{Owner, operation};
use bytes::Bytes;
use contract::api::file::{DiskUsage, Entry, EntryKind};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use opendal::{ErrorKind, Metadata, Operator};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The files of one datacenter, in a bucket or container.
#[derive(Debug)]
pub(crate) struct Objects {
    operator: Operator,
    /// What is known of objects by key.
    facts: Mutex<HashMap<String, Known>>,
    /// Blocks of memory for files on their way to the store.
    room: Semaphore,
    /// Removes parts that were left behind, where that is not done by the store.
    parts: Option<parts::Parts>,
}

/// Mode and time of an object, and the object they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    etag: String,
    facts: Facts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    mode: u32,
    modified_ms: u64,
}

/// Names of the metadata of an object.
const MODE: &str = "mode";
const MODIFIED: &str = "mtime-ms";
/// Objects that are asked about at the same time.
const QUESTIONS: usize = 32;
/// Objects of which mode and time are remembered.
const KNOWN_MAX: usize = 100_000;
/// Memory for files on their way to the store, in blocks of this size.
const BLOCK_BYTES: u64 = 8 << 20;
const BLOCKS: usize = 12;

impl Objects {
    /// Opens a store, after it was tried.
    pub(crate) async fn open(url: &StoreUrl, config: &StoreConfig) -> Result<Self> {
        let store = Objects::outside(url, config)?;
        connect::probe(&store.operator).await?;
        Ok(Objects { parts: parts::Parts::of(url, config), ..store })
    }

    /// A store that is not the cloud's own: nothing of others is removed there.
    pub(crate) fn outside(url: &StoreUrl, config: &StoreConfig) -> Result<Self> {
        Ok(Objects {
            parts: None,
            operator: connect::connect(url, config)?,
            facts: Mutex::default(),
            room: Semaphore::new(BLOCKS),
        })
    }

    /// The object of a path, if there is one.
    async fn object(&self, path: &PfsPath) -> Result<Option<Entry>> {
        let Some(name) = path.file_name() else { return Ok(None) };
        if name.trim_end() != name {
            // Nothing is kept under such a name, and OpenDAL would look for another one.
            return Ok(None);
        }
        let key = relative(path);
        match self.operator.stat(&key).await {
            Ok(metadata) => Ok(Some(self.note(path.to_string(), &key, &metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error, path)),
        }
    }

    /// Whether there is a directory at a path. A home is there without anything in it.
    async fn has_directory(&self, path: &PfsPath) -> Result<bool> {
        if path.file_name().is_none() {
            return Ok(true);
        }
        let key = format!("{}/", relative(path));
        let failed = |error| refused(error, path);
        let lister = self.operator.lister_with(&key).recursive(true).limit(1).await;
        Ok(lister.map_err(failed)?.next().await.transpose().map_err(failed)?.is_some())
    }

    /// Refuses a path with a file above it.
    async fn check_above(&self, path: &PfsPath) -> Result<()> {
        match self.files_among(above(path).collect()).await?.is_empty() {
            true => Ok(()),
            false => Err(file_on_the_way(path)),
        }
    }

    /// Those paths at which there is a file.
    async fn files_among(&self, paths: BTreeSet<PfsPath>) -> Result<BTreeSet<PfsPath>> {
        let looks = paths.into_iter().map(|path| async move {
            let found = self.object(&path).await?;
            Ok::<_, Error>(found.map(|_| path))
        });
        let found: Vec<Option<PfsPath>> =
            stream::iter(looks).buffered(QUESTIONS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn stat_now(&self, path: &PfsPath) -> Result<Entry> {
        let (object, is_directory) =
            futures_util::future::try_join(self.object(path), self.has_directory(path)).await?;
        match (object, is_directory) {
            (Some(entry), _) => Ok(entry),
            (None, true) => Ok(plain_directory(path.to_string())),
            (None, false) => Err(missing(path)),
        }
    }

    async fn list_now(&self, path: &PfsPath) -> Result<Vec<Entry>> {
        let failed = |error| refused(error, path);
        let top = format!("{}/", relative(path));
        let mut lister = self.operator.lister(&top).await.map_err(failed)?;
        let (mut entries, mut unknown, mut is_there) = (Vec::new(), Vec::new(), false);
        while let Some(found) = lister.next().await.transpose().map_err(failed)? {
            is_there = true;
            let Some(name) = found.path().strip_prefix(&top) else { continue };
            let is_directory = name.ends_with('/') || found.metadata().is_dir();
            let name = name.trim_end_matches('/');
            // The directory itself, or a key such as `a//b` that no path can have: to walk into it
            // would lead back here.
            if matches!(name, "" | "." | "..") || name.contains('/') {
                continue;
            }
            let full = format!("{path}/{name}");
            if is_directory {
                entries.push(plain_directory(full));
                continue;
            }
            match self.recall(&format!("{top}{name}"), found.metadata()) {
                Some(facts) => entries.push(file(full, found.metadata(), facts)),
                None => unknown.push((full, format!("{top}{name}"))),
            }
        }
        let asked = unknown.into_iter().map(|(full, key)| async move {
            match self.operator.stat(&key).await {
                Ok(metadata) => Ok(Some(self.note(full, &key, &metadata))),
                // It was removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(refused(error, path)),
            }
        });
        let asked: Vec<_> = stream::iter(asked).buffer_unordered(QUESTIONS).try_collect().await?;
        entries.extend(asked.into_iter().flatten());
        if !is_there && path.file_name().is_some() {
            return Err(match self.object(path).await? {
                Some(_) => file_on_the_way(path),
                None => missing(path),
            });
        }
        // A file and a directory of one name are seen as the file.
        entries.sort_by(|a, b| a.path.cmp(&b.path).then(a.is_directory().cmp(&b.is_directory())));
        entries.dedup_by(|later, earlier| later.path == earlier.path);
        Ok(entries)
    }

    async fn open_now(&self, path: &PfsPath) -> Result<Opened> {
        match self.object(path).await? {
            Some(entry) => {
                let (operator, key) = (self.operator.clone(), relative(path));
                let source = Box::new(Object { operator, key, etag: entry.etag.clone() });
                Ok(Opened { entry, source })
            }
            None if self.has_directory(path).await? => Err(is_a_directory(path)),
            None => {
                self.check_above(path).await?;
                Err(missing(path))
            }
        }
    }

    /// Makes it known that there is a directory, whatever is in it.
    async fn mark(&self, path: &PfsPath) -> Result<()> {
        if path.file_name().is_none() {
            return Ok(());
        }
        let key = format!("{}/", relative(path));
        self.operator.create_dir(&key).await.map_err(|error| refused(error, path))
    }

    async fn make_now(&self, path: &PfsPath) -> Result<Entry> {
        check_name(path)?;
        if self.object(path).await?.is_some() {
            return Err(file_on_the_way(path));
        }
        self.check_above(path).await?;
        let levels = std::iter::successors(Some(path.clone()), PfsPath::parent);
        let marks = levels.map(|level| async move { self.mark(&level).await });
        stream::iter(marks).buffer_unordered(QUESTIONS).try_collect::<()>().await?;
        Ok(plain_directory(path.to_string()))
    }

    async fn remove_now(&self, path: &PfsPath, is_recursive: bool) -> Result<()> {
        let (parent, _) = parent_of(path)?;
        let failed = |error| refused(error, path);
        let entry = self.stat_now(path).await?;
        let key = relative(path);
        // The directory above stays, also if this was all in it.
        self.mark(&parent).await?;
        match entry.kind {
            EntryKind::Directory => {
                let top = format!("{key}/");
                if is_recursive {
                    return self.remove_below(&top).await.map_err(failed);
                }
                if !self.is_empty(path).await? {
                    return Err(not_empty(path));
                }
                // Not what somebody puts into it at this moment.
                self.operator.delete(&top).await.map_err(failed)
            }
            _ => self.operator.delete(&key).await.map_err(failed),
        }
    }

    /// Removes everything whose key begins so, this key too.
    async fn remove_below(&self, top: &str) -> opendal::Result<()> {
        let counted = operation::current();
        let mut lister = self.operator.lister_with(top).recursive(true).await?;
        let mut deleter = self.operator.deleter().await?;
        while let Some(found) = lister.next().await.transpose()? {
            deleter.delete(found.path()).await?;
            counted.add(1, found.metadata().content_length());
        }
        deleter.delete(top).await?;
        deleter.close().await
    }

    /// Whether there is nothing in a directory.
    async fn is_empty(&self, path: &PfsPath) -> Result<bool> {
        let top = format!("{}/", relative(path));
        let failed = |error| refused(error, path);
        let lister = self.operator.lister_with(&top).recursive(true).limit(2).await;
        let mut lister = lister.map_err(failed)?;
        while let Some(found) = lister.next().await.transpose().map_err(failed)? {
            if found.path() != top {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn total_now(&self, path: &PfsPath) -> Result<Option<DiskUsage>> {
        let top = format!("{}/", relative(path));
        let failed = |error| refused(error, path);
        let mut lister = self.operator.lister_with(&top).recursive(true).await.map_err(failed)?;
        let mut usage = DiskUsage::default();
        let mut directories = BTreeSet::new();
        let counted = operation::current();
        while let Some(found) = lister.next().await.transpose().map_err(failed)? {
            let Some(name) = found.path().strip_prefix(&top) else { continue };
            let mut above = name;
            while let Some((parent, _)) = above.rsplit_once('/') {
                directories.insert(parent.to_owned());
                above = parent;
            }
            if !name.is_empty() && !name.ends_with('/') {
                let bytes = found.metadata().content_length();
                usage.files += 1;
                usage.bytes = usage.bytes.saturating_add(bytes);
                counted.add(1, bytes);
            }
        }
        usage.directories = directories.len() as u64;
        match usage == DiskUsage::default() {
            // It may be a file, or nothing.
            true => Ok(None),
            false => Ok(Some(usage)),
        }
    }

    /// What is remembered of an object, if it is still the same.
    fn recall(&self, key: &str, metadata: &Metadata) -> Option<Facts> {
        let known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|known| known.etag == etag(metadata)).map(|known| known.facts)
    }

    fn remember(&self, key: &str, etag: String, facts: Facts) {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(key.to_owned(), Known { etag, facts });
    }

    /// Describes an object that was asked about, and remembers what lists do not say.
    fn note(&self, path: String, key: &str, metadata: &Metadata) -> Entry {
        let given = metadata.user_metadata();
        let number =
            |name: &str| given.as_ref().and_then(|given| given.get(name)?.parse::<u64>().ok());
        let modified = metadata.last_modified().map_or(0, |at| at.into_inner().as_millisecond());
        let facts = Facts {
            mode: number(MODE).and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644) & 0o777,
            modified_ms: number(MODIFIED).unwrap_or(u64::try_from(modified).unwrap_or(0)),
        };
        self.remember(key, etag(metadata), facts);
        file(path, metadata, facts)
    }
}

impl Files for Objects {
    fn stat(&self, path: PfsPath) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move { self.stat_now(&path).await })
    }

    fn list(&self, path: PfsPath) -> BoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async move { self.list_now(&path).await })
    }

    fn open(&self, path: PfsPath) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move { self.open_now(&path).await })
    }

    fn publish(&self, files: Vec<Publication>) -> BoxFuture<'_, Vec<Result<Entry>>> {
        Box::pin(async move {
            // Many files of one directory have the same directories above them.
            let paths: BTreeSet<PfsPath> =
                files.iter().flat_map(|file| above(&file.path)).collect();
            let found = self.files_among(paths).await;
            let each: Vec<_> =
                files.iter().map(|file| self.publish_now(file, found.as_ref().ok())).collect();
            stream::iter(each).buffered(QUESTIONS).collect().await
        })
    }

    fn make_directory(&self, path: PfsPath, _: Owner) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move { self.make_now(&path).await })
    }

    fn rename(&self, from: PfsPath, to: PfsPath, how: Renaming) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move { self.rename_now(&from, &to, how).await })
    }

    fn remove(&self, path: PfsPath, is_recursive: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.remove_now(&path, is_recursive).await })
    }

    fn total(&self, path: PfsPath) -> BoxFuture<'_, Result<Option<DiskUsage>>> {
        Box::pin(async move { self.total_now(&path).await })
    }

    fn sweep(&self, age: Duration) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            match &self.parts {
                Some(parts) => parts.sweep(age).await,
                None => Ok(0),
            }
        })
    }
}

/// The bytes of one object.
struct Object {
    operator: Operator,
    key: String,
    etag: String,
}

impl Source for Object {
    fn pieces(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        if range.is_empty() {
            return Box::pin(stream::empty());
        }
        let opening = async move {
            let reader = self.operator.reader_with(&self.key).if_match(&quoted(&self.etag)).await;
            let pieces = reader.map_err(broken)?.into_bytes_stream(range).await.map_err(broken)?;
            // An error is carried as one of input and output, with ours in it.
            Ok::<_, Error>(pieces.map_err(|error| match error.downcast::<opendal::Error>() {
                Ok(error) => broken(error),
                Err(error) => Error::io("the store broke off", error),
            }))
        };
        Box::pin(stream::once(opening).try_flatten())
    }
}

/// The directories above a path.
fn above(path: &PfsPath) -> impl Iterator<Item = PfsPath> + use<> {
    std::iter::successors(path.parent(), PfsPath::parent)
}

/// Refuses a name that OpenDAL would change: it removes spaces from the end of a key.
fn check_name(path: &PfsPath) -> Result<()> {
    match path.components().iter().any(|name| name.trim_end() != name) {
        true => Err(Error::invalid("the store cannot keep a name that ends with a space")
            .with("path", format!("{:?}", path.to_string()))),
        false => Ok(()),
    }
}

fn file(path: String, metadata: &Metadata, facts: Facts) -> Entry {
    Entry {
        path,
        kind: EntryKind::File,
        bytes: metadata.content_length(),
        modified_ms: facts.modified_ms,
        mode: facts.mode,
        etag: etag(metadata),
    }
}

/// The store's own mark of an object, without quotes.
fn etag(metadata: &Metadata) -> String {
    metadata.etag().unwrap_or_default().trim_matches('"').to_owned()
}

/// As the store wants it back.
fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

fn broken(error: opendal::Error) -> Error {
    match error.kind() {
        ErrorKind::ConditionNotMatch | ErrorKind::NotFound | ErrorKind::RangeNotSatisfied => {
            replaced()
        }
        _ => trouble(error),
    }
}

fn refused(error: opendal::Error, path: &PfsPath) -> Error {
    let text = error.to_string();
    let says = |code: &str| text.contains(code);
    if error.kind() == ErrorKind::NotFound {
        return missing(path);
    }
    // A look at a name that cannot be is answered without a reason.
    if says("KeyTooLong") || says("InvalidObjectName") || says("status: 400") {
        let message = "the store cannot keep this name: use a shorter one, of plain characters";
        return Error::invalid(message).with("path", path).because(error);
    }
    trouble(error).with("path", path)
}

/// The store refuses, and it is not about one file.
fn trouble(error: opendal::Error) -> Error {
    let text = error.to_string();
    let is_full = ["XMinioStorageFull", "QuotaExceeded", "InsufficientStorage"];
    if is_full.iter().any(|code| text.contains(code)) {
        return disk_full(std::io::Error::other(text));
    }
    let (kind, message) = match error.kind() {
        ErrorKind::PermissionDenied => {
            (Kind::Unavailable, "the store refuses the server's credentials: ask an administrator")
        }
        ErrorKind::ConfigInvalid => {
            (Kind::Unavailable, "the store has no such bucket: ask an administrator")
        }
        ErrorKind::RateLimited => (Kind::Unavailable, "the store asks to slow down: try again"),
        ErrorKind::Unsupported => (Kind::Unsupported, "the store cannot do this"),
        _ if error.is_temporary() || is_unreachable(&error) => {
            (Kind::Unavailable, "the store does not answer: try again")
        }
        _ => (Kind::Io, "the store refuses"),
    };
    Error::new(kind, message).because(error)
}

#[cfg(test)]
mod tests;
