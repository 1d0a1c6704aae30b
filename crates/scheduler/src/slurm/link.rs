//! One connection between the conductor and the agent of a node, for everything that both have to
//! say: the lines of a supervisor, the bytes of a `paddle node`, and words to the agent itself.
//!
//! Frames of the three kinds go as they come. A frame without content ends what a supervisor hears
//! or says, so that a round can end while the connection stays: results are brought afterwards.

use crate::meeting::link::Link;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::{Header, Sender};

/// A line of what a conductor and a supervisor exchange.
pub(super) const LINE: u16 = 1;
/// Bytes of what a conductor and a `paddle node` exchange.
pub(super) const BYTES: u16 = 2;
/// A [`Word`].
pub(super) const WORD: u16 = 3;

/// Frames that wait to be sent.
const FRAMES_MAX: usize = 16;
/// What is buffered between the connection and whoever reads.
const PIPE_BYTES: usize = 256 << 10;
/// The most bytes of files in one frame.
const PIECE_BYTES: usize = 64 << 10;

/// What a conductor tells an agent.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// Start a supervisor.
    Supervise,
    /// The round is over, another one follows: come again.
    Again,
    /// The job is over.
    Over {
        /// The job's directory there, if it is of no use any more.
        removes: Option<PathBuf>,
    },
}

/// A frame on its way.
pub(super) type Outgoing = (u16, Vec<u8>);

/// The conductor's end: what leads to the parts of an agent, each as a pipe.
pub(super) struct Channel {
    /// To the supervisor.
    pub(super) commands: DuplexStream,
    /// From the supervisor.
    pub(super) events: DuplexStream,
    /// To the `paddle node`.
    pub(super) requests: DuplexStream,
    /// From it.
    pub(super) replies: DuplexStream,
    pub(super) words: Words,
}

/// The way to the agent itself.
pub(super) struct Words {
    outgoing: mpsc::Sender<Outgoing>,
    /// Ends with the connection.
    reading: JoinHandle<()>,
}

impl Channel {
    /// Takes a link apart.
    pub(super) fn open(link: Link) -> Channel {
        let Link { sender, mut receiver } = link;
        let (commands, command_lines) = tokio::io::duplex(PIPE_BYTES);
        let (mut event_lines, events) = tokio::io::duplex(PIPE_BYTES);
        let (requests, request_bytes) = tokio::io::duplex(PIPE_BYTES);
        let (mut reply_bytes, replies) = tokio::io::duplex(PIPE_BYTES);
        let (outgoing, frames) = mpsc::channel(FRAMES_MAX);
        tokio::spawn(send(frames, sender));
        tokio::spawn(forward_lines(command_lines, outgoing.clone()));
        tokio::spawn(forward_bytes(request_bytes, outgoing.clone()));
        let reading = tokio::spawn(async move {
            while let Ok(Some(frame)) = receiver.next().await {
                // Nobody listens any more to a part that is over; the others go on.
                let _ = match frame.header.kind {
                    LINE if frame.body.is_empty() => event_lines.shutdown().await,
                    LINE => event_lines.write_all(&frame.body).await,
                    _ => reply_bytes.write_all(&frame.body).await,
                };
            }
        });
        Channel { commands, events, requests, replies, words: Words { outgoing, reading } }
    }
}

impl Words {
    /// Tells the agent.
    pub(super) async fn say(&self, word: &Word) -> Result<()> {
        let gone = || Error::new(Kind::Unavailable, "the agent of this node is gone");
        let json = serde_json::to_vec(word)
            .map_err(|source| Error::invalid("cannot write a message").because(source))?;
        self.outgoing.send((WORD, json)).await.map_err(|_| gone())
    }

    /// Waits for the end of the connection.
    pub(super) async fn ended(self) {
        drop(self.outgoing);
        // A task of ours that is lost has ended too.
        let _ = self.reading.await;
    }
}

/// Sends frames until there are no more who could have any.
pub(super) async fn send(mut frames: mpsc::Receiver<Outgoing>, mut sender: Sender) {
    while let Some((kind, body)) = frames.recv().await {
        if sender.send(Header::new(kind, 0), &[&body]).await.is_err() {
            return;
        }
    }
    // The other side may have left already.
    let _ = sender.close().await;
}

/// Makes frames of lines; the last one is empty.
pub(super) async fn forward_lines(from: impl AsyncRead + Unpin, outgoing: mpsc::Sender<Outgoing>) {
    let mut lines = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let is_over = !lines.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0);
        if outgoing.send((LINE, line)).await.is_err() || is_over {
            return;
        }
    }
}

/// Makes frames of bytes.
pub(super) async fn forward_bytes(
    mut from: impl AsyncRead + Unpin,
    outgoing: mpsc::Sender<Outgoing>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        if outgoing.send((BYTES, piece[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Writes to a part; whether it still listens.
pub(super) async fn deliver(part: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> bool {
    part.write_all(bytes).await.is_ok() && part.flush().await.is_ok()
}
