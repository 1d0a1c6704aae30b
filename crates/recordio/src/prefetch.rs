//! Reads and decodes chunks on another thread, a bounded number ahead of the consumer.
//!
//! Used chunks travel back, so that a steady run allocates nothing. The thread ends when the
//! consumer goes away. A thread does not survive `fork`, so a child that uses its parent's reader
//! gets an error instead of waiting for ever.

use crate::chunk::Chunk;
use crate::stream::Stream;
use contract::{Error, Kind, Result};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

/// No other chunk is read while those in memory take more than this: each may take a GiB. A used
/// chunk that takes more is not used again.
const BYTES_AHEAD_MAX: usize = 256 << 20;

pub(crate) struct Prefetch {
    // In the order in which they must be dropped: first the channels, which lets the thread end.
    ready: Option<Receiver<Result<Chunk>>>,
    used: Option<Sender<Chunk>>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Prefetch {
    /// Starts reading; at most `chunks_ahead` decoded chunks wait for the consumer.
    pub(crate) fn start(mut stream: Stream, chunks_ahead: usize) -> Result<Self> {
        let (ready_sender, ready) = sync_channel(chunks_ahead.max(1) - 1);
        let (used, used_receiver) = channel::<Chunk>();
        let work = move || {
            // Memory of the chunks that the consumer has or will get.
            let mut bytes_ahead = 0;
            loop {
                let mut chunk = used_receiver.try_recv().unwrap_or_default();
                bytes_ahead -= memory(&chunk);
                while bytes_ahead > BYTES_AHEAD_MAX {
                    let Ok(used) = used_receiver.recv() else { return };
                    bytes_ahead -= memory(&used);
                    chunk = used;
                }
                if memory(&chunk) > BYTES_AHEAD_MAX {
                    chunk = Chunk::default();
                }
                let delivery = match stream.next(&mut chunk) {
                    Ok(true) => Ok(chunk),
                    Ok(false) => return,
                    Err(error) => Err(error),
                };
                bytes_ahead += delivery.as_ref().map_or(0, memory);
                let is_last = delivery.is_err();
                if ready_sender.send(delivery).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("recordio-prefetch".to_owned())
            .spawn(work)
            .map_err(|source| Error::io("cannot start the prefetch thread", source))?;
        Ok(Prefetch {
            ready: Some(ready),
            used: Some(used),
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// Replaces `chunk` by the next one; false at the end.
    pub(crate) fn next(&mut self, chunk: &mut Chunk) -> Result<bool> {
        if self.process != std::process::id() {
            return Err(Error::new(
                Kind::Unsupported,
                "this RecordIO reader was opened before a fork; open it in the child process",
            ));
        }
        if let Some(used) = &self.used {
            // A thread that has ended needs no memory back.
            let _ = used.send(std::mem::take(chunk));
        }
        // A closed channel means that the thread has seen the end: damage comes as a message.
        let Some(Ok(delivery)) = self.ready.as_ref().map(Receiver::recv) else {
            return self.finish();
        };
        *chunk = delivery?;
        Ok(true)
    }

    // A thread that panicked has not seen the end.
    fn finish(&mut self) -> Result<bool> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::new(Kind::Io, "the prefetch thread failed")),
            _ => Ok(false),
        }
    }
}

fn memory(chunk: &Chunk) -> usize {
    chunk.payload.capacity() + chunk.stored.capacity()
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.ready = None;
        self.used = None;
        if self.process == std::process::id()
            && let Some(thread) = self.thread.take()
        {
            // A panic was reported by its own message; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
