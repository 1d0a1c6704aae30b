//! What writes a port's checkpoints: a thread that may wait for the disk, behind a bounded channel, or
//! the port itself when the disk is simulated.

use super::{Checkpointing, Disk};
use crate::checkpoint::{Completed, Writer};
use crate::message::Join;
use crate::shard::Saved;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Pieces that may wait for the disk: about a megabyte each.
const PIECES_MAX: usize = 8;

/// A checkpoint on disk.
pub(super) struct Done {
    pub(super) completed: Completed,
    pub(super) time: Duration,
}

pub(super) enum Saver {
    Thread {
        pieces: mpsc::Sender<Saved>,
        done: mpsc::UnboundedReceiver<Result<Done>>,
        thread: JoinHandle<()>,
    },
    Here {
        work: Box<Work>,
        disk: Arc<dyn Disk>,
        done: Option<Result<Done>>,
    },
}

/// A writer that keeps the time.
pub(super) struct Work {
    writer: Writer,
    begun: Instant,
}

impl Saver {
    /// Starts; it knows where the shard stands from `join`.
    pub(super) fn start(config: &Checkpointing, join: &Join) -> Result<Self> {
        let writer = Writer::new(&config.folder, config.keep, join)?;
        let mut work = Work { writer, begun: Instant::now() };
        if let Some(disk) = &config.disk {
            let (work, disk, done) = (Box::new(work), Arc::clone(disk), None);
            return Ok(Saver::Here { work, disk, done });
        }
        let (pieces, mut incoming) = mpsc::channel(PIECES_MAX);
        let (report, done) = mpsc::unbounded_channel();
        let write = move || {
            while let Some(piece) = incoming.blocking_recv() {
                if let Some(outcome) = work.write(piece) {
                    // A port that is gone needs no report.
                    let _ = report.send(outcome);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("pserver-checkpoint".to_owned())
            .spawn(write)
            .map_err(|source| Error::io("cannot start the checkpoint thread", source))?;
        Ok(Saver::Thread { pieces, done, thread })
    }

    /// Hands a piece over, waiting while too many wait for the disk.
    pub(super) async fn put(&mut self, piece: Saved) -> Result<()> {
        match self {
            Saver::Thread { pieces, .. } => pieces.send(piece).await.map_err(|_| ended()),
            Saver::Here { work, disk, done } => {
                let outcome = match disk.write(size_of_piece(&piece)).await {
                    Ok(()) => work.write(piece),
                    Err(source) => {
                        work.writer.abandon();
                        Some(Err(Error::io("cannot write checkpoint", source)))
                    }
                };
                // The first error is the cut's.
                if let Some(outcome) = outcome
                    && !matches!(done, Some(Err(_)))
                {
                    *done = Some(outcome);
                }
                Ok(())
            }
        }
    }

    /// What became of the cut whose last piece was handed over.
    pub(super) async fn done(&mut self) -> Result<Done> {
        match self {
            Saver::Thread { done, .. } => done.recv().await.unwrap_or_else(|| Err(ended())),
            Saver::Here { done, .. } => done.take().unwrap_or_else(|| Err(ended())),
        }
    }

    /// Ends the thread.
    pub(super) fn finish(self) {
        if let Saver::Thread { pieces, thread, .. } = self {
            drop(pieces);
            // A panic was reported by its own message, and the checkpoint has no manifest.
            let _ = thread.join();
        }
    }
}

impl Work {
    /// What became of a cut, at its end or its first error.
    fn write(&mut self, piece: Saved) -> Option<Result<Done>> {
        if matches!(piece, Saved::Begin { .. }) {
            self.begun = Instant::now();
        }
        let outcome = self.writer.write(piece).transpose()?;
        Some(outcome.map(|completed| Done { completed, time: self.begun.elapsed() }))
    }
}

fn size_of_piece(piece: &Saved) -> usize {
    match piece {
        Saved::Begin { .. } | Saved::End => 0,
        Saved::Rows { rows, .. } => rows.iter().map(|(_, row)| row.value.len() * 4 + 8).sum(),
        Saved::Block { block, .. } => block.value.len() * 4 + 8,
    }
}

fn ended() -> Error {
    Error::new(Kind::Io, "the checkpoint thread has ended")
}
