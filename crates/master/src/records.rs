//! The records of a task's pieces, read ahead on a thread of their own.

use crate::task::Piece;
use contract::Result;

/// How records are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Blocks (RecordIO chunks, or some megabytes of lines) that wait for the caller, at least 1.
    pub blocks_ahead: usize,
    /// A record, or an uncompressed RecordIO chunk, that is larger than this is refused.
    pub record_bytes_max: u64,
}

/// The records of some pieces, in order. Records are lent, not copied.
pub struct Records {}

impl Records {
    /// Begins to read.
    pub fn open(_pieces: Vec<Piece>, _options: ReadOptions) -> Result<Records> {
        unimplemented!()
    }

    /// The next record, `None` at the end. After an error every further call fails too.
    pub fn read(&mut self) -> Result<Option<&[u8]>> {
        unimplemented!()
    }

    /// Whether the next [`Records::read`] is answered from memory at once.
    pub fn is_ready(&self) -> bool {
        unimplemented!()
    }

    /// Gets the next record into memory, waiting for the disk if need be; false at the end.
    pub fn fill(&mut self) -> Result<bool> {
        unimplemented!()
    }
}
