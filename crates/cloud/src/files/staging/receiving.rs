//! One chunk on its way to the disk.
//!
//! Bytes are summed and put into the memory that the disk writes from by the task that receives
//! them, while the processor has them at hand; only the writes themselves go to a thread that may
//! wait.

use super::summed::Writing;
use super::{FLUSH_BYTES, Staged, changed, refused};
use contract::api::file::ChunkQuery;
use contract::checksum::{CHECKSUM_BYTES, Checksum, Summing};
use contract::{Error, Kind, Result};
use disk::RangeWriter;
use std::fs::File;

/// A chunk that is being taken in. While it is held the upload cannot end.
pub(crate) struct Receiving {
    pub(super) staged: Staged,
    pub(super) index: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) done: u64,
    pub(super) sum: Summing,
    pub(super) told: Told,
    pub(super) writer: RangeWriter,
    pub(super) writing: Writing,
    /// Locked.
    pub(super) data: File,
}

/// What the sender says that a chunk adds up to.
pub(crate) enum Told {
    /// Before it.
    Before(Checksum),
    /// In bytes that follow it; those that have arrived.
    After(Vec<u8>),
}

impl Told {
    /// As it was asked for.
    pub(crate) fn of(query: &ChunkQuery) -> Result<Self> {
        match (query.checksum, query.is_checked) {
            (Some(checksum), false) => Ok(Told::Before(checksum)),
            (None, true) => Ok(Told::After(Vec::with_capacity(CHECKSUM_BYTES))),
            _ => {
                let message = "say what the chunk adds up to: checksum=BLAKE3, or is_checked=true \
                               with the 32 bytes of it behind the chunk";
                Err(Error::invalid(message))
            }
        }
    }

    /// Room for bytes behind the chunk.
    fn room(&self) -> usize {
        match self {
            Told::Before(_) => 0,
            Told::After(bytes) => CHECKSUM_BYTES - bytes.len(),
        }
    }
}

impl Receiving {
    /// Takes as many of these bytes as there is room for. It waits for nothing.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        let left = self.length - self.done;
        if bytes.len() as u64 > left + self.told.room() as u64 {
            let message = "the chunk is longer than the upload says";
            return Err(Error::invalid(message)
                .with("chunk", self.index)
                .with("bytes", self.length));
        }
        if let (0, Told::After(told)) = (left, &mut self.told) {
            told.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let room = self.writer.room();
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let count = bytes.len().min(room.len()).min(most);
        self.sum.add(&bytes[..count]);
        room[..count].copy_from_slice(&bytes[..count]);
        self.writer.advance(count);
        self.done += count as u64;
        Ok(count)
    }

    /// Whether it must be flushed before it takes more.
    pub(crate) fn is_full(&mut self) -> bool {
        self.writer.room().is_empty()
    }

    /// Writes what has arrived, and waits for the disk.
    pub(crate) fn flush(mut self) -> Result<Self> {
        self.writer.flush().map_err(refused)?;
        Ok(self)
    }

    /// Ends the chunk, which counts if it is whole and what its checksum says.
    pub(crate) fn finish(self) -> Result<()> {
        let Receiving { staged, index, offset, length, done, sum, told, .. } = self;
        let (writer, writing, data) = (self.writer, self.writing, self.data);
        let expected = match told {
            Told::Before(checksum) => Some(checksum),
            Told::After(bytes) => <[u8; CHECKSUM_BYTES]>::try_from(bytes).ok().map(Checksum),
        };
        let Some(expected) = expected.filter(|_| done == length) else {
            let message = "the chunk is shorter than the upload says, or did not arrive whole";
            return Err(Error::invalid(message).with("chunk", index).with("bytes", done));
        };
        if sum.checksum() != expected {
            let message = "the chunk is not what its checksum says: send it again";
            return Err(Error::new(Kind::Damaged, message)
                .with("chunk", index)
                .with("expected", expected)
                .with("found", sum.checksum()));
        }
        let is_on_disk = writer.finish().map_err(refused)?;
        if !is_on_disk && offset / FLUSH_BYTES != (offset + length) / FLUSH_BYTES {
            data.sync_data().map_err(refused)?;
        }
        staged.mark(index, Some(expected))?;
        writing.done(expected, changed(&data)?);
        Ok(())
    }
}
