//! Uploads: a file in one request, or in chunks that go at the same time.

use super::local::{source, unreadable};
use super::{CHUNKS_AT_ONCE, Item, Moving, at, in_parallel};
use crate::client::send;
use crate::jobs::delete;
use crate::retry::Repeat;
use crate::transport::{Call, Content};
use contract::api::file::{Begin, Checksums, Chunks, Completed, EntryKind, Upload};
use contract::api::path;
use contract::checksum::{CHECKSUM_BYTES, Checksum, Summing};
use contract::{Error, Kind, Result};
use std::fs::{File, Metadata};
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::http::Method;

/// How often a chunk may arrive damaged, an upload may be found incomplete, or may vanish.
const ATTEMPTS_MAX: u32 = 3;
/// How long a server may take to end an upload, beside a second for each MiB.
const END_MAX: Duration = Duration::from_secs(600);

impl Moving<'_> {
    /// Sends a file in one request.
    pub(super) fn send_single(&self, item: &Item) -> Result<u64> {
        let (mut file, before) = open(item)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(unreadable(&item.local))?;
        check_unchanged(item, &before)?;
        let bytes = content.len() as u64;
        let content = Arc::new(content);
        let checksum = Checksum::of(&content);
        let mut to = format!("{}&checksum={checksum}", at(path::FILE_CONTENT, &item.path));
        if let Some(mode) = item.mode {
            to.push_str(&format!("&mode={mode}"));
        }
        if let Some(ms) = item.modified_ms {
            to.push_str(&format!("&modified_ms={ms}"));
        }
        let headers = match self.options.if_absent {
            true => vec![("if-none-match", "*".to_owned())],
            false => Vec::new(),
        };
        let attempts = AtomicU64::new(0);
        let sent = self.repeatedly(|| {
            attempts.fetch_add(1, Ordering::Relaxed);
            let open = || Ok(self.throttle.pace(Cursor::new(Shared(Arc::clone(&content)))));
            let call = Call {
                method: Method::PUT,
                path: to.clone(),
                content: Content::Stream(bytes, &open),
                repeat: Repeat::Safe,
                what: "upload a file",
                answer: None,
            };
            let client = self.client;
            client.with_token(|token| client.transport.exchange(&call, Some(token), &headers))
        });
        self.watcher.moved(bytes);
        match sent {
            // The answer to an attempt before may have been lost.
            Err(error)
                if error.kind() == Kind::AlreadyExists
                    && attempts.into_inner() > 1
                    && self.is_there(item, checksum)? =>
            {
                Ok(bytes)
            }
            sent => sent.map(|_| bytes),
        }
    }

    /// Whether the cloud has just this content.
    fn is_there(&self, item: &Item, checksum: Checksum) -> Result<bool> {
        let entry = self.patiently(|| self.client.stat(&item.path))?;
        if entry.kind != EntryKind::File || entry.bytes != item.bytes || item.bytes == 0 {
            return Ok(entry.kind == EntryKind::File && entry.bytes == item.bytes);
        }
        let read = || self.client.read_range(&item.path, &entry.etag, 0, item.bytes);
        Ok(Checksum::of(&self.patiently(read)?) == checksum)
    }

    /// Sends a file in chunks. Continues an upload that broke off; of a file that is there already,
    /// sends what differs.
    pub(super) fn send_large(&self, item: &Item) -> Result<u64> {
        for _ in 1..ATTEMPTS_MAX {
            match self.send_chunks(item) {
                // The server has forgotten the upload, as after a day without a word.
                Err(error) if error.kind() == Kind::NotFound && item.local.exists() => {}
                result => return result,
            }
        }
        self.send_chunks(item)
    }

    fn send_chunks(&self, item: &Item) -> Result<u64> {
        let (_, before) = open(item)?;
        let chunk_bytes = self.options.chunk_bytes.unwrap_or_else(|| Chunks::suitable(item.bytes));
        let chunks = Chunks::new(item.bytes, chunk_bytes)?;
        let begin = Begin {
            path: item.path.to_string(),
            bytes: item.bytes,
            chunk_bytes,
            source: source(&item.local, &before),
            mode: item.mode,
            modified_ms: item.modified_ms,
            if_absent: self.options.if_absent,
            if_match: None,
        };
        let what = "begin an upload";
        let call = send(Method::POST, path::UPLOADS.to_owned(), &begin, what)?;
        let mut upload: Upload = self.patiently(|| self.client.ask(&call))?;
        let file = Sending {
            moving: self,
            item,
            chunks,
            id: upload.id.clone(),
            sums: Mutex::new(vec![None; usize::try_from(chunks.count()).unwrap_or(0)]),
            sent: AtomicU64::new(0),
        };
        if upload.existing.is_some() {
            upload = file.reuse()?;
        }
        let mut missing = chunks.indices(&upload.missing);
        let skipped = (0..chunks.count()).filter(|index| missing.binary_search(index).is_err());
        let bytes = skipped.filter_map(|index| chunks.place(index)).map(|(_, length)| length);
        self.watcher.moved(bytes.sum());
        for _ in 0..ATTEMPTS_MAX {
            file.send(missing)?;
            file.sum_all()?;
            if let Err(error) = check_unchanged(item, &before) {
                file.abandon();
                return Err(error);
            }
            match file.complete()? {
                Completed { entry: Some(_), .. } => return Ok(file.sent.into_inner()),
                Completed { missing: again, .. } => missing = chunks.indices(&again),
            }
        }
        let message = "the server found the upload damaged again and again";
        Err(Error::new(Kind::Damaged, message).with("file", item.local.display()))
    }

    /// Tries again what the network or the server's death broke off, and what arrived damaged.
    fn repeatedly<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        loop {
            match self.patiently(&work) {
                Err(error) if error.kind() == Kind::Damaged && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }
}

/// A file on its way.
struct Sending<'a> {
    moving: &'a Moving<'a>,
    item: &'a Item,
    chunks: Chunks,
    id: String,
    sums: Mutex<Vec<Option<Checksum>>>,
    sent: AtomicU64,
}

impl Sending<'_> {
    /// Lets the server take what is the same in the file that is there.
    fn reuse(&self) -> Result<Upload> {
        self.sum_all()?;
        let to = path::fill(path::UPLOAD_REUSE, &[&self.id]);
        let call = send(Method::POST, to, &self.checksums(), "compare a file")?;
        self.moving.patiently(|| self.moving.client.ask(&call))
    }

    fn complete(&self) -> Result<Completed> {
        let to = path::fill(path::UPLOAD_COMPLETE, &[&self.id]);
        let call = send(Method::POST, to, &self.checksums(), "complete an upload")?;
        // A large file takes a while to its store. Every answer says that it goes on.
        let deadline = Instant::now() + END_MAX + Duration::from_secs(self.item.bytes >> 20);
        loop {
            let completed: Completed = self.moving.patiently(|| self.moving.client.ask(&call))?;
            if !completed.is_working {
                return Ok(completed);
            }
            if Instant::now() > deadline {
                let message = "the server is still bringing the file to its store: look at its \
                               log, or copy again later, which goes on from here";
                return Err(
                    Error::new(Kind::Timeout, message).with("file", self.item.local.display())
                );
            }
        }
    }

    fn abandon(&self) {
        let path = path::fill(path::UPLOAD, &[&self.id]);
        // It would be removed some day without.
        let _ = self.moving.client.call(&delete(path, "give up an upload"));
    }

    fn send(&self, missing: Vec<u64>) -> Result<()> {
        each(missing, |index| self.send_chunk(index))
    }

    /// Sends a chunk as it is read, its checksum behind it: each piece is summed and sent while the
    /// processor has it at hand.
    fn send_chunk(&self, index: u64) -> Result<()> {
        let (_, length) = self.chunks.place(index).unwrap_or((0, 0));
        let to = path::fill(path::UPLOAD_CHUNK, &[&self.id, &index.to_string()]);
        let to = format!("{to}?is_checked=true");
        let sum = self.moving.repeatedly(|| {
            let outcome = Outcome::default();
            let open = || Ok(self.moving.throttle.pace(self.chunk(index, &outcome)?));
            let call = Call {
                method: Method::PUT,
                path: to.clone(),
                content: Content::Stream(length + CHECKSUM_BYTES as u64, &open),
                repeat: Repeat::Safe,
                what: "upload a chunk",
                answer: None,
            };
            let sent = self.moving.client.call(&call);
            match (taken(&outcome), sent) {
                (Some(Err(source)), _) => Err(self.unreadable(source)),
                (Some(Ok(sum)), Ok(_)) => Ok(sum),
                (_, Err(error)) => Err(error),
                (None, Ok(_)) => {
                    let message = "the server answered before it had all of a chunk";
                    Err(Error::new(Kind::Damaged, message))
                }
            }
        })?;
        self.note(index, sum);
        self.sent.fetch_add(length, Ordering::Relaxed);
        self.moving.watcher.moved(length);
        Ok(())
    }

    /// Computes the checksums of chunks that were not read yet.
    fn sum_all(&self) -> Result<()> {
        let unknown: Vec<u64> = {
            let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            (0..).zip(sums.iter()).filter(|(_, sum)| sum.is_none()).map(|(at, _)| at).collect()
        };
        each(unknown, |index| {
            let outcome = Outcome::default();
            let read = std::io::copy(&mut self.chunk(index, &outcome)?, &mut std::io::sink());
            match (taken(&outcome), read) {
                (Some(Ok(sum)), _) => {
                    self.note(index, sum);
                    Ok(())
                }
                (Some(Err(source)), _) | (None, Err(source)) => Err(self.unreadable(source)),
                (None, Ok(_)) => Err(changed(self.item)),
            }
        })
    }

    fn note(&self, index: u64, checksum: Checksum) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = usize::try_from(index).ok().and_then(|index| sums.get_mut(index)) {
            *sum = Some(checksum);
        }
    }

    fn checksums(&self) -> Checksums {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        Checksums { checksums: sums.iter().flatten().copied().collect() }
    }

    /// A chunk as it lies in the file.
    fn chunk(&self, index: u64, outcome: &Outcome) -> Result<SummedRange> {
        let (offset, left) = self.chunks.place(index).unwrap_or((0, 0));
        let refused = unreadable(&self.item.local);
        let mut file = File::open(&self.item.local).map_err(&refused)?;
        file.seek(SeekFrom::Start(offset)).map_err(&refused)?;
        Ok(SummedRange { file, left, sum: Summing::new(), tail: None, outcome: outcome.clone() })
    }

    /// Nobody but this machine can do something about it.
    fn unreadable(&self, source: std::io::Error) -> Error {
        match source.kind() {
            ErrorKind::UnexpectedEof => changed(self.item),
            _ => unreadable(&self.item.local)(source),
        }
    }
}

/// Works on all chunks; the first error, after which no other chunk is begun.
pub(super) fn each(indices: Vec<u64>, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    in_parallel(CHUNKS_AT_ONCE, indices, |index| {
        if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        if let Err(error) = work(index) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// What became of a chunk that was read: its checksum, once all of it was.
type Outcome = Arc<Mutex<Option<std::io::Result<Checksum>>>>;

fn taken(outcome: &Outcome) -> Option<std::io::Result<Checksum>> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A range of a file, and the checksum of it behind it.
struct SummedRange {
    file: File,
    left: u64,
    sum: Summing,
    tail: Option<Cursor<[u8; CHECKSUM_BYTES]>>,
    outcome: Outcome,
}

impl Read for SummedRange {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(tail) = &mut self.tail {
            return tail.read(buffer);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = loop {
            match self.file.read(&mut buffer[..most]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) if most > 0 => break Err(ErrorKind::UnexpectedEof.into()),
                read => break read,
            }
        };
        let count = match read {
            Ok(count) => count,
            Err(error) => {
                let copy = std::io::Error::new(error.kind(), error.to_string());
                *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(Err(error));
                return Err(copy);
            }
        };
        self.sum.add(&buffer[..count]);
        self.left -= count as u64;
        if self.left == 0 {
            let sum = self.sum.checksum();
            *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ok(sum));
            self.tail = Some(Cursor::new(sum.0));
        }
        Ok(count)
    }
}

/// Bytes that several attempts read.
pub(super) struct Shared(pub(super) Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn open(item: &Item) -> Result<(File, Metadata)> {
    let file = File::open(&item.local).map_err(unreadable(&item.local))?;
    let metadata = file.metadata().map_err(unreadable(&item.local))?;
    match metadata.len() == item.bytes {
        true => Ok((file, metadata)),
        false => Err(changed(item)),
    }
}

/// A file that was written meanwhile may be a mix of two.
fn check_unchanged(item: &Item, before: &Metadata) -> Result<()> {
    let now = std::fs::metadata(&item.local).map_err(unreadable(&item.local))?;
    let is_same = now.len() == before.len() && now.modified().ok() == before.modified().ok();
    if is_same { Ok(()) } else { Err(changed(item)) }
}

pub(super) fn changed(item: &Item) -> Error {
    let message = "the file was changed while it was sent: try again when it is finished";
    Error::new(Kind::Conflict, message).with("file", item.local.display())
}
