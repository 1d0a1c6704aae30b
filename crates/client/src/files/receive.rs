//! Downloads of large files, in chunks that come at the same time.
//!
//! They are written to a hidden file beside the target, whose name has the etag of what is
//! downloaded. Beside it a list of the chunks that are there, with their checksums, lets a later
//! attempt go on; what the list says is checked against the bytes first.

use super::local::{dress, unreadable, unwritable};
use super::send::each;
use super::throttle::Throttle;
use super::{Item, Moving, at};
use crate::client::{Client, get};
use contract::api::file::Chunks;
use contract::api::path;
use contract::checksum::{CHECKSUM_BYTES, Checksum, Summing};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use ureq::Body;
use ureq::http::Response;

/// How hidden files of downloads end.
const PART: &str = ".download";
const LIST: &str = ".chunks";
/// How often a file may change under us.
const CHANGES_MAX: u32 = 3;
const READ_BYTES: usize = 256 << 10;
/// The disk begins to write after so many bytes, instead of all of them at the end.
const FLUSH_BYTES: u64 = 32 << 20;

impl Moving<'_> {
    /// Fetches a file, or the rest of it.
    pub(super) fn receive_large(&self, item: &Item) -> Result<u64> {
        let mut item = item.clone();
        for _ in 1..CHANGES_MAX {
            match self.receive_chunks(&item) {
                Err(error) if error.kind() == Kind::Conflict => {
                    // Somebody has replaced the file: the new one it is.
                    let entry = self.client.stat(&item.path)?;
                    item = Item {
                        bytes: entry.bytes,
                        etag: entry.etag,
                        mode: Some(entry.mode),
                        modified_ms: Some(entry.modified_ms),
                        ..item
                    };
                }
                result => return result,
            }
        }
        self.receive_chunks(&item)
    }

    fn receive_chunks(&self, item: &Item) -> Result<u64> {
        let chunk_bytes = self.options.chunk_bytes.unwrap_or_else(|| Chunks::suitable(item.bytes));
        let chunks = Chunks::new(item.bytes, chunk_bytes)?;
        let partial = Partial::open(item, chunks)?;
        let there = partial.there()?;
        let mut bytes = 0;
        for (_, length) in there.keys().filter_map(|index| chunks.place(*index)) {
            bytes += length;
        }
        self.watcher.moved(bytes);
        let missing = (0..chunks.count()).filter(|index| !there.contains_key(index)).collect();
        let moved = AtomicU64::new(0);
        each(missing, |index| {
            let (offset, length) = chunks.place(index).unwrap_or((0, 0));
            let (chunk, sum) = self
                .client
                .patiently(|| self.client.read_paced(item, offset, length, &self.throttle))?;
            partial.write(index, offset, &chunk, sum)?;
            moved.fetch_add(length, Ordering::Relaxed);
            self.watcher.moved(length);
            Ok(())
        })?;
        partial.publish(item)?;
        Ok(moved.into_inner())
    }
}

impl Client {
    /// A range of a file of this etag, checked.
    pub fn read_range(
        &self,
        path: &PfsPath,
        etag: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let answer = self.ask_range(path, etag, offset, length)?;
        checked(answer.into_body().into_reader(), length).map(|(bytes, _)| bytes)
    }

    /// As [`Client::read_range`], at a rate.
    fn read_paced(
        &self,
        item: &Item,
        offset: u64,
        length: u64,
        throttle: &Arc<Throttle>,
    ) -> Result<(Vec<u8>, Checksum)> {
        let answer = self.ask_range(&item.path, &item.etag, offset, length)?;
        checked(throttle.pace(answer.into_body().into_reader()), length)
    }

    fn ask_range(
        &self,
        path: &PfsPath,
        etag: &str,
        offset: u64,
        length: u64,
    ) -> Result<Response<Body>> {
        let call =
            get(format!("{}&is_checked=true", at(path::FILE_CONTENT, path)), "download a file");
        let last = offset + length.max(1) - 1;
        let headers =
            [("range", format!("bytes={offset}-{last}")), ("if-match", format!("\"{etag}\""))];
        self.with_token(|token| self.transport.exchange(&call, Some(token), &headers))
    }
}

/// Bytes that are followed by their checksum, and that.
pub(crate) fn checked(mut reader: impl Read, length: u64) -> Result<(Vec<u8>, Checksum)> {
    let broken = |source| Error::new(Kind::Unavailable, "the download broke off").because(source);
    let expected = usize::try_from(length).unwrap_or(0);
    let mut chunk = vec![0; expected + CHECKSUM_BYTES];
    let mut filled = 0;
    while filled < chunk.len() {
        let end = (filled + READ_BYTES).min(chunk.len());
        let count = reader.read(&mut chunk[filled..end]).map_err(broken)?;
        if count == 0 {
            return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
        }
        filled += count;
    }
    let sum = chunk.split_off(expected);
    let found = Checksum::of(&chunk);
    match found.0[..] == sum[..] {
        true => Ok((chunk, found)),
        // Another attempt may get it whole.
        false => Err(Error::new(Kind::Unavailable, "a chunk arrived damaged")),
    }
}

/// A file of which some chunks are there.
struct Partial {
    path: PathBuf,
    list: PathBuf,
    chunks: Chunks,
    /// The list is written by one thread at a time.
    turn: Mutex<()>,
}

impl Partial {
    fn open(item: &Item, chunks: Chunks) -> Result<Self> {
        let target = &item.local;
        if target.is_dir() {
            let message = "this is a directory, where a file is needed";
            return Err(Error::invalid(message).with("file", target.display()));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(unwritable(folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let prefix = format!(".{}.", name.chars().take(100).collect::<String>());
        let (count, etag) = (chunks.count(), item.etag.get(..16).unwrap_or(&item.etag));
        let own = format!("{prefix}{etag}-{count}{PART}");
        forget_others(folder, &prefix, &own);
        let path = folder.join(&own);
        let list = folder.join(format!("{own}{LIST}"));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(unwritable(target))?;
        file.set_len(item.bytes).map_err(unwritable(target))?;
        Ok(Partial { path, list, chunks, turn: Mutex::new(()) })
    }

    /// The chunks that are there and whole.
    fn there(&self) -> Result<BTreeMap<u64, Checksum>> {
        let text = fs::read_to_string(&self.list).unwrap_or_default();
        let mut there = BTreeMap::new();
        let mut file = File::open(&self.path).map_err(unreadable(&self.path))?;
        for line in text.lines() {
            let Some((index, sum)) = line.split_once(' ') else { continue };
            let (Ok(index), Ok(sum)) = (index.parse(), sum.parse::<Checksum>()) else { continue };
            if self.sum_of(&mut file, index) == Some(sum) {
                there.insert(index, sum);
            }
        }
        Ok(there)
    }

    fn sum_of(&self, file: &mut File, index: u64) -> Option<Checksum> {
        let (offset, length) = self.chunks.place(index)?;
        file.seek(SeekFrom::Start(offset)).ok()?;
        let (mut sum, mut buffer) = (Summing::new(), vec![0; READ_BYTES]);
        let mut left = usize::try_from(length).ok()?;
        while left > 0 {
            let piece = &mut buffer[..left.min(READ_BYTES)];
            file.read_exact(piece).ok()?;
            sum.add(piece);
            left -= piece.len();
        }
        Some(sum.checksum())
    }

    fn write(&self, index: u64, offset: u64, chunk: &[u8], sum: Checksum) -> Result<()> {
        let refused = unwritable(&self.path);
        let mut file = File::options().write(true).open(&self.path).map_err(&refused)?;
        file.seek(SeekFrom::Start(offset)).map_err(&refused)?;
        file.write_all(chunk).map_err(&refused)?;
        if offset / FLUSH_BYTES != (offset + chunk.len() as u64) / FLUSH_BYTES {
            file.sync_data().map_err(&refused)?;
        }
        let line = format!("{index} {sum}\n");
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let list = File::options().create(true).append(true).open(&self.list);
        list.and_then(|mut list| list.write_all(line.as_bytes())).map_err(unwritable(&self.list))
    }

    /// Gives the whole file its name.
    fn publish(self, item: &Item) -> Result<()> {
        let refused = unwritable(&item.local);
        let file = File::options().write(true).open(&self.path).map_err(&refused)?;
        dress(&file, item.mode, item.modified_ms).map_err(&refused)?;
        file.sync_all().map_err(&refused)?;
        fs::rename(&self.path, &item.local).map_err(&refused)?;
        let _ = fs::remove_file(&self.list);
        Ok(())
    }
}

/// Removes what is left of downloads of older contents.
fn forget_others(folder: &Path, prefix: &str, own: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.starts_with(prefix)
            && (name.ends_with(PART) || name.ends_with(&format!("{PART}{LIST}")))
            && !name.starts_with(own);
        if is_ours {
            let _ = fs::remove_file(entry.path());
        }
    }
}
