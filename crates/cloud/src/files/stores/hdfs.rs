//! Files in HDFS, through the crate `hdfs-native`: OpenDAL's writes and renames there are not atomic.
//!
//! A file is written below a hidden directory and gets its name by a rename with overwrite, which
//! the name node does in one step. All files belong to the one user of the configuration, whatever
//! user of the cloud wrote them: who may see what is decided by the cloud.
//!
//! HDFS has no mark that changes with a file's content and that lists show. Time and length are
//! nearly one, but the time is the user's own. So every file gets a block size of its own, a little
//! above the usual one, and the three together are the mark.

mod errors;

use super::{
    Condition, Files, Opened, Publication, Renaming, Source, UNNAMED, file_on_the_way, into_itself,
    is_a_directory, is_within, missing, over_a_file, parent_of, plain_directory, relative,
    replaced, taken,
};
use crate::blocking::blocking;
use crate::config::{StoreConfig, StoreUrl};
use crate::files::{Owner, unusable};
use bytes::{Bytes, BytesMut};
use contract::api::file::{DiskUsage, Entry, EntryKind};
use contract::checksum::Checksum;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use errors::{refused, told, trouble};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use std::fs::File;
use std::future::Future;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The files of one datacenter, below a directory of HDFS.
#[derive(Debug)]
pub(crate) struct Hdfs {
    client: Client,
    /// Where everything is, without a slash at its end.
    root: String,
    /// Whether it is not the cloud's own: a file without a name is then beside what it will be.
    is_outside: bool,
}

/// Who owns the files where nobody says.
const USER: &str = "paddle";

/// How long the name node may take to answer, and a data node to take or give a piece.
const ANSWER: Duration = Duration::from_secs(60);
/// How long the name node may take to be reached when the server starts.
const CONNECT: Duration = Duration::from_secs(10);
/// How much is written at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// Files that are published at the same time.
const FILES_AT_ONCE: usize = 8;
const DIRECTORY_MODE: u32 = 0o755;
/// The usual size of a block, to which less than as much is added.
const BLOCK_BYTES: u64 = 128 << 20;
/// Block sizes are multiples of what has a checksum.
const SUMMED_BYTES: u64 = 512;
/// Looks at a file that is replaced all the time.
const LOOKS_MAX: u32 = 16;
/// How long the name node may take to hear of a file's last block.
const REPORT: Duration = Duration::from_secs(30);
/// The time until it is asked again: at first, and at most.
const REPORT_LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl Hdfs {
    /// Opens a store, after it was tried.
    pub(crate) async fn open(url: &StoreUrl, config: &StoreConfig) -> Result<Self> {
        let store = Hdfs::connect(url, config)?;
        reach(&url.authority).await?;
        store.probe(config.user.as_deref().unwrap_or(USER)).await?;
        Ok(store)
    }

    /// A store that is not the cloud's own, in which only some directories may be written.
    pub(crate) fn outside(url: &StoreUrl, config: &StoreConfig) -> Result<Self> {
        Ok(Hdfs { is_outside: true, ..Hdfs::connect(url, config)? })
    }

    fn connect(url: &StoreUrl, config: &StoreConfig) -> Result<Self> {
        let user = config.user.as_deref().unwrap_or(USER);
        let mut builder =
            ClientBuilder::new().with_url(format!("hdfs://{}", url.authority)).with_user(user);
        if let Some(directory) = &config.config_dir {
            builder = builder.with_config_dir(directory.display().to_string());
        }
        let client = builder.build().map_err(|error| told(error, user))?;
        let root = match url.path.is_empty() {
            true => String::new(),
            false => format!("/{}", url.path),
        };
        Ok(Hdfs { client, root, is_outside: false })
    }

    /// The name of a file that has none yet.
    fn unnamed(&self, path: &PfsPath) -> Result<String> {
        let word = crate::random::word::<20>()?;
        match (self.is_outside, self.locate(path).rsplit_once('/')) {
            (true, Some((folder, _))) => Ok(format!("{folder}/.{word}")),
            _ => Ok(format!("{}/{UNNAMED}/{word}", self.root)),
        }
    }

    /// Tries what the cloud will need: to look, to make a directory, to write, to remove.
    async fn probe(&self, user: &str) -> Result<()> {
        let failed = |error| told(error, user);
        let client = &self.client;
        if !self.root.is_empty() {
            within(client.get_file_info(&self.root)).await?.map_err(failed)?;
        }
        let folder = format!("{}/{UNNAMED}", self.root);
        within(client.mkdirs(&folder, 0o700, true)).await?.map_err(failed)?;
        let name = format!("{folder}/probe-{}", crate::random::word::<12>()?);
        let writing = async {
            let mut writer = client.create(&name, WriteOptions::default()).await?;
            writer.write_bytes(Bytes::from_static(b"probe")).await?;
            writer.close().await
        };
        let written = within(writing).await?.map_err(failed);
        let removed = within(client.delete(&name, false)).await?.map_err(failed);
        written.and(removed.map(|_| ()))
    }

    fn locate(&self, path: &PfsPath) -> String {
        match relative(path) {
            top if top.is_empty() && !self.root.is_empty() => self.root.clone(),
            relative => format!("{}/{relative}", self.root),
        }
    }

    /// Asks the name node.
    async fn ask<T>(
        &self,
        path: &PfsPath,
        question: impl Future<Output = hdfs_native::Result<T>>,
    ) -> Result<T> {
        within(question)
            .await
            .map_err(|error| error.with("path", path))?
            .map_err(|error| refused(error, path))
    }

    async fn status(&self, path: &PfsPath) -> Result<FileStatus> {
        self.ask(path, self.client.get_file_info(&self.locate(path))).await
    }

    async fn stat_now(&self, path: &PfsPath) -> Result<Entry> {
        match self.status(path).await {
            // A home is there before anything is in it.
            Err(error) if error.kind() == Kind::NotFound && path.file_name().is_none() => {
                Ok(plain_directory(path.to_string()))
            }
            status => Ok(entry(path.to_string(), &status?)),
        }
    }

    /// What is at a path, if there is anything.
    async fn there(&self, path: &PfsPath) -> Result<Option<Entry>> {
        match self.stat_now(path).await {
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            entry => entry.map(Some),
        }
    }

    async fn list_now(&self, path: &PfsPath) -> Result<Vec<Entry>> {
        if !self.stat_now(path).await?.is_directory() {
            return Err(file_on_the_way(path));
        }
        let listing = self.ask(path, self.client.list_status(&self.locate(path), false)).await;
        let found = match listing {
            Err(error) if error.kind() == Kind::NotFound && path.file_name().is_none() => {
                return Ok(Vec::new());
            }
            found => found?,
        };
        let named = found.iter().map(|status| {
            let name = status.path.rsplit('/').next().unwrap_or_default();
            entry(format!("{path}/{name}"), status)
        });
        let mut entries: Vec<Entry> = named.collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    async fn open_now(&self, path: &PfsPath) -> Result<Opened> {
        if self.stat_now(path).await?.is_directory() {
            return Err(is_a_directory(path));
        }
        let place = self.locate(path);
        let (status, reader) = self.open_whole(path, &place).await?;
        let entry = entry(path.to_string(), &status);
        let source = Blocks { reader, client: self.client.clone(), place, etag: etag(&status) };
        Ok(Opened { entry, source: Box::new(source) })
    }

    /// Opens a file, with its status.
    ///
    /// A cluster may let a file be closed before a data node has reported its last block
    /// (`dfs.namenode.file.close.num-committed-allowed`). Until then its status has the whole
    /// length, and whoever opens it finds nothing of that block.
    async fn open_whole(&self, path: &PfsPath, place: &str) -> Result<(FileStatus, FileReader)> {
        let asked = Instant::now();
        let (mut pause, longest) = REPORT_LOOK;
        let mut replacements = 0;
        while replacements < LOOKS_MAX {
            let before = self.ask(path, self.client.get_file_info(place)).await?;
            let reader = self.ask(path, self.client.read(place)).await?;
            // What was opened and what was described are the same if nothing came between.
            let after = self.ask(path, self.client.get_file_info(place)).await?;
            if etag(&before) != etag(&after) {
                replacements += 1;
            } else if reader.file_length() == after.length {
                return Ok((after, reader));
            } else if asked.elapsed() < REPORT {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            } else {
                return Err(unreported(path));
            }
        }
        let message = "the file is replaced all the time: try again";
        Err(Error::new(Kind::Unavailable, message).with("path", path))
    }

    /// Makes the directory above a path.
    async fn make_above(&self, path: &PfsPath) -> Result<()> {
        let (parent, _) = parent_of(path)?;
        let parent = self.locate(&parent);
        let made = self.ask(path, self.client.mkdirs(&parent, DIRECTORY_MODE, true)).await;
        made.map_err(|error| match error.kind() {
            Kind::AlreadyExists => file_on_the_way(path),
            _ => error,
        })
    }

    async fn publish_now(&self, file: &Publication) -> Result<Entry> {
        let path = &file.path;
        self.make_above(path).await?;
        let there = self.there(path).await?;
        if there.as_ref().is_some_and(Entry::is_directory) {
            return Err(is_a_directory(path));
        }
        file.condition.check(there.as_ref())?;
        let unnamed = self.unnamed(path)?;
        let published = self.write(file, &unnamed).await;
        if published.is_err() {
            let _ = within(self.client.delete(&unnamed, false)).await;
        }
        let entry = published?;
        // It is in the store: what is left here is swept.
        let staged = file.staged.clone();
        let _ = blocking(move || std::fs::remove_file(&staged).map_err(unusable(&staged))).await;
        Ok(entry)
    }

    /// Writes a file without a name, then gives it the one it is to have.
    async fn write(&self, file: &Publication, unnamed: &str) -> Result<Entry> {
        let path = &file.path;
        let (source, bytes) = {
            let staged = file.staged.clone();
            blocking(move || {
                let file = File::open(&staged).map_err(unusable(&staged))?;
                let bytes = file.metadata().map_err(unusable(&staged))?.len();
                Ok((Arc::new(file), bytes))
            })
            .await?
        };
        let odd = u64::from(u32::from_le_bytes(crate::random::bytes::<4>()?));
        let block_bytes = BLOCK_BYTES + odd % (BLOCK_BYTES / SUMMED_BYTES) * SUMMED_BYTES;
        let options = WriteOptions::default().block_size(block_bytes).permission(0o600);
        let mut writer = self.ask(path, self.client.create(unnamed, options)).await?;
        let mut offset = 0;
        while offset < bytes {
            let length = usize::try_from(PIECE_BYTES.min(bytes - offset)).unwrap_or(usize::MAX);
            let file = Arc::clone(&source);
            let piece = blocking(move || {
                let mut piece = BytesMut::zeroed(length);
                let read = file.read_exact_at(&mut piece, offset);
                read.map_err(|source| Error::io("the server cannot read an upload", source))?;
                Ok(piece.freeze())
            })
            .await?;
            self.ask(path, writer.write_bytes(piece)).await?;
            offset += length as u64;
        }
        self.ask(path, writer.close()).await?;
        let modified_ms = file.modified_ms.unwrap_or_else(crate::clock::now_ms);
        self.ask(path, self.client.set_permission(unnamed, file.mode & 0o777)).await?;
        self.ask(path, self.client.set_times(unnamed, modified_ms, modified_ms)).await?;
        // From the moment that it has its name it can be read.
        let (status, _) = self.open_whole(path, unnamed).await?;
        let is_overwriting = !file.condition.if_absent;
        let target = self.locate(path);
        let renamed = self.ask(path, self.client.rename(unnamed, &target, is_overwriting)).await;
        renamed.map_err(|error| match error.kind() {
            // Somebody was quicker than the look before.
            Kind::AlreadyExists if is_overwriting => is_a_directory(path),
            _ => error,
        })?;
        Ok(entry(path.to_string(), &status))
    }

    async fn rename_now(&self, from: &PfsPath, to: &PfsPath, how: Renaming) -> Result<Entry> {
        parent_of(from)?;
        let source = self.stat_now(from).await?;
        if from == to {
            return Ok(source);
        }
        if is_within(to, from) && source.is_directory() {
            return Err(into_itself(to));
        }
        let there = self.there(to).await?;
        Condition { if_absent: how.if_absent, if_match: None }.check(there.as_ref())?;
        match there {
            Some(there) if there.is_directory() && !source.is_directory() => {
                return Err(is_a_directory(to));
            }
            Some(there) if !there.is_directory() && source.is_directory() => {
                return Err(over_a_file(to));
            }
            _ => {}
        }
        self.make_above(to).await?;
        let (old, new) = (self.locate(from), self.locate(to));
        let renamed = self.ask(to, self.client.rename(&old, &new, !how.if_absent)).await;
        renamed.map_err(|error| match error.kind() {
            Kind::AlreadyExists | Kind::Conflict => taken(to),
            _ => error,
        })?;
        self.stat_now(to).await
    }

    async fn remove_now(&self, path: &PfsPath, is_recursive: bool) -> Result<()> {
        parent_of(path)?;
        let is_there = self.status(path).await?;
        let is_recursive = is_recursive && is_there.isdir;
        let place = self.locate(path);
        match self.ask(path, self.client.delete(&place, is_recursive)).await? {
            true => Ok(()),
            false => Err(missing(path)),
        }
    }

    async fn sweep_now(&self, age: Duration) -> Result<u64> {
        let folder = format!("{}/{UNNAMED}", self.root);
        let listed = within(self.client.list_status(&folder, false)).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut removed = 0;
        for status in listed.map_err(trouble)? {
            let changed = Duration::from_millis(status.modification_time);
            if now.saturating_sub(changed) >= age
                && matches!(within(self.client.delete(&status.path, true)).await, Ok(Ok(true)))
            {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl Files for Hdfs {
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
            let each: Vec<_> = files.iter().map(|file| self.publish_now(file)).collect();
            stream::iter(each).buffered(FILES_AT_ONCE).collect().await
        })
    }

    fn make_directory(&self, path: PfsPath, _: Owner) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move {
            let target = self.locate(&path);
            self.ask(&path, self.client.mkdirs(&target, DIRECTORY_MODE, true)).await.map_err(
                |error| match error.kind() {
                    Kind::AlreadyExists => file_on_the_way(&path),
                    _ => error,
                },
            )?;
            self.stat_now(&path).await
        })
    }

    fn rename(&self, from: PfsPath, to: PfsPath, how: Renaming) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move { self.rename_now(&from, &to, how).await })
    }

    fn remove(&self, path: PfsPath, is_recursive: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.remove_now(&path, is_recursive).await })
    }

    fn dress(
        &self,
        path: PfsPath,
        mode: Option<u32>,
        modified_ms: Option<u64>,
    ) -> BoxFuture<'_, Result<Entry>> {
        Box::pin(async move {
            // Homes and the public area have the permissions that the server needs.
            parent_of(&path)?;
            let place = self.locate(&path);
            if let Some(mode) = mode {
                self.ask(&path, self.client.set_permission(&place, mode & 0o777)).await?;
            }
            if let Some(ms) = modified_ms {
                self.ask(&path, self.client.set_times(&place, ms, ms)).await?;
            }
            self.stat_now(&path).await
        })
    }

    fn total(&self, path: PfsPath) -> BoxFuture<'_, Result<Option<DiskUsage>>> {
        Box::pin(async move {
            let place = self.locate(&path);
            match within(self.client.get_content_summary(&place)).await? {
                Err(HdfsError::FileNotFound(_)) => Ok(None),
                Err(error) => Err(refused(error, &path)),
                Ok(summary) if summary.directory_count == 0 => Ok(None),
                Ok(summary) => Ok(Some(DiskUsage {
                    bytes: summary.length,
                    files: summary.file_count,
                    // It counts the one that was asked about.
                    directories: summary.directory_count.saturating_sub(1),
                })),
            }
        })
    }

    fn sweep(&self, age: Duration) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.sweep_now(age))
    }
}

/// The blocks of a file that was opened. They are removed some time after the file is replaced, and
/// belong to no other file ever.
struct Blocks {
    reader: FileReader,
    client: Client,
    place: String,
    etag: String,
}

impl Source for Blocks {
    fn pieces(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if range.is_empty() {
            return Box::pin(stream::empty());
        }
        let length = size(range.end - range.start);
        let pieces = self.reader.read_range_stream(size(range.start), length);
        let state = (Box::pin(pieces), self);
        // The reader has to live as long as the stream.
        Box::pin(stream::unfold(Some(state), |state| async move {
            let (mut pieces, blocks) = state?;
            match tokio::time::timeout(ANSWER, pieces.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(piece))) => Some((Ok(piece), Some((pieces, blocks)))),
                Ok(Some(Err(error))) => Some((Err(blocks.broken(error).await), None)),
                Err(_) => Some((Err(silent()), None)),
            }
        }))
    }
}

impl Blocks {
    /// Why a read broke off: the blocks of a file that was replaced are gone after a while, and
    /// look like those whose data nodes are away.
    async fn broken(&self, error: HdfsError) -> Error {
        match within(self.client.get_file_info(&self.place)).await {
            Ok(Ok(status)) if etag(&status) == self.etag => errors::broken(error),
            Ok(Ok(_) | Err(HdfsError::FileNotFound(_))) => replaced().because(error),
            _ => errors::broken(error),
        }
    }
}

/// Says at once that nobody listens, where the client would try for minutes. What has no port is the
/// name of several name nodes.
async fn reach(authority: &str) -> Result<()> {
    if !authority.contains(':') {
        return Ok(());
    }
    let message = "the name node cannot be reached: look at the URL of `files:`";
    let unreachable = || Error::new(Kind::Unavailable, message).with("name_node", authority);
    match tokio::time::timeout(CONNECT, tokio::net::TcpStream::connect(authority)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(unreachable().because(source)),
        Err(_) => Err(unreachable()),
    }
}

/// Waits for an answer, with a limit.
async fn within<T>(question: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(ANSWER, question).await.map_err(|_| silent())
}

fn silent() -> Error {
    let message = format!("HDFS does not answer within {} s: try again", ANSWER.as_secs());
    Error::new(Kind::Timeout, message)
}

fn unreported(path: &PfsPath) -> Error {
    let message = format!(
        "HDFS has not heard of the file's last block within {} s: are its data nodes alive? try \
         again",
        REPORT.as_secs()
    );
    Error::new(Kind::Unavailable, message).with("path", path)
}

fn entry(path: String, status: &FileStatus) -> Entry {
    let is_file = !status.isdir;
    Entry {
        path,
        kind: if is_file { EntryKind::File } else { EntryKind::Directory },
        bytes: if is_file { status.length as u64 } else { 0 },
        modified_ms: status.modification_time,
        mode: u32::from(status.permission) & 0o777,
        etag: if is_file { etag(status) } else { String::new() },
    }
}

fn etag(status: &FileStatus) -> String {
    let blocks = status.blocksize.unwrap_or(0);
    let facts = format!("{} {} {blocks}", status.length, status.modification_time);
    Checksum::of(facts.as_bytes()).to_string()[..32].to_owned()
}

#[cfg(test)]
mod tests;
