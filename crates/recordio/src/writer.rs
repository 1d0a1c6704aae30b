//! Records → chunks → a file, or any other sink of bytes.

use crate::CHUNK_BYTES_LIMIT;
use crate::codec;
use crate::header::{Compressor, HEADER_BYTES, Header, Layout};
use contract::{Error, Kind, Result};
use disk::{Access, PendingFile};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

/// How to write. The default is what the original writes.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Field order and snappy style.
    pub layout: Layout,
    /// How payloads are stored.
    pub compressor: Compressor,
    /// A chunk is closed before a record that would take its records (not counting their length
    /// words) past this many bytes.
    pub chunk_bytes: u64,
    /// A chunk is closed at this many records, so that small or empty ones cannot pile up.
    pub chunk_records: u32,
    /// Threads that compress; 0 or 1 compresses on the caller's thread.
    pub threads: usize,
    /// A larger record is refused, because readers would refuse it by default.
    pub record_bytes_max: u64,
}

impl WriteOptions {
    /// The original's options for this layout: 32 MiB chunks (Go), 1000 records (Fluid), snappy.
    pub fn new(layout: Layout) -> Self {
        WriteOptions {
            layout,
            compressor: Compressor::Snappy,
            chunk_bytes: 32 << 20,
            chunk_records: match layout {
                Layout::Go => 1 << 22,
                Layout::Fluid => 1000,
            },
            threads: 0,
            record_bytes_max: CHUNK_BYTES_LIMIT - 4,
        }
    }

    fn check(&self) -> Result<()> {
        if !self.layout.supports(self.compressor) {
            return Err(Error::new(
                Kind::Unsupported,
                "this layout has no such compressor; use none or snappy, or the go layout",
            )
            .with("layout", self.layout)
            .with("compressor", self.compressor));
        }
        Ok(())
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions::new(Layout::Go)
    }
}

/// What a finished writer has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes records. Nothing is complete before [`Writer::close`] or [`Writer::finish`].
pub struct Writer<W> {
    sink: W,
    options: WriteOptions,
    payload: Vec<u8>,
    records: u32,
    written: Written,
    compressing: Option<Compressing>,
    // A chunk that failed half-way leaves a sink that must not be continued.
    has_failed: bool,
}

// Chunks on their way through the pool, oldest first: they are written in the order of records.
struct Compressing {
    pool: ThreadPool,
    chunks: VecDeque<Receiver<Result<Encoded>>>,
}

struct Encoded {
    header: [u8; HEADER_BYTES],
    stored: Vec<u8>,
}

impl Writer<PendingFile> {
    /// Writes the file at `path`; it appears there, complete, when the writer is closed. RecordIO
    /// has no end mark: half a file cut at a chunk boundary would pass for a whole one.
    pub fn create(path: &Path, options: WriteOptions) -> Result<Self> {
        options.check()?;
        Writer::new(PendingFile::create(path, Access::Ordinary)?, options)
    }

    /// Writes what is left and publishes the file.
    pub fn close(self) -> Result<Written> {
        let path = self.sink.path().to_path_buf();
        let (file, written) = self.finish().map_err(|error| error.with("file", path.display()))?;
        file.publish()?;
        Ok(written)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to any sink.
    pub fn new(sink: W, options: WriteOptions) -> Result<Self> {
        options.check()?;
        let compressing = match options.threads {
            0 | 1 => None,
            threads => {
                let pool = ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|rank| format!("recordio-compress-{rank}"))
                    .build()
                    .map_err(|source| {
                        Error::new(Kind::Io, "cannot start compression threads").because(source)
                    })?;
                Some(Compressing { pool, chunks: VecDeque::new() })
            }
        };
        Ok(Writer {
            sink,
            options,
            payload: Vec::new(),
            records: 0,
            written: Written::default(),
            compressing,
            has_failed: false,
        })
    }

    /// Adds a record.
    pub fn write(&mut self, record: &[u8]) -> Result<()> {
        if self.has_failed {
            return Err(Error::new(Kind::Conflict, "this writer has failed before; start anew"));
        }
        let bytes = record.len() as u64;
        if bytes > self.options.record_bytes_max.min(u64::from(u32::MAX) - 4) {
            return Err(Error::new(Kind::LimitExceeded, "record is larger than allowed")
                .with("record_bytes", bytes)
                .with("limit_bytes", self.options.record_bytes_max));
        }
        if self.closes_chunk(record.len()) {
            self.close_chunk()?;
        }
        self.payload.extend_from_slice(&(bytes as u32).to_le_bytes());
        self.payload.extend_from_slice(record);
        self.records += 1;
        self.written.records += 1;
        Ok(())
    }

    /// Whether adding a record of this size first compresses and writes the chunk before it.
    pub fn closes_chunk(&self, record_bytes: usize) -> bool {
        let chunk_bytes = self.payload.len() as u64 - 4 * u64::from(self.records);
        let is_full = chunk_bytes + record_bytes as u64 > self.options.chunk_bytes
            || self.records >= self.options.chunk_records;
        self.records > 0 && is_full
    }

    /// Writes what is left and hands the sink back.
    pub fn finish(mut self) -> Result<(W, Written)> {
        if self.has_failed {
            return Err(Error::new(Kind::Conflict, "this writer has failed before; start anew"));
        }
        if self.records > 0 {
            self.close_chunk()?;
        }
        self.drain(0)?;
        self.sink.flush().map_err(unwritable)?;
        Ok((self.sink, self.written))
    }

    fn close_chunk(&mut self) -> Result<()> {
        let payload = std::mem::take(&mut self.payload);
        let records = std::mem::take(&mut self.records);
        let (layout, compressor) = (self.options.layout, self.options.compressor);
        let Some(compressing) = &mut self.compressing else {
            // The next chunk will be about as large: ask for its memory once.
            self.payload.reserve(payload.len());
            return encode(layout, compressor, payload, records)
                .and_then(|encoded| self.put(&encoded))
                .inspect_err(|_| self.has_failed = true);
        };
        let (sender, receiver) = sync_channel(1);
        compressing.pool.spawn(move || {
            // A writer that was dropped no longer waits for its chunks.
            let _ = sender.send(encode(layout, compressor, payload, records));
        });
        compressing.chunks.push_back(receiver);
        self.drain(self.options.threads + 1)
    }

    // Writes finished chunks until at most `waiting_max` are under way: the bound on memory.
    fn drain(&mut self, waiting_max: usize) -> Result<()> {
        while let Some(compressing) = &mut self.compressing
            && compressing.chunks.len() > waiting_max
            && let Some(oldest) = compressing.chunks.pop_front()
        {
            oldest
                .recv()
                .unwrap_or_else(|_| Err(Error::new(Kind::Io, "a compression thread failed")))
                .and_then(|encoded| self.put(&encoded))
                .inspect_err(|_| self.has_failed = true)?;
        }
        Ok(())
    }

    fn put(&mut self, encoded: &Encoded) -> Result<()> {
        self.sink
            .write_all(&encoded.header)
            .and_then(|()| self.sink.write_all(&encoded.stored))
            .map_err(unwritable)?;
        self.written.chunks += 1;
        self.written.bytes += (HEADER_BYTES + encoded.stored.len()) as u64;
        Ok(())
    }
}

fn encode(
    layout: Layout,
    compressor: Compressor,
    payload: Vec<u8>,
    records: u32,
) -> Result<Encoded> {
    let stored = codec::encode(layout, compressor, payload)?;
    let stored_bytes = u32::try_from(stored.len()).map_err(|_| {
        Error::new(Kind::LimitExceeded, "chunk does not fit the format; use smaller chunks")
            .with("stored_bytes", stored.len())
            .with("limit_bytes", u32::MAX)
    })?;
    let header = Header { checksum: crc32fast::hash(&stored), compressor, stored_bytes, records };
    Ok(Encoded { header: header.encode(layout), stored })
}

fn unwritable(source: std::io::Error) -> Error {
    Error::io("cannot write RecordIO data", source)
}
