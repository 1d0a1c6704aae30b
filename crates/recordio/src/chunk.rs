//! One decoded chunk and the walk over its records.

use crate::buffer::Buffer;
use crate::header::Header;
use contract::{Error, Kind, Result};
use std::path::Path;
use std::sync::Arc;

/// Where a chunk is, for error messages.
#[derive(Clone)]
pub(crate) struct ChunkLocation {
    pub(crate) file: Arc<Path>,
    pub(crate) chunk: u64,
    pub(crate) offset: u64,
}

impl ChunkLocation {
    /// Adds file, chunk and offset to an error.
    pub(crate) fn mark(&self, error: Error) -> Error {
        error
            .with("file", self.file.display())
            .with("chunk", self.chunk)
            .with("offset", self.offset)
    }
}

/// A chunk in memory. Empty (`Default`) until `stream` fills it; meant to be refilled.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) payload: Buffer,
    /// Stored bytes of a compressed chunk, kept only for their memory.
    pub(crate) stored: Buffer,
    location: Option<ChunkLocation>,
    cursor: usize,
    unread: u32,
    // Records behind the wanted range are not read, so the payload need not be used up.
    is_cut: bool,
}

impl Chunk {
    /// Starts the walk over a payload that has just been filled.
    pub(crate) fn start(&mut self, header: &Header, location: &ChunkLocation) -> Result<()> {
        self.location = Some(location.clone());
        self.cursor = 0;
        self.unread = header.records;
        self.is_cut = false;
        let bytes = self.payload.len();
        if u64::from(header.records) * 4 > bytes as u64 {
            return Err(self
                .damaged("chunk claims more records than it has room for")
                .with("records", header.records)
                .with("payload_bytes", bytes));
        }
        self.check_end()
    }

    pub(crate) fn unread(&self) -> u32 {
        self.unread
    }

    /// Leaves out the first `count` records.
    pub(crate) fn skip(&mut self, count: u32) -> Result<()> {
        for _ in 0..count {
            self.read()?;
        }
        Ok(())
    }

    /// Leaves out everything behind the next `count` records.
    pub(crate) fn keep(&mut self, count: u64) {
        if u64::from(self.unread) > count {
            self.unread = count as u32;
            self.is_cut = true;
        }
    }

    /// The next record; to be called only while some are unread.
    #[inline]
    pub(crate) fn read(&mut self) -> Result<&[u8]> {
        let payload = self.payload.as_slice();
        let record = payload[self.cursor..]
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.get(..u32::from_le_bytes(*length) as usize))
            .ok_or_else(|| self.damaged("record reaches past the end of its chunk"))?;
        self.cursor += 4 + record.len();
        self.unread -= 1;
        if self.unread == 0 {
            self.check_end()?;
        }
        Ok(record)
    }

    // A payload longer than its records means that the count lies: records would be lost silently.
    fn check_end(&self) -> Result<()> {
        let surplus = self.payload.len() - self.cursor;
        if self.unread == 0 && !self.is_cut && surplus > 0 {
            return Err(self
                .damaged("chunk holds more bytes than its records need")
                .with("surplus_bytes", surplus));
        }
        Ok(())
    }

    fn damaged(&self, message: &str) -> Error {
        let error = Error::new(Kind::Damaged, message);
        match &self.location {
            Some(location) => location.mark(error),
            None => error,
        }
    }
}
