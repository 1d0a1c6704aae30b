//! Downloads of large files, in chunks that come at the same time.
//!
//! They are written to a hidden file beside the target, whose name has the etag of what is
//! downloaded. Beside it a list of the chunks that are there, with their checksums, lets a later
//! attempt go on; what the list says is checked against the bytes first.

use super::local::{dress, occupied, unreadable, unwritable};
use super::send::each;
use super::{Item, Moving, RangeWriter, another_file, at, reserve};
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
use std::sync::{Mutex, PoisonError};
use ureq::Body;
use ureq::http::Response;

/// How hidden files of downloads end.
const PART: &str = ".download";
const LIST: &str = ".chunks";
/// So much of the name of the target is in that of its hidden file.
const NAME_BYTES: usize = 100;
/// How often a file may change under us.
const CHANGES_MAX: u32 = 3;
const READ_BYTES: usize = 256 << 10;
/// What may follow the last thing of an answer that matters.
const END_BYTES: u64 = 64;
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
                    let entry = self.patiently(|| self.client.stat(&item.path))?;
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
        partial.flushed(|flush| {
            each(missing, |index| {
                let is_on_disk = self.patiently(|| self.receive_chunk(item, &partial, index))?;
                let (offset, length) = chunks.place(index).unwrap_or((0, 0));
                if !is_on_disk && offset / FLUSH_BYTES != (offset + length) / FLUSH_BYTES {
                    flush();
                }
                moved.fetch_add(length, Ordering::Relaxed);
                self.watcher.moved(length);
                Ok(())
            })
        })?;
        partial.publish(item, self.options.if_absent)?;
        Ok(moved.into_inner())
    }

    /// Writes a chunk as it arrives; it counts when its checksum was right. Whether it is on the disk
    /// already.
    fn receive_chunk(&self, item: &Item, partial: &Partial, index: u64) -> Result<bool> {
        let (offset, length) = partial.chunks.place(index).unwrap_or((0, 0));
        let answer = self.client.ask_range(&item.path, &item.etag, offset, length)?;
        let refused = unwritable(&partial.path);
        let mut writer = RangeWriter::open(&partial.path, offset).map_err(&refused)?;
        let reader = self.throttle.pace(answer.into_body().into_reader());
        let sum = each_checked(reader, length, &mut writer).map_err(|failed| match failed {
            Failed::Source(error) => error,
            Failed::Disk(source) => refused(source),
        })?;
        let is_on_disk = writer.finish().map_err(&refused)?;
        partial.note(index, sum)?;
        Ok(is_on_disk)
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
        checked(answer.into_body().into_reader(), length)
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
        let answer =
            self.with_token(|token| self.transport.exchange(&call, Some(token), &headers))?;
        let told = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let range = format!("bytes {offset}-{last}/");
        // What a proxy leaves out is no other file's.
        let is_ours = told("etag").is_none_or(|told| told.trim_matches('"') == etag)
            && told("content-range").is_none_or(|told| told.starts_with(&range));
        match is_ours {
            true => Ok(answer),
            false => Err(another_file(path)),
        }
    }
}

/// Bytes that are followed by their checksum.
pub(crate) fn checked(reader: impl Read, length: u64) -> Result<Vec<u8>> {
    let bytes = usize::try_from(length)
        .map_err(|_| Error::new(Kind::LimitExceeded, "this is more than memory can hold"))?;
    let mut memory = Memory { bytes: vec![0; bytes], filled: 0 };
    match each_checked(reader, length, &mut memory) {
        Ok(_) => Ok(memory.bytes),
        Err(Failed::Source(error)) => Err(error),
        Err(Failed::Disk(source)) => Err(Error::io("cannot keep a content", source)),
    }
}

/// Where bytes that arrive are put.
trait Sink {
    /// Memory for the next bytes; none while it is full.
    fn room(&mut self) -> &mut [u8];
    /// So many were put there.
    fn advance(&mut self, count: usize);
    /// Makes room again.
    fn flush(&mut self) -> std::io::Result<()>;
}

impl Sink for RangeWriter {
    fn room(&mut self) -> &mut [u8] {
        RangeWriter::room(self)
    }

    fn advance(&mut self, count: usize) {
        RangeWriter::advance(self, count);
    }

    fn flush(&mut self) -> std::io::Result<()> {
        RangeWriter::flush(self)
    }
}

/// All of it in memory.
struct Memory {
    bytes: Vec<u8>,
    filled: usize,
}

impl Sink for Memory {
    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Why bytes did not get to where they belong.
enum Failed {
    Source(Error),
    Disk(std::io::Error),
}

/// Puts bytes where they belong as they arrive, and says at their end whether they were what their
/// checksum, which follows them, says. Each piece is summed while the processor has it at hand.
fn each_checked(
    mut reader: impl Read,
    length: u64,
    sink: &mut impl Sink,
) -> std::result::Result<Checksum, Failed> {
    let broken = |source| {
        let error = Error::new(Kind::Unavailable, "the download broke off").because(source);
        Failed::Source(error)
    };
    let (mut sum, mut left) = (Summing::new(), length);
    while left > 0 {
        let room = sink.room();
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(room.len()).min(READ_BYTES);
        let mut filled = 0;
        while filled < most {
            match reader.read(&mut room[filled..most]).map_err(broken)? {
                0 => return Err(broken(std::io::ErrorKind::UnexpectedEof.into())),
                count => filled += count,
            }
        }
        sum.add(&room[..most]);
        sink.advance(most);
        left -= most as u64;
        if sink.room().is_empty() {
            sink.flush().map_err(Failed::Disk)?;
        }
    }
    let mut told = Checksum([0; CHECKSUM_BYTES]);
    reader.read_exact(&mut told.0).map_err(broken)?;
    finish(reader);
    match sum.checksum() == told {
        true => Ok(told),
        // Another attempt may get it whole.
        false => Err(Failed::Source(Error::new(Kind::Unavailable, "a chunk arrived damaged"))),
    }
}

/// Reads the end of an answer, without which its connection would not be used again.
pub(super) fn finish(reader: impl Read) {
    let _ = std::io::copy(&mut reader.take(END_BYTES), &mut std::io::sink());
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
        let prefix = prefix(target);
        let (count, etag) = (chunks.count(), item.etag.get(..16).unwrap_or(&item.etag));
        let own = format!("{prefix}{etag}-{count}{PART}");
        forget_others(folder, &prefix, &own);
        let path = folder.join(&own);
        let list = folder.join(format!("{own}{LIST}"));
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        // Nobody else may read it before it has the permissions of the file.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(unwritable(target))?;
        if let Err(source) = reserve(&file, item.bytes) {
            let _ = fs::remove_file(&path);
            return Err(unwritable(target)(source));
        }
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

    /// Notes that a chunk is there.
    fn note(&self, index: u64, sum: Checksum) -> Result<()> {
        let line = format!("{index} {sum}\n");
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let list = File::options().create(true).append(true).open(&self.list);
        list.and_then(|mut list| list.write_all(line.as_bytes())).map_err(unwritable(&self.list))
    }

    /// Lets the disk write, each time `flush` is called, while more arrives.
    fn flushed(&self, work: impl FnOnce(&(dyn Fn() + Sync)) -> Result<()>) -> Result<()> {
        let refused = unwritable(&self.path);
        let file = File::options().write(true).open(&self.path).map_err(&refused)?;
        std::thread::scope(|scope| {
            let (ask, asked) = std::sync::mpsc::sync_channel(1);
            let flushing = scope.spawn(move || asked.iter().try_for_each(|()| file.sync_data()));
            let worked = work(&|| {
                // One that waits already is enough.
                let _ = ask.try_send(());
            });
            drop(ask);
            let lost = |_| Err(std::io::Error::other("a thread was lost"));
            let flushed = flushing.join().unwrap_or_else(lost).map_err(&refused);
            worked.and(flushed)
        })
    }

    /// Gives the whole file its name, unless that must be free and is not.
    fn publish(self, item: &Item, must_be_absent: bool) -> Result<()> {
        let refused = unwritable(&item.local);
        let file = File::options().write(true).open(&self.path).map_err(&refused)?;
        dress(&file, item.mode, item.modified_ms).map_err(&refused)?;
        file.sync_all().map_err(&refused)?;
        match must_be_absent.then(|| fs::hard_link(&self.path, &item.local)) {
            Some(Ok(())) => fs::remove_file(&self.path).map_err(&refused)?,
            // Not every file system has such links.
            Some(Err(_)) if item.local.symlink_metadata().is_ok() => {
                return Err(occupied(&item.local));
            }
            _ => fs::rename(&self.path, &item.local).map_err(&refused)?,
        }
        let _ = fs::remove_file(&self.list);
        Ok(())
    }
}

/// Whether a hidden file is what has arrived of a download to `target`, which a later one needs.
pub fn is_download_to(path: &Path, target: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.parent() == target.parent() && is_part(&name) && name.starts_with(&prefix(target))
}

fn is_part(name: &str) -> bool {
    name.strip_suffix(LIST).unwrap_or(name).ends_with(PART)
}

/// How the names of what belongs to downloads to a target begin, and those of no other target.
fn prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default();
    let sum = Checksum::of(name.as_encoded_bytes()).to_string();
    let name = name.to_string_lossy();
    let ends = (0..=name.len().min(NAME_BYTES)).rev();
    let short = ends.filter_map(|end| name.get(..end)).next().unwrap_or_default();
    format!(".{short}.{}.", sum.get(..16).unwrap_or(&sum))
}

/// Removes what is left of downloads of older contents.
fn forget_others(folder: &Path, prefix: &str, own: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) && is_part(&name) && !name.starts_with(own) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(local: PathBuf, etag: &str) -> Item {
        let path = PfsPath::public("dc").unwrap().join("x").unwrap();
        let etag = etag.to_owned();
        Item { local, path, bytes: 8192, mode: None, modified_ms: None, etag }
    }

    #[test]
    fn a_download_keeps_those_of_other_files_whatever_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let chunks = Chunks::new(8192, 4096).unwrap();
        let long = "é".repeat(115);
        let names =
            ["model", "model.data", "model.data.gz", &format!("{long}-1"), &format!("{long}-2")];
        let open = |name: &str, etag: &str| {
            Partial::open(&item(folder.path().join(name), etag), chunks).unwrap()
        };
        let partials: Vec<Partial> = names.iter().map(|name| open(name, "0123")).collect();
        for partial in &partials {
            partial.note(0, Checksum::of(b"")).unwrap();
        }
        // Each goes on where it was.
        for (name, partial) in names.iter().zip(&partials) {
            assert_eq!(open(name, "0123").path, partial.path);
        }
        assert!(partials.iter().all(|partial| partial.path.exists() && partial.list.exists()));
        // A newer content of one takes the place of its older one.
        let newer = open("model", "4567");
        assert!(newer.path.exists() && !partials[0].path.exists() && !partials[0].list.exists());
        assert!(partials[1..].iter().all(|partial| partial.path.exists()));
    }
}
