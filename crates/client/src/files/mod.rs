//! Users' files: looking at them, and moving many of them at once in both directions.
//!
//! What is moved is a list of [`Item`]s. Small files travel together, large ones in chunks; several
//! requests are on their way at the same time. Whatever breaks off is tried again, and goes on
//! where it was: the server keeps the chunks of an upload, a hidden file beside the target those of
//! a download. Every content is checked by its checksum on the other side, and appears whole.

pub(crate) mod local;
pub(crate) mod plan;
pub(crate) mod receive;
mod receive_small;
mod send;
mod send_small;
mod throttle;
#[cfg(not(target_os = "linux"))]
mod writer;

use crate::client::{Client, get, send};
use crate::jobs::delete;
use crate::retry::Outage;
use contract::api::file::{
    Attributes, DiskUsage, Entry, EntryKind, Link, ListLine, ListQuery, PathQuery, Progress,
    Relocate, RemoveQuery,
};
use contract::api::path;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
#[cfg(target_os = "linux")]
use disk::{RangeWriter, reserve};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throttle::Throttle;
use ureq::http::Method;
#[cfg(not(target_os = "linux"))]
use writer::{RangeWriter, reserve};

/// A file here and in the cloud, one of which becomes like the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it is on this machine.
    pub local: PathBuf,
    /// Where it is in the cloud.
    pub path: PfsPath,
    /// Its length.
    pub bytes: u64,
    /// Its permissions, where they are known.
    pub mode: Option<u32>,
    /// When it was changed.
    pub modified_ms: Option<u64>,
    /// The etag of what is downloaded; empty in an upload.
    pub etag: String,
}

/// How files are moved.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The size of chunks; absent for one that suits each file.
    pub chunk_bytes: Option<u64>,
    /// The most bytes per second, of all files together; 0 for as many as go.
    pub bytes_per_second: u64,
    /// Do not replace files.
    pub if_absent: bool,
}

/// What has become of one file.
#[derive(Debug)]
pub struct Outcome {
    /// Its bytes that went over the network.
    pub moved_bytes: u64,
    /// Why it is not there.
    pub error: Option<Error>,
}

/// Is told how it goes. Called by many threads.
pub trait Watcher: Sync {
    /// So many bytes more are done, whether they were sent or did not have to be.
    fn moved(&self, bytes: u64);
    /// A file is done.
    fn ended(&self, item: &Item, outcome: &Outcome);
    /// Something cannot be copied, so that it is no item at all.
    fn left_out(&self, name: &str, error: Error);
}

/// Everything about moving that is the same for all files.
pub(crate) struct Moving<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a Options,
    pub(crate) watcher: &'a dyn Watcher,
    pub(crate) throttle: Arc<Throttle>,
    outage: Outage,
}

/// How long a list may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The longest line of a list.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// A file up to this size goes in one request.
const SINGLE_BYTES_MAX: u64 = 16 << 20;
/// Requests of small files at the same time.
const SMALL_AT_ONCE: usize = 4;
/// Large files at the same time.
const LARGE_AT_ONCE: usize = 2;
/// Chunks of one file at the same time.
const CHUNKS_AT_ONCE: usize = 4;

impl Client {
    /// The path that somebody typed, as the server calls it. The datacenter may have another name
    /// in the configuration.
    pub fn pfs_path(&self, text: &str) -> Result<PfsPath> {
        let name = self.datacenter_name()?;
        let path = PfsPath::parse(text, &name)?;
        if path.datacenter() != self.datacenter.name || path.datacenter() == name {
            return Ok(path);
        }
        let top = match path.owner() {
            Some(owner) => PfsPath::home(&name, owner)?,
            None => PfsPath::public(&name)?,
        };
        top.join(&path.components().join("/"))
    }

    /// The caller's home.
    pub fn home(&self) -> Result<PfsPath> {
        PfsPath::home(&self.datacenter_name()?, &self.username()?)
    }

    /// What is at a path.
    pub fn stat(&self, path: &PfsPath) -> Result<Entry> {
        let entry: Entry = self.ask(&get(at(path::FILE_STAT, path), "look at a file"))?;
        match entry.path == path.to_string() {
            true => Ok(entry),
            false => Err(another_file(path)),
        }
    }

    /// As [`Client::stat`]; `None` where nothing is.
    pub fn find(&self, path: &PfsPath) -> Result<Option<Entry>> {
        match self.stat(path) {
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            entry => entry.map(Some),
        }
    }

    /// How much is below a path.
    pub fn disk_usage(&self, path: &PfsPath) -> Result<DiskUsage> {
        self.operate(&get(at(path::FILE_USAGE, path), "measure files"))
    }

    /// What is in a directory or matches a pattern, one after another.
    pub fn list(&self, query: &ListQuery, mut see: impl FnMut(Entry) -> Result<()>) -> Result<u64> {
        let path = format!(
            "{}?path={}&is_recursive={}&is_pattern={}&is_itself={}",
            path::FILES,
            path::encode(&query.path),
            query.is_recursive,
            query.is_pattern,
            query.is_itself
        );
        let call = get(path, "list files");
        let body =
            self.with_token(|token| self.transport.begin_stream(&call, Some(token), SILENCE_MAX))?;
        let mut lines = BufReader::new(body.into_reader());
        let broken = || Error::new(Kind::Unavailable, "the list of files broke off");
        loop {
            let mut line = Vec::new();
            let mut limited = Read::take(&mut lines, LINE_BYTES_MAX);
            limited.read_until(b'\n', &mut line).map_err(|source| broken().because(source))?;
            if line.is_empty() {
                return Err(broken());
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match crate::body::decode::<ListLine>(&line, call.what)? {
                ListLine::Entry(entry) => see(entry)?,
                ListLine::End(count) => return Ok(count),
            }
        }
    }

    /// Makes a directory and those above it.
    pub fn make_directory(&self, path: &PfsPath) -> Result<Entry> {
        let query = PathQuery { path: path.to_string() };
        let to = path::FILE_DIRECTORIES.to_owned();
        self.ask(&send(Method::POST, to, &query, "make a directory")?)
    }

    /// Removes a file, an empty directory, or a directory with all that is in it.
    pub fn remove(&self, query: &RemoveQuery) -> Result<()> {
        let (path, recursive) = (path::encode(&query.path), query.is_recursive);
        let path = format!("{}?path={path}&is_recursive={recursive}", path::FILES);
        self.operate(&delete(path, "remove files"))
    }

    /// Changes permissions or time of a file or directory.
    pub fn set_attributes(&self, asked: &Attributes) -> Result<Entry> {
        let to = path::FILE_ATTRIBUTES.to_owned();
        self.ask(&send(Method::POST, to, asked, "change permissions or time")?)
    }

    /// Gives a file or directory another name.
    pub fn rename(&self, asked: &Relocate) -> Result<Entry> {
        let mut call = send(Method::POST, path::FILE_MOVE.to_owned(), asked, "move files")?;
        // The second time nothing is there to be moved.
        call.repeat = crate::retry::Repeat::Unsafe;
        self.operate(&call)
    }

    /// Copies a file inside the cloud; `moved` is told of bytes that are done.
    pub fn copy_file(&self, asked: &Relocate, moved: impl Fn(u64)) -> Result<Entry> {
        let call = send(Method::POST, path::FILE_COPY.to_owned(), asked, "copy a file")?;
        let done = Cell::new(0);
        self.operate_seen(&call, &|Progress { bytes, .. }| {
            // A server that was started again begins again.
            moved(bytes.saturating_sub(done.get()));
            done.set(bytes.max(done.get()));
        })
    }

    /// Makes a link by which everybody may download a file.
    pub fn publish(&self, path: &PfsPath) -> Result<Link> {
        let query = PathQuery { path: path.to_string() };
        self.ask(&send(Method::POST, path::LINKS.to_owned(), &query, "publish a file")?)
    }

    /// The caller's links.
    pub fn links(&self) -> Result<Vec<Link>> {
        self.ask(&get(path::LINKS.to_owned(), "list links"))
    }

    /// Ends a link.
    pub fn revoke_link(&self, id: &str) -> Result<()> {
        self.call(&delete(path::fill(path::LINK, &[id]), "revoke a link")).map(|_| ())
    }

    /// Sends files, and tells the watcher of each.
    pub fn send_files(&self, items: Vec<Item>, options: &Options, watcher: &dyn Watcher) {
        let moving = Moving::new(self, options, watcher);
        let is_small = |item: &Item| item.bytes <= contract::api::pack::FILE_BYTES_MAX;
        let (small, large): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| is_small(item) && !options.if_absent);
        let (single, large): (Vec<_>, Vec<_>) =
            large.into_iter().partition(|item| item.bytes <= SINGLE_BYTES_MAX);
        in_parallel(SMALL_AT_ONCE, send_small::packs(small), |pack| moving.send_pack(&pack));
        in_parallel(SMALL_AT_ONCE, single, |item| {
            moving.watch(&item, || moving.send_single(&item));
        });
        in_parallel(LARGE_AT_ONCE, large, |item| moving.watch(&item, || moving.send_large(&item)));
    }

    /// Fetches files, and tells the watcher of each.
    pub fn receive_files(&self, items: Vec<Item>, options: &Options, watcher: &dyn Watcher) {
        let moving = Moving::new(self, options, watcher);
        let ready = |mut item: Item| match local::target(&item.local, options.if_absent) {
            Ok(target) => {
                item.local = target;
                Some(item)
            }
            Err(error) => {
                moving.told(&item, Err(error));
                None
            }
        };
        let is_small = |item: &Item| item.bytes <= contract::api::pack::FILE_BYTES_MAX;
        let (small, large): (Vec<_>, Vec<_>) =
            items.into_iter().filter_map(ready).partition(is_small);
        in_parallel(SMALL_AT_ONCE, send_small::packs(small), |pack| moving.receive_pack(pack));
        in_parallel(LARGE_AT_ONCE, large, |item| {
            moving.watch(&item, || moving.receive_large(&item));
        });
    }

    /// The bytes of a file, as they come, checked at the end of each piece.
    pub fn read_file(
        &self,
        path: &PfsPath,
        mut see: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let entry = self.stat(path)?;
        if entry.is_directory() {
            return Err(Error::invalid("this is a directory, and no file").with("path", path));
        }
        if entry.kind != EntryKind::File {
            return Err(plan::not_a_file(&entry));
        }
        let mut offset = 0;
        while offset < entry.bytes {
            let length = (entry.bytes - offset).min(PIECE_BYTES);
            let piece = self.patiently(|| self.read_range(path, &entry.etag, offset, length))?;
            see(&piece)?;
            offset += length;
        }
        Ok(())
    }
}

/// What is read at a time where nobody wants a file.
const PIECE_BYTES: u64 = 4 << 20;

impl<'a> Moving<'a> {
    fn new(client: &'a Client, options: &'a Options, watcher: &'a dyn Watcher) -> Self {
        let throttle = Arc::new(Throttle::new(options.bytes_per_second));
        Moving { client, options, watcher, throttle, outage: Outage::default() }
    }

    /// Asks again while the server is away.
    pub(crate) fn patiently<T>(&self, ask: impl FnMut() -> Result<T>) -> Result<T> {
        let Client { patience, notice, .. } = self.client;
        self.outage.patiently(*patience, notice, ask)
    }

    fn watch(&self, item: &Item, work: impl FnOnce() -> Result<u64>) {
        self.told(item, work());
    }

    /// Tells of a file that is done, or is not.
    pub(crate) fn told(&self, item: &Item, result: Result<u64>) {
        let outcome = match result {
            Ok(moved_bytes) => Outcome { moved_bytes, error: None },
            Err(error) => Outcome { moved_bytes: 0, error: Some(error) },
        };
        self.watcher.ended(item, &outcome);
    }
}

/// An answer that belongs to another question, as where two processes share a connection.
pub(crate) fn another_file(path: &PfsPath) -> Error {
    let message = "the server answered with another file than was asked for";
    Error::new(Kind::Damaged, message).with("file", path)
}

/// The path of a call about a file.
pub(crate) fn at(call: &str, path: &PfsPath) -> String {
    format!("{call}?path={}", path::encode(&path.to_string()))
}

/// Works on all items with so many threads.
pub(crate) fn in_parallel<T: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = threads.min(items.len());
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}
