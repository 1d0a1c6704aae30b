//! Socket → frames. Knows no kinds; hands out frames in the order they came.
//!
//! Small frames come out of a read buffer, many per read. Of a large body only what the buffer has
//! already is copied; the rest is read straight into the body. Everything that was read lives in
//! the receiver, never in a future, so that [`Receiver::next`] can be dropped at any time; and a
//! header is consumed only when it is found good, so that after damage it fails again when asked
//! again, and after a timeout it can go on.

use crate::frame::{Envelope, Frame, HEADER_BYTES};
use crate::pool::{Body, Pool};
use crate::transfer::{failure, within};
use crate::{Limits, Peer};
use contract::{Error, Kind, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The receiving half of a connection.
pub struct Receiver {
    input: Box<dyn AsyncRead + Send + Unpin>,
    peer: Arc<Peer>,
    limits: Limits,
    pool: Pool,
    window: Window,
    begun: Option<(Envelope, Body)>,
}

impl Receiver {
    pub(crate) fn new(
        input: Box<dyn AsyncRead + Send + Unpin>,
        peer: Arc<Peer>,
        limits: Limits,
    ) -> Self {
        Receiver {
            input,
            peer,
            limits,
            pool: Pool::new(limits.pooled_buffers_max, limits.pooled_bytes_max),
            window: Window::new(limits.read_buffer_bytes),
            begun: None,
        }
    }

    /// The next frame; `None` when the peer closed between two frames.
    ///
    /// Safe to cancel: no byte is lost when the future is dropped. `Damaged` when the bytes are
    /// not frames of this peer or end inside one, `LimitExceeded` when a body is announced that is
    /// larger than [`Limits::frame_bytes_max`] (nothing is allocated for it), `Timeout` after
    /// [`Limits::idle_timeout`] or [`Limits::read_timeout`], `Unavailable` when the connection
    /// breaks.
    pub async fn next(&mut self) -> Result<Option<Frame>> {
        let outcome = self.receive().await;
        outcome.map_err(|error| error.with("peer", &self.peer.name))
    }

    /// The next frame if all of it has been read already. Lets a server take all requests that
    /// came together before it flushes its answers.
    pub fn next_buffered(&mut self) -> Result<Option<Frame>> {
        if self.begun.is_none() {
            self.begin().map_err(|error| error.with("peer", &self.peer.name))?;
        }
        Ok(self.finish())
    }

    /// Who sends.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    async fn receive(&mut self) -> Result<Option<Frame>> {
        while self.begun.is_none() && !self.begin()? {
            let (limit, expiry) = match self.window.len() {
                0 => (self.limits.idle_timeout, "the peer sent nothing for too long"),
                _ => (self.limits.read_timeout, STALLED),
            };
            let before = self.window.len();
            if self.refill(limit, expiry).await? == 0 {
                return if before == 0 { Ok(None) } else { Err(cut(before, HEADER_BYTES)) };
            }
        }
        loop {
            if let Some(frame) = self.finish() {
                return Ok(Some(frame));
            }
            self.read_body().await?;
        }
    }

    /// Consumes the header at the front of the window, if there is a whole one.
    fn begin(&mut self) -> Result<bool> {
        let Some(header) = self.window.peek_header() else { return Ok(false) };
        let envelope = Envelope::decode(header)?;
        if envelope.incarnation != self.peer.incarnation {
            return Err(Error::new(
                Kind::Damaged,
                "frame of another incarnation than its sender's",
            )
            .with("expected", self.peer.incarnation)
            .with("found", envelope.incarnation));
        }
        if envelope.body_bytes > self.limits.frame_bytes_max {
            return Err(Error::new(Kind::LimitExceeded, "frame is larger than frame_bytes_max")
                .with("bytes", envelope.body_bytes)
                .with("frame_bytes_max", self.limits.frame_bytes_max));
        }
        self.window.consume(HEADER_BYTES);
        self.begun = Some((envelope, self.pool.take_empty(envelope.body_bytes as usize)));
        Ok(true)
    }

    /// Moves what the window has of the begun body there; the frame, if that was the last of it.
    fn finish(&mut self) -> Option<Frame> {
        let (envelope, body) = self.begun.as_mut()?;
        let total = envelope.body_bytes as usize;
        while body.len() < total && self.window.len() > 0 {
            let moved = self.window.move_into(body.spare(total));
            body.commit(moved);
        }
        if body.len() < total {
            return None;
        }
        let (Envelope { header, incarnation, .. }, body) = self.begun.take()?;
        Some(Frame { header, incarnation, body })
    }

    /// Reads some of the begun body. The window is empty.
    async fn read_body(&mut self) -> Result<()> {
        let Some((envelope, body)) = self.begun.as_mut() else { return Ok(()) };
        let (total, arrived) = (envelope.body_bytes as usize, body.len());
        // What is short comes through the window, together with the frames behind it.
        let read = if total - arrived < self.limits.read_buffer_bytes / 2 {
            self.refill(self.limits.read_timeout, STALLED).await?
        } else {
            let reading = self.input.read(body.spare(total));
            let outcome = within(self.limits.read_timeout, STALLED, reading).await?;
            let read = outcome.map_err(|source| failure(UNREADABLE, source))?;
            body.commit(read);
            read
        };
        if read == 0 { Err(cut(HEADER_BYTES + arrived, HEADER_BYTES + total)) } else { Ok(()) }
    }

    async fn refill(&mut self, limit: Option<Duration>, expiry: &'static str) -> Result<usize> {
        let outcome = within(limit, expiry, self.input.read(self.window.spare())).await?;
        let read = outcome.map_err(|source| failure(UNREADABLE, source))?;
        self.window.end += read;
        Ok(read)
    }
}

const STALLED: &str = "the peer stopped in the middle of a frame";
const UNREADABLE: &str = "cannot read from the connection";

fn cut(arrived: usize, expected: usize) -> Error {
    Error::new(Kind::Damaged, "connection was closed inside a frame")
        .with("bytes", arrived)
        .with("expected", expected)
}

/// Bytes `start..end` are read and not consumed.
struct Window {
    storage: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Window {
    fn new(bytes: usize) -> Self {
        Window { storage: vec![0; bytes].into_boxed_slice(), start: 0, end: 0 }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn peek_header(&self) -> Option<[u8; HEADER_BYTES]> {
        self.storage[self.start..self.end].first_chunk().copied()
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    fn move_into(&mut self, target: &mut [u8]) -> usize {
        let bytes = target.len().min(self.len());
        target[..bytes].copy_from_slice(&self.storage[self.start..self.start + bytes]);
        self.consume(bytes);
        bytes
    }

    /// Room behind what is unread. That is less than a header whenever more is needed, so moving
    /// it to the front costs nothing.
    fn spare(&mut self) -> &mut [u8] {
        self.storage.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.len());
        &mut self.storage[self.end..]
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("peer", &self.peer).finish_non_exhaustive()
    }
}
