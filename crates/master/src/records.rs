//! The records of a task's pieces, read ahead on a thread of their own.
//!
//! The thread reads a *block* at a time, a RecordIO chunk or about a megabyte of lines, and a few of
//! them, with few bytes, wait for the caller: opening the records of the next task while those of
//! this one are used keeps the disk busy. Damage is never an end: it is an error with file and offset, again and again,
//! so that the task is failed and not finished.

mod block;
mod gate;

use crate::task::Piece;
use block::{Block, Blocks};
use contract::{Error, Kind, Result};
use gate::Gate;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// How records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Blocks that wait for the caller, at least 1; fewer where they are large. Default 2.
    pub blocks_ahead: usize,
    /// A RecordIO chunk, or a line, that is larger than this when uncompressed is refused. Default
    /// 1 GiB; a line may never have more than 256 MiB.
    pub record_bytes_max: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { blocks_ahead: 2, record_bytes_max: recordio::CHUNK_BYTES_LIMIT }
    }
}

/// The records of some pieces, in order. Records are lent, not copied: they lie in the current block.
/// Lines come without their end.
pub struct Records {
    block: Block,
    gate: Arc<Gate>,
    ready: Option<Receiver<Result<Block>>>,
    thread: Option<JoinHandle<()>>,
    /// Damage stays damage: a caller that reads on after an error must not see an end.
    failure: Option<(Kind, String)>,
    process: u32,
}

impl Records {
    /// Begins to read, at once.
    pub fn open(pieces: Vec<Piece>, options: ReadOptions) -> Result<Records> {
        let (sender, ready) = sync_channel(options.blocks_ahead.max(1) - 1);
        let gate = Arc::new(Gate::default());
        let reading = Arc::clone(&gate);
        let work = move || {
            let mut blocks = Blocks::new(pieces, options.record_bytes_max);
            while reading.wait()
                && let Some(block) = blocks.next()
            {
                let is_last = block.is_err();
                reading.add(block.as_ref().map_or(0, Block::bytes));
                if sender.send(block).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("master-records".to_owned())
            .spawn(work)
            .map_err(|source| Error::io("cannot start the thread that reads records", source))?;
        Ok(Records {
            block: Block::default(),
            gate,
            ready: Some(ready),
            thread: Some(thread),
            failure: None,
            process: std::process::id(),
        })
    }

    /// The next record, `None` at the end. After an error every further call fails too.
    #[inline]
    pub fn read(&mut self) -> Result<Option<&[u8]>> {
        if !self.is_ready() && !self.fill()? {
            return Ok(None);
        }
        match self.block.read() {
            Ok(record) => Ok(record),
            Err(error) => {
                self.failure = Some((error.kind(), error.chain()));
                Err(error)
            }
        }
    }

    /// Whether the next [`Records::read`] is answered from memory at once.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.block.has_more()
    }

    /// Gets the next record into memory, waiting for the disk if need be; false at the end.
    pub fn fill(&mut self) -> Result<bool> {
        while !self.is_ready() {
            if let Some((kind, message)) = &self.failure {
                return Err(Error::new(*kind, message.clone()));
            }
            self.release();
            match self.next_block() {
                Ok(Some(block)) => self.block = block,
                Ok(None) => return Ok(false),
                Err(error) => {
                    self.failure = Some((error.kind(), error.chain()));
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// Frees the block in hand: the thread may wait for that.
    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.block).bytes();
        self.gate.release(bytes);
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        if self.process != std::process::id() {
            return Err(Error::new(
                Kind::Unsupported,
                "these records were opened before a fork; open them in the child process",
            ));
        }
        match self.ready.as_ref().map(Receiver::recv) {
            Some(Ok(block)) => block.map(Some),
            // The thread has seen the end, unless it panicked: damage comes as a message.
            _ => match self.thread.take().map(JoinHandle::join) {
                Some(Err(_)) => Err(Error::new(Kind::Io, "the thread that reads records failed")),
                _ => Ok(None),
            },
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.ready = None;
        self.gate.close();
        if self.process == std::process::id()
            && let Some(thread) = self.thread.take()
        {
            // A panic was reported by its own message; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("failure", &self.failure).finish_non_exhaustive()
    }
}
