//! The thread that writes a port's checkpoints, and the bounded way to it.

use super::Checkpointing;
use crate::checkpoint::{Completed, Writer};
use crate::message::Join;
use crate::shard::Saved;
use contract::{Error, Kind, Result};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Pieces that may wait for the disk: about a megabyte each.
const PIECES_MAX: usize = 8;

/// A checkpoint on disk.
pub(super) struct Done {
    pub(super) completed: Completed,
    pub(super) time: Duration,
}

pub(super) struct Saver {
    pieces: mpsc::Sender<Saved>,
    done: mpsc::UnboundedReceiver<Result<Done>>,
    thread: JoinHandle<()>,
}

impl Saver {
    /// Starts the thread; it knows where the shard stands from `join`.
    pub(super) fn start(config: &Checkpointing, join: &Join) -> Result<Self> {
        let mut writer = Writer::new(&config.folder, config.keep, join)?;
        let (pieces, mut incoming) = mpsc::channel(PIECES_MAX);
        let (report, done) = mpsc::unbounded_channel();
        let work = move || {
            let mut begun = Instant::now();
            while let Some(piece) = incoming.blocking_recv() {
                if matches!(piece, Saved::Begin { .. }) {
                    begun = Instant::now();
                }
                let outcome = match writer.write(piece) {
                    Ok(None) => continue,
                    Ok(Some(completed)) => Ok(Done { completed, time: begun.elapsed() }),
                    Err(error) => Err(error),
                };
                // A port that is gone needs no report.
                let _ = report.send(outcome);
            }
        };
        let thread = std::thread::Builder::new()
            .name("pserver-checkpoint".to_owned())
            .spawn(work)
            .map_err(|source| Error::io("cannot start the checkpoint thread", source))?;
        Ok(Saver { pieces, done, thread })
    }

    /// Hands a piece to the thread, waiting while too many wait for the disk.
    pub(super) async fn put(&self, piece: Saved) -> Result<()> {
        self.pieces.send(piece).await.map_err(|_| ended())
    }

    /// What became of the cut whose last piece was handed over.
    pub(super) async fn done(&mut self) -> Result<Done> {
        self.done.recv().await.unwrap_or_else(|| Err(ended()))
    }

    /// Ends the thread.
    pub(super) fn finish(self) {
        drop(self.pieces);
        // A panic was reported by its own message, and the checkpoint has no manifest.
        let _ = self.thread.join();
    }
}

fn ended() -> Error {
    Error::new(Kind::Io, "the checkpoint thread has ended")
}
