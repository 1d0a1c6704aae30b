//! Bytes on their way: uploads that are not complete.
//!
//! Every upload is a directory `<user>/<id>` that only the server may enter, on the disk of the
//! files if they are in a directory, so that publishing is a rename:
//!
//! - `upload.json`: what was asked for; written first, and never changed;
//! - `data`: the file, at its full length from the start, so that a full disk is noticed then;
//! - `parts`: for every chunk whether it has arrived, and its checksum;
//! - `done.json`: the file as it was published, so that the last call can be repeated. The upload
//!   is in `<user>/ended/<id>` from then on, where nobody who looks for unfinished ones meets it.
//!
//! All that is known about an upload is on the disk: the server may be killed at any time, and
//! several servers may share the directory. Two writers of one path have an upload each.
//!
//! Bytes are summed as they arrive, on their way to the disk. `parts` is not synced; what it says is
//! a hint. The end of an upload believes the sums that this very process has computed, as long as
//! nobody else has written to `data` since (its time of change tells); everything else, such as what
//! was there before the server was started again, it reads again before anybody sees the file.
//!
//! A lock on `data` keeps writers of chunks and the end of the upload apart: after the file was
//! published nobody writes into it any more.

mod receiving;
mod summed;

pub(crate) use receiving::{Receiving, Told};

use super::make_private;
use super::stores::{disk_full, missing};
use contract::api::file::{Begin, Chunks, Completed, Entry, Span};
use contract::checksum::{CHECKSUM_BYTES, Checksum, Summing};
use contract::{Error, Kind, Result};
use disk::{Access, RangeWriter};
use rustix::fs::{FlockOperation, flock};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use summed::{Changed, Summed};
use tempfile::TempDir;
use tokio::sync::Mutex as Turn;
use tokio::task::JoinHandle;

/// Where uploads of one datacenter are kept.
#[derive(Debug, Clone)]
pub(crate) struct Staging {
    root: PathBuf,
    /// The uploads that are being ended, by their names.
    ends: Arc<Mutex<HashMap<String, End>>>,
    summed: Summed,
}

/// An upload that was begun.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Its name.
    pub(crate) id: String,
    /// What was asked for.
    pub(crate) begin: Begin,
    pub(crate) chunks: Chunks,
    directory: PathBuf,
    summed: Summed,
}

/// A file that can only be read from its beginning.
pub(crate) struct Existing<R> {
    pub(crate) bytes: u64,
    pub(crate) content: R,
    /// When enough was read of it.
    pub(crate) deadline: Instant,
}

/// The task that ends an upload, while there is one.
pub(crate) type End = Arc<Turn<Option<JoinHandle<Result<Completed>>>>>;

/// An upload whose every byte is right. While it is held nobody writes to it.
#[derive(Debug)]
pub(crate) struct Whole {
    _lock: File,
}

/// The longest an upload's end waits for chunks that are being written.
const QUIET: Duration = Duration::from_secs(30);
/// Uploads that one user may have open.
const UPLOADS_MAX: usize = 1000;
const META: &str = "upload.json";
const DATA: &str = "data";
const PARTS: &str = "parts";
const DONE: &str = "done.json";
/// Uploads that have ended; no id is this word.
const ENDED: &str = "ended";
/// Has arrived, and the checksum.
const RECORD_BYTES: usize = 1 + CHECKSUM_BYTES;
const READ_BYTES: usize = 256 << 10;
/// The disk begins to write after so many bytes, instead of all of them when the upload ends.
const FLUSH_BYTES: u64 = 32 << 20;

impl Staging {
    /// Uploads below a directory, which other servers may use, too.
    pub(crate) fn open(root: &Path, is_shared: bool) -> Result<Self> {
        make_private(root)?;
        let summed = Summed::new(is_shared);
        Ok(Staging { root: root.to_owned(), ends: Arc::default(), summed })
    }

    /// The unfinished upload of the same source to the same path.
    pub(crate) fn earlier(&self, username: &str, begin: &Begin) -> Option<Staged> {
        let is_same = |earlier: &Staged| earlier.begin == *begin && earlier.is_open();
        match begin.source.is_empty() {
            true => None,
            false => self.uploads(username).find(is_same),
        }
    }

    /// Begins an upload.
    pub(crate) fn begin(&self, username: &str, begin: &Begin) -> Result<Staged> {
        let chunks = Chunks::new(begin.bytes, begin.chunk_bytes)?;
        if self.uploads(username).filter(Staged::is_open).count() >= UPLOADS_MAX {
            let message = "too many uploads are not finished: finish some, or wait until they are \
                           removed";
            return Err(Error::new(Kind::LimitExceeded, message).with("uploads_max", UPLOADS_MAX));
        }
        let id = crate::random::word::<20>()?;
        let folder = self.folder(username)?;
        let fresh = self.scratch(username)?;
        let data = File::create_new(fresh.path().join(DATA)).map_err(refused)?;
        allocate(&data, begin.bytes)?;
        File::create_new(fresh.path().join(PARTS)).map_err(refused)?;
        let meta = crate::database::to_json(begin)?;
        disk::publish(&fresh.path().join(META), Access::Private, meta.as_bytes())?;
        let directory = folder.join(&id);
        fs::rename(fresh.path(), &directory).map_err(refused)?;
        // It has another name now.
        let _ = fresh.keep();
        disk::sync_folder(&folder)?;
        let summed = self.summed.clone();
        Ok(Staged { id, begin: begin.clone(), chunks, directory, summed })
    }

    /// The upload of this name.
    pub(crate) fn find(&self, username: &str, id: &str) -> Result<Option<Staged>> {
        let is_name =
            !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_name {
            return Ok(None);
        }
        let folder = self.root.join(username);
        match Staged::load(folder.join(id), &self.summed)? {
            None => Staged::load(folder.join(ENDED).join(id), &self.summed),
            found => Ok(found),
        }
    }

    /// The end of an upload, for whoever waits for it.
    pub(crate) fn end(&self, id: &str) -> End {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        // Not those that have ended and that nobody waits for: whoever asks again gets an answer of
        // its own, by `done.json` if the file was published.
        ends.retain(|_, end| {
            let is_running = |task: &JoinHandle<_>| !task.is_finished();
            Arc::strong_count(end) > 1
                || end.try_lock().is_ok_and(|task| task.as_ref().is_some_and(is_running))
        });
        Arc::clone(ends.entry(id.to_owned()).or_default())
    }

    /// What a user's unfinished uploads will need.
    pub(crate) fn reserved(&self, username: &str) -> u64 {
        let open = self.uploads(username).filter(Staged::is_open);
        open.map(|upload| upload.begin.bytes).sum()
    }

    /// A directory for files that are written in one go, removed when it is dropped.
    pub(crate) fn scratch(&self, username: &str) -> Result<TempDir> {
        let folder = self.folder(username)?;
        tempfile::Builder::new().prefix("new-").tempdir_in(folder).map_err(refused)
    }

    /// Removes uploads that nobody has touched for so long.
    pub(crate) fn sweep(&self, age: Duration) -> u64 {
        let mut removed = 0;
        let users = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for user in users {
            let folders = [user.path(), user.path().join(ENDED)];
            let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).ok()).flatten();
            for upload in entries.flatten().filter(|entry| entry.file_name() != ENDED) {
                let touched = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified());
                let times = [upload.path(), upload.path().join(PARTS), upload.path().join(DATA)];
                let newest = times.into_iter().filter_map(|path| touched(path).ok()).max();
                let is_old = newest.is_some_and(|at| at.elapsed().is_ok_and(|old| old >= age));
                if is_old && fs::remove_dir_all(upload.path()).is_ok() {
                    self.summed.forget(&upload.file_name().to_string_lossy());
                    removed += 1;
                }
            }
        }
        removed
    }

    fn folder(&self, username: &str) -> Result<PathBuf> {
        let folder = self.root.join(username);
        make_private(&folder)?;
        Ok(folder)
    }

    fn uploads(&self, username: &str) -> impl Iterator<Item = Staged> + use<> {
        let entries = fs::read_dir(self.root.join(username)).into_iter().flatten().flatten();
        let summed = self.summed.clone();
        entries.filter_map(move |entry| Staged::load(entry.path(), &summed).ok().flatten())
    }
}

impl Staged {
    fn load(directory: PathBuf, summed: &Summed) -> Result<Option<Self>> {
        let text = match fs::read_to_string(directory.join(META)) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(refused(source)),
        };
        let damaged =
            || Error::new(Kind::Damaged, "what is kept of an upload is damaged: begin again");
        let begin: Begin = serde_json::from_str(&text).map_err(|_| damaged())?;
        let chunks = Chunks::new(begin.bytes, begin.chunk_bytes).map_err(|_| damaged())?;
        let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let summed = summed.clone();
        Ok(Some(Staged { id, begin, chunks, directory, summed }))
    }

    /// Since when it is there. Zero where that cannot be told.
    pub(crate) fn age(&self) -> Duration {
        let begun = fs::metadata(self.directory.join(META)).and_then(|found| found.modified());
        begun.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }

    /// Where the bytes are.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join(DATA)
    }

    /// Whether chunks can be sent.
    fn is_open(&self) -> bool {
        self.has_data() && !self.directory.join(DONE).exists()
    }

    fn has_data(&self) -> bool {
        self.data().exists()
    }

    /// The file, if the upload has ended.
    pub(crate) fn done(&self) -> Option<Entry> {
        // It may have ended since it was found.
        let places = [Some(self.directory.clone()), self.ended()];
        let mut texts = places.into_iter().flatten().map(|place| place.join(DONE));
        let text = texts.find_map(|file| fs::read_to_string(file).ok())?;
        serde_json::from_str(&text).ok()
    }

    /// Remembers that the file was published.
    pub(crate) fn finish(&self, entry: &Entry) -> Result<()> {
        self.summed.forget(&self.id);
        let text = crate::database::to_json(entry)?;
        disk::publish(&self.directory.join(DONE), Access::Private, text.as_bytes())?;
        if let Some(ended) = self.ended()
            && let Some(folder) = ended.parent()
        {
            // Where it is it has ended, too.
            let _ = make_private(folder).map(|()| fs::rename(&self.directory, &ended));
        }
        Ok(())
    }

    /// Where it is after its end; `None` if it is there.
    fn ended(&self) -> Option<PathBuf> {
        let folder = self.directory.parent()?;
        (folder.file_name()? != ENDED).then(|| folder.join(ENDED).join(&self.id))
    }

    /// Forgets the upload.
    pub(crate) fn remove(&self) -> Result<()> {
        self.summed.forget(&self.id);
        match fs::remove_dir_all(&self.directory) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(refused(source)),
            _ => Ok(()),
        }
    }

    /// The chunks that have not arrived.
    pub(crate) fn missing(&self) -> Result<Vec<Span>> {
        let parts = self.parts()?;
        Ok(self.chunks.spans(|index| parts.get(index).is_none()))
    }

    /// Begins to take a chunk in.
    pub(crate) fn receive(self, index: u64, told: Told) -> Result<Receiving> {
        let (offset, length) = self.place(index)?;
        let data = self.open_data()?;
        let locked = flock(&data, FlockOperation::NonBlockingLockShared);
        if locked.is_err() || !self.has_data() {
            let message = "the upload is being completed: its chunks cannot be changed now";
            return Err(Error::new(Kind::Conflict, message).with("upload", &self.id));
        }
        let writing = self.summed.write(&self.id, index);
        self.mark(index, None)?;
        let writer = RangeWriter::open(&self.data(), offset).map_err(refused)?;
        let sum = Summing::new();
        let (staged, done) = (self, 0);
        Ok(Receiving { staged, index, offset, length, done, sum, told, writer, writing, data })
    }

    /// Takes the chunks that are the same in `existing`.
    pub(crate) fn reuse(&self, existing: &File, checksums: &[Checksum]) -> Result<()> {
        self.check_count(checksums)?;
        let length = existing.metadata().map_err(refused)?.len();
        let data = self.open_data()?;
        if flock(&data, FlockOperation::NonBlockingLockShared).is_err() || !self.has_data() {
            return Err(self.gone());
        }
        let parts = self.parts()?;
        let take = |index: u64| -> Result<bool> {
            let (offset, bytes) = self.place(index)?;
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let is_there = parts.get(index).is_some() || offset.saturating_add(bytes) > length;
            let Some(expected) = checksums.get(at).filter(|_| !is_there) else { return Ok(false) };
            // Somebody may write into it: the end of the upload looks again.
            if sum_of(existing, offset, bytes).ok().as_ref() == Some(expected) {
                let _writing = self.summed.write(&self.id, index);
                copy(existing, &data, offset, bytes)?;
                self.mark(index, Some(*expected))?;
            }
            Ok(false)
        };
        self.check_chunks(take).map(|_| ())
    }

    /// Takes the chunks that are the same in a file that can only be read from its beginning.
    pub(crate) fn reuse_read(
        &self,
        existing: &mut Existing<impl Read>,
        checksums: &[Checksum],
    ) -> Result<()> {
        self.check_count(checksums)?;
        let data = self.open_data()?;
        if flock(&data, FlockOperation::NonBlockingLockShared).is_err() || !self.has_data() {
            return Err(self.gone());
        }
        let parts = self.parts()?;
        let mut buffer = vec![0; READ_BYTES];
        for (index, expected) in (0..).zip(checksums) {
            let (offset, bytes) = self.place(index)?;
            // What is not compared in time is sent.
            if offset.saturating_add(bytes) > existing.bytes || Instant::now() > existing.deadline {
                break;
            }
            let is_there = parts.get(index).is_some();
            // It may have arrived since `parts` was read: then its sum is not believed any more.
            let _writing = (!is_there).then(|| self.summed.write(&self.id, index));
            let (mut sum, mut done) = (Summing::new(), 0);
            while done < bytes {
                let left = usize::try_from(bytes - done).unwrap_or(usize::MAX);
                let piece = &mut buffer[..left.min(READ_BYTES)];
                // What cannot be read is sent.
                if existing.content.read_exact(piece).is_err() {
                    return Ok(());
                }
                sum.add(piece);
                // Of a chunk that turns out another one, nobody believes what is written here.
                if !is_there {
                    data.write_all_at(piece, offset + done).map_err(refused)?;
                }
                done += piece.len() as u64;
            }
            if !is_there && sum.checksum() == *expected {
                self.mark(index, Some(*expected))?;
            }
        }
        Ok(())
    }

    /// Looks whether every chunk is right, and is on the disk when this returns. `Ok(Err(_))` are the
    /// chunks that are not what they should be.
    pub(crate) fn verify(
        &self,
        checksums: &[Checksum],
    ) -> Result<std::result::Result<Whole, Vec<Span>>> {
        self.check_count(checksums)?;
        let data = self.open_data()?;
        let deadline = Instant::now() + QUIET;
        while flock(&data, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > deadline {
                let message = "chunks of the upload are still being written: try again";
                return Err(Error::new(Kind::Unavailable, message).with("upload", &self.id));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if !self.has_data() {
            return Err(self.gone());
        }
        let (parts, summed) = (self.parts()?, self.summed.of(&self.id, changed(&data)?));
        let is_wrong = |index: u64| -> Result<bool> {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            let expected = checksums.get(at).copied();
            if expected.is_none() || parts.get(index) != expected {
                return Ok(true);
            }
            if summed.get(&index).copied() == expected {
                return Ok(false);
            }
            let (offset, length) = self.place(index)?;
            Ok(Some(sum_of(&data, offset, length)?) != expected)
        };
        let wrong = std::thread::scope(|scope| {
            let syncing = scope.spawn(|| data.sync_data().map_err(refused));
            let wrong = self.check_chunks(is_wrong);
            syncing.join().unwrap_or_else(|_| Err(panicked())).and(wrong)
        })?;
        if wrong.is_empty() {
            return Ok(Ok(Whole { _lock: data }));
        }
        for index in &wrong {
            self.mark(*index, None)?;
        }
        let mut wrong = wrong.into_iter().peekable();
        Ok(Err(self.chunks.spans(|index| wrong.next_if_eq(&index).is_some())))
    }

    /// The chunks for which `is_wrong` holds, asked by several threads.
    fn check_chunks(&self, is_wrong: impl Fn(u64) -> Result<bool> + Sync) -> Result<Vec<u64>> {
        const THREADS: u64 = 4;
        let count = self.chunks.count();
        let look = |first: u64| -> Result<Vec<u64>> {
            let mut wrong = Vec::new();
            for index in (first..count).step_by(THREADS as usize) {
                if is_wrong(index)? {
                    wrong.push(index);
                }
            }
            Ok(wrong)
        };
        let mut wrong = std::thread::scope(|scope| {
            let look = &look;
            let threads: Vec<_> =
                (0..THREADS.min(count)).map(|first| scope.spawn(move || look(first))).collect();
            let found: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
                .collect();
            found.into_iter().collect::<Result<Vec<_>>>()
        })?
        .concat();
        wrong.sort_unstable();
        Ok(wrong)
    }

    fn place(&self, index: u64) -> Result<(u64, u64)> {
        self.chunks.place(index).ok_or_else(|| {
            let message = "the upload has no such chunk";
            Error::invalid(message).with("chunk", index).with("chunks", self.chunks.count())
        })
    }

    fn check_count(&self, checksums: &[Checksum]) -> Result<()> {
        let count = self.chunks.count();
        match checksums.len() as u64 == count {
            true => Ok(()),
            false => Err(Error::invalid("give one checksum for each chunk")
                .with("chunks", count)
                .with("checksums", checksums.len())),
        }
    }

    fn open_data(&self) -> Result<File> {
        match File::options().read(true).write(true).open(self.data()) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(self.gone()),
            opened => opened.map_err(refused),
        }
    }

    fn gone(&self) -> Error {
        let message = "the upload has ended, or was removed: begin again";
        Error::new(Kind::NotFound, message).with("upload", &self.id)
    }

    fn parts(&self) -> Result<Parts> {
        let bytes = fs::read(self.directory.join(PARTS)).map_err(|source| {
            match source.kind() == std::io::ErrorKind::NotFound {
                true => self.gone(),
                false => refused(source),
            }
        })?;
        Ok(Parts(bytes))
    }

    /// Notes that a chunk has arrived, or has not.
    fn mark(&self, index: u64, checksum: Option<Checksum>) -> Result<()> {
        let parts =
            File::options().write(true).open(self.directory.join(PARTS)).map_err(refused)?;
        let mut record = [0; RECORD_BYTES];
        if let Some(Checksum(bytes)) = checksum {
            record[0] = 1;
            record[1..].copy_from_slice(&bytes);
        }
        parts.write_all_at(&record, index * RECORD_BYTES as u64).map_err(refused)
    }
}

/// What is known about the chunks of an upload.
struct Parts(Vec<u8>);

impl Parts {
    fn get(&self, index: u64) -> Option<Checksum> {
        let at = usize::try_from(index).ok()?.checked_mul(RECORD_BYTES)?;
        let record = self.0.get(at..at.checked_add(RECORD_BYTES)?)?;
        let sum = record[1..].try_into().ok()?;
        (record[0] == 1).then_some(Checksum(sum))
    }
}

fn sum_of(file: &File, offset: u64, length: u64) -> Result<Checksum> {
    let mut sum = Summing::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut done = 0;
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        let piece = &mut buffer[..left.min(READ_BYTES)];
        file.read_exact_at(piece, offset + done).map_err(refused)?;
        sum.add(piece);
        done += piece.len() as u64;
    }
    Ok(sum.checksum())
}

fn copy(from: &File, to: &File, offset: u64, length: u64) -> Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut done = 0;
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        let piece = &mut buffer[..left.min(READ_BYTES)];
        from.read_exact_at(piece, offset + done).map_err(refused)?;
        to.write_all_at(piece, offset + done).map_err(refused)?;
        done += piece.len() as u64;
    }
    Ok(())
}

fn changed(data: &File) -> Result<Changed> {
    let now = data.metadata().map_err(refused)?;
    Ok((now.ctime(), now.ctime_nsec()))
}

/// Gives a file its full length, and the disk's promise that there is room where it makes one.
pub(crate) fn allocate(file: &File, bytes: u64) -> Result<()> {
    disk::reserve(file, bytes).map_err(|source| refused(source).with("needed_bytes", bytes))
}

fn panicked() -> Error {
    Error::new(Kind::Io, "the server could not check the upload: see its log")
}

fn refused(source: std::io::Error) -> Error {
    use std::io::ErrorKind::{NotFound, QuotaExceeded, StorageFull};
    match source.kind() {
        StorageFull | QuotaExceeded => disk_full(source),
        NotFound => missing(&"upload").because(source),
        _ => Error::io("the server cannot keep an upload", source),
    }
}

#[cfg(test)]
mod tests;
