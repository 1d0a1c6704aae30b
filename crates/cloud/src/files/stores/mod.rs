//! Where users' files are kept: one promise, several keepers.
//!
//! A file appears whole or not at all, and replaces what was there in one step: whoever looks at
//! the same time sees the old file or the new one. Links are never followed.
//!
//! Bytes on their way are kept in a directory of the server ([`super::staging`]), whatever keeps
//! the files, so all that a keeper has to do is to take a whole file in. The other way would be
//! parts in the store: multipart uploads of S3, files below a hidden directory of HDFS. It was not
//! taken, for these reasons.
//!
//! - The end of an upload may have to read bytes again, after the server was started again for
//!   example. From a disk that costs a second; from a store it is a download.
//! - A part of S3 is at least 5 MiB, cannot be read, and has no checksum of ours. HDFS files only
//!   grow, so chunks that arrive out of order would each be a file, to be copied together.
//! - Resuming, quotas, sweeping and the locks between writers are one piece of code, which was
//!   tried with killed servers, instead of one for each store.
//!
//! The price is room on the server's disk for uploads that are under way, and that a file crosses
//! the network twice.
//!
//! Who may do what, and how much, is not decided here: [`super::service`] has asked before.

pub(crate) mod directory;
pub(crate) mod hdfs;
pub(crate) mod object;
#[cfg(test)]
mod suite;

use super::Owner;
use crate::config::{Scheme, StoreConfig, StoreUrl};
use bytes::Bytes;
use contract::api::file::{DiskUsage, Entry, EntryKind};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A keeper of files.
pub(crate) trait Files: Send + Sync + std::fmt::Debug {
    /// What a path leads to.
    fn stat(&self, path: PfsPath) -> BoxFuture<'_, Result<Entry>>;

    /// What is in a directory, by name.
    fn list(&self, path: PfsPath) -> BoxFuture<'_, Result<Vec<Entry>>>;

    /// Opens a file. What is read from it later is of this file, whatever takes its name.
    fn open(&self, path: PfsPath) -> BoxFuture<'_, Result<Opened>>;

    /// Gives whole files their names, durably, one result each. Directories above are made.
    fn publish(&self, files: Vec<Publication>) -> BoxFuture<'_, Vec<Result<Entry>>>;

    /// Makes a directory and those above it. One that is there is no error.
    fn make_directory(&self, path: PfsPath, owner: Owner) -> BoxFuture<'_, Result<Entry>>;

    /// Gives a file or directory another name, in one step.
    fn rename(&self, from: PfsPath, to: PfsPath, how: Renaming) -> BoxFuture<'_, Result<Entry>>;

    /// Removes a file or link, an empty directory, or a directory with everything in it.
    fn remove(&self, path: PfsPath, is_recursive: bool) -> BoxFuture<'_, Result<()>>;

    /// Changes permissions or time of a file or directory; what is absent stays. Clients send the
    /// file again to a store that cannot.
    fn dress(&self, path: PfsPath, _: Option<u32>, _: Option<u64>) -> BoxFuture<'_, Result<Entry>> {
        let message = "this store cannot change permissions and times of what is there";
        let error = Error::new(Kind::Unsupported, message).with("path", path);
        Box::pin(std::future::ready(Err(error)))
    }

    /// How much is below a path, where that is known without a walk.
    fn total(&self, _: PfsPath) -> BoxFuture<'_, Result<Option<DiskUsage>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Removes what publications left behind that never ended, if it is so old; how many.
    fn sweep(&self, _age: Duration) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Whether [`Files::change`] works.
    fn changes_in_place(&self) -> bool {
        false
    }

    /// Changes a file where it is, for the original's protocol, which has no end by which a file
    /// could appear whole.
    fn change(&self, _: PfsPath, _: Change, _: Owner) -> BoxFuture<'_, Result<()>> {
        let message = "this store keeps whole files only";
        Box::pin(std::future::ready(Err(Error::new(Kind::Unsupported, message))))
    }
}

/// Opens the store of a URL, after it was tried.
///
/// # Errors
/// One that says which it is: not reachable, wrong credentials, no such bucket or directory.
pub(crate) async fn open(url: &StoreUrl, config: &StoreConfig) -> Result<Arc<dyn Files>> {
    let opening = async {
        let files: Arc<dyn Files> = match url.scheme {
            Scheme::Hdfs => Arc::new(hdfs::Hdfs::open(url, config).await?),
            _ => Arc::new(object::Objects::open(url, config).await?),
        };
        Ok::<_, Error>(files)
    };
    let opened = match tokio::time::timeout(OPEN, opening).await {
        Ok(opened) => opened,
        Err(_) => {
            let message = format!("the store does not answer within {} s", OPEN.as_secs());
            Err(Error::new(Kind::Timeout, message))
        }
    };
    opened.map_err(|error: Error| error.with("files", url))
}

/// How long a store may take to be tried.
const OPEN: Duration = Duration::from_secs(60);
/// Where files are before they have their names, below the top of a store. No path leads there.
const UNNAMED: &str = "uploads";

/// A file that was opened.
pub(crate) struct Opened {
    /// What it is.
    pub(crate) entry: Entry,
    /// Its bytes.
    pub(crate) source: Box<dyn Source>,
}

/// The bytes of a file.
pub(crate) trait Source: Send {
    /// The file itself, where it is on a disk of this machine.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// A part of them, which lies inside the file. An error ends them.
    fn pieces(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>>;
}

/// A whole file that is to have a name.
#[derive(Debug)]
pub(crate) struct Publication {
    /// The name.
    pub(crate) path: PfsPath,
    /// Where its bytes are, in a directory that only the server may enter. It is gone after.
    pub(crate) staged: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
    /// When it was changed; now if nobody says.
    pub(crate) modified_ms: Option<u64>,
    /// Whose it is.
    pub(crate) owner: Owner,
    /// What may be there.
    pub(crate) condition: Condition,
}

/// What may be at a path before it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Nothing.
    pub(crate) if_absent: bool,
    /// A file with this etag.
    pub(crate) if_match: Option<String>,
}

/// How something gets another name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renaming {
    /// Whose directories above it are, if they have to be made.
    pub(crate) owner: Owner,
    /// Refuse if there is something.
    pub(crate) if_absent: bool,
}

/// A change of a file where it is.
#[derive(Debug)]
pub(crate) enum Change {
    /// Make it, or make it this long if it is not, all zeros.
    Touch(u64),
    /// Bytes at an offset.
    Write(u64, Bytes),
}

impl Condition {
    /// Refuses what is there.
    pub(crate) fn check(&self, there: Option<&Entry>) -> Result<()> {
        match (self, there) {
            (Condition { if_absent: true, .. }, Some(entry)) => {
                let message = "there is something already";
                Err(Error::new(Kind::AlreadyExists, message).with("path", &entry.path))
            }
            (Condition { if_match: Some(etag), .. }, there)
                if there.is_none_or(|entry| entry.etag != *etag) =>
            {
                let message = "the file was changed by somebody else: look at it, then try again";
                Err(Error::new(Kind::Conflict, message).with("if_match", etag))
            }
            _ => Ok(()),
        }
    }
}

/// The datacenter of paths in a store that is not the cloud's own, such as one that trainings take
/// their data from. They begin at the top of the store, which has no homes.
pub(crate) const OUTSIDE: &str = "outside";

/// Opens a store that is not the cloud's own. It is not tried: who uses it finds out what they may.
pub(crate) fn open_outside(url: &StoreUrl, config: &StoreConfig) -> Result<Arc<dyn Files>> {
    Ok(match url.scheme {
        Scheme::Hdfs => Arc::new(hdfs::Hdfs::outside(url, config)?),
        _ => Arc::new(object::Objects::outside(url, config)?),
    })
}

/// Where a path is below the top of a store.
fn relative(path: &PfsPath) -> String {
    if path.datacenter() == OUTSIDE {
        return path.components().join("/");
    }
    let top = match path.owner() {
        Some(owner) => format!("home/{owner}"),
        None => "public".to_owned(),
    };
    path.components().iter().fold(top, |text, component| format!("{text}/{component}"))
}

/// The directory that has it, and its name there.
fn parent_of(path: &PfsPath) -> Result<(PfsPath, &str)> {
    let top = || {
        let message = "this is the top of a home or of the public area: name something in it";
        Error::invalid(message).with("path", path)
    };
    Ok((path.parent().ok_or_else(top)?, path.file_name().ok_or_else(top)?))
}

/// A directory about which a store knows nothing else.
fn plain_directory(path: String) -> Entry {
    let kind = EntryKind::Directory;
    Entry { path, kind, bytes: 0, modified_ms: 0, mode: 0o755, etag: String::new() }
}

fn is_a_directory(path: &PfsPath) -> Error {
    Error::invalid("this is a directory, where a file is needed").with("path", path)
}

fn file_on_the_way(path: &PfsPath) -> Error {
    Error::invalid("a file is on the way, where a directory is needed").with("path", path)
}

fn not_empty(path: &PfsPath) -> Error {
    let message = "the directory is not empty: use -r to remove all of it";
    Error::new(Kind::Conflict, message).with("path", path)
}

fn into_itself(path: &PfsPath) -> Error {
    Error::invalid("a directory cannot be moved into itself").with("path", path)
}

fn over_a_file(path: &PfsPath) -> Error {
    let message = "a directory cannot replace a file: remove the file first";
    Error::invalid(message).with("path", path)
}

fn taken(path: &PfsPath) -> Error {
    let message = "there is something already: remove it first";
    Error::new(Kind::AlreadyExists, message).with("path", path)
}

/// Whether a path is another one, or in it.
fn is_within(path: &PfsPath, top: &PfsPath) -> bool {
    path.owner() == top.owner() && path.components().starts_with(top.components())
}

/// Somebody replaced or removed the file while it was read.
fn replaced() -> Error {
    Error::new(Kind::Conflict, "the file was replaced while it was read: read it again")
}

/// Nothing is at the path. The original's clients look for these words.
pub(crate) fn missing(path: &impl std::fmt::Display) -> Error {
    Error::new(Kind::NotFound, "no such file or directory").with("path", path)
}

/// There is no room left for anybody's files.
pub(crate) fn disk_full(source: std::io::Error) -> Error {
    let message = "the datacenter's disk is full: remove files, or ask its administrator for room";
    Error::new(Kind::LimitExceeded, message).because(source)
}
