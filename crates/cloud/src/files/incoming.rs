//! The body of a request for code that reads and writes files, on a thread that may wait.

use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes};
use contract::{Error, Kind, Result};
use futures_util::StreamExt;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces that wait to be written. A body that comes faster than the disk takes it has to wait.
const PIECES_AHEAD: usize = 4;
/// How long nothing may arrive.
const STILL: Duration = Duration::from_secs(60);

/// The body of a request, piece by piece.
pub(crate) struct BodyPieces(BodyDataStream);

impl BodyPieces {
    /// Reads this body.
    pub(crate) fn new(body: Body) -> Self {
        BodyPieces(body.into_data_stream())
    }

    /// The next piece; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        match tokio::time::timeout(STILL, self.0.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(piece))) => Ok(Some(piece)),
            Ok(Some(Err(source))) => {
                let message = "the content did not arrive whole: send it again";
                Err(Error::invalid(message).because(source))
            }
            Err(_) => Err(Error::new(Kind::Timeout, "nothing more arrived")),
        }
    }

    /// Reads on after a refusal, in the background, so that it can be heard.
    pub(crate) fn refuse(self) {
        tokio::spawn(drain(self.0));
    }
}

/// The pieces of a body as they arrive, for a thread that may wait. An error ends them.
pub(crate) fn pieces(body: Body) -> mpsc::Receiver<Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let mut body = BodyPieces::new(body);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = body.next() => next,
                () = sender.closed() => return drain(body.0).await,
            };
            let Some(piece) = next.transpose() else { return };
            let is_over = piece.is_err();
            let is_refused = sender.send(piece).await.is_err();
            match (is_over, is_refused) {
                (false, false) => {}
                (false, true) => return drain(body.0).await,
                (true, _) => return,
            }
        }
    });
    receiver
}

/// Reads on for a while after a refusal. Who still sends when the connection is closed sees a
/// broken connection instead of the reason.
async fn drain(mut stream: BodyDataStream) {
    let read = async {
        let mut left = DRAIN_BYTES_MAX;
        while let Some(Ok(piece)) = stream.next().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN, read).await;
}

/// The largest chunk.
const DRAIN_BYTES_MAX: usize = 64 << 20;
const DRAIN: Duration = Duration::from_secs(30);

/// The same for code that wants a reader.
pub(crate) struct Incoming {
    pieces: mpsc::Receiver<Result<Bytes>>,
    current: Bytes,
    /// Why it broke off.
    error: Option<Error>,
}

impl Incoming {
    /// Reads these pieces.
    pub(crate) fn new(pieces: mpsc::Receiver<Result<Bytes>>) -> Self {
        Incoming { pieces, current: Bytes::new(), error: None }
    }

    /// Why it broke off, if it did.
    pub(crate) fn into_error(self) -> Option<Error> {
        self.error
    }

    /// Exactly so many bytes.
    pub(crate) fn exactly(&mut self, buffer: &mut [u8]) -> Result<()> {
        io::Read::read_exact(self, buffer).map_err(|_| {
            let short = || Error::invalid("the body ends in the middle: send it again");
            self.error.take().unwrap_or_else(short)
        })
    }
}

impl io::Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(Ok(piece)) => self.current = piece,
                Some(Err(error)) => {
                    self.error = Some(error);
                    return Err(io::Error::other("broken off"));
                }
            }
        }
        let count = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
