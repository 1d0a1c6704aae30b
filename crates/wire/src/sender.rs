//! Frames → socket. Knows no kinds; does not queue: whoever shares a sender puts a channel in front.
//!
//! Small frames are fed into a buffer and leave in one write. The parts of a large frame are
//! written where they lie, with what the buffer holds and the header, by vectored writes.

use crate::frame::{Envelope, HEADER_BYTES, Header};
use crate::transfer::{failure, within};
use crate::{Limits, Peer};
use contract::{Error, Kind, Result};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Parts that one write takes. Linux takes 1024; more than this saves nothing.
const PARTS_PER_WRITE: usize = 128;

/// The sending half of a connection.
pub struct Sender {
    output: Box<dyn AsyncWrite + Send + Unpin>,
    peer: Arc<Peer>,
    incarnation: u64,
    limits: Limits,
    pending: Vec<u8>,
    /// A write began and did not end: what the peer has is not a row of frames.
    is_broken: bool,
}

impl Sender {
    pub(crate) fn new(
        output: Box<dyn AsyncWrite + Send + Unpin>,
        peer: Arc<Peer>,
        incarnation: u64,
        limits: Limits,
    ) -> Self {
        let pending = Vec::with_capacity(limits.write_buffer_bytes);
        Sender { output, peer, incarnation, limits, pending, is_broken: false }
    }

    /// Sends everything fed so far and this frame, whose body is the parts one after the other.
    ///
    /// Nothing is copied. A frame may have any number of parts; parts of less than a few kilobytes
    /// are better gathered by the caller. Not safe to cancel: when the future is dropped before it
    /// is ready, or fails, all later calls fail with `Unavailable`. `LimitExceeded`, with nothing
    /// written, when the body is larger than the peer accepts; `Timeout` when the peer takes
    /// nothing for [`Limits::write_timeout`].
    pub async fn send(&mut self, header: Header, parts: &[&[u8]]) -> Result<()> {
        let envelope = self.envelope(header, parts)?.encode();
        self.write(&envelope, parts).await?;
        self.flush().await
    }

    /// Like [`Sender::send`], but small frames wait in the buffer for [`Sender::flush`], or until
    /// it is full. Call `flush` whenever there is nothing more to feed.
    pub async fn feed(&mut self, header: Header, parts: &[&[u8]]) -> Result<()> {
        let envelope = self.envelope(header, parts)?;
        let frame_bytes = HEADER_BYTES + envelope.body_bytes as usize;
        if self.is_broken || self.pending.len() + frame_bytes > self.limits.write_buffer_bytes {
            return self.write(&envelope.encode(), parts).await;
        }
        self.pending.extend_from_slice(&envelope.encode());
        parts.iter().for_each(|part| self.pending.extend_from_slice(part));
        Ok(())
    }

    /// Sends what was fed.
    pub async fn flush(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.write(&[], &[]).await?;
        }
        self.begin()?;
        let outcome = within(self.limits.write_timeout, STALLED, self.output.flush()).await;
        self.end(outcome)
    }

    /// Sends what was fed and says farewell: the peer's receiver gets `None`.
    pub async fn close(&mut self) -> Result<()> {
        self.flush().await?;
        self.begin()?;
        let outcome = within(self.limits.write_timeout, STALLED, self.output.shutdown()).await;
        self.end(outcome)
    }

    /// Who receives.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    fn envelope(&self, header: Header, parts: &[&[u8]]) -> Result<Envelope> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let body_bytes = u32::try_from(bytes).ok().filter(|it| *it <= self.peer.frame_bytes_max);
        let Some(body_bytes) = body_bytes else {
            return Err(Error::new(Kind::LimitExceeded, "frame is larger than the peer accepts")
                .with("bytes", bytes)
                .with("frame_bytes_max", self.peer.frame_bytes_max)
                .with("peer", &self.peer.name));
        };
        Ok(Envelope { header, incarnation: self.incarnation, body_bytes })
    }

    async fn write(&mut self, envelope: &[u8], parts: &[&[u8]]) -> Result<()> {
        self.begin()?;
        let mut rest = Rest { lead: [&self.pending, envelope], parts, index: 0, offset: 0 };
        let outcome = loop {
            if rest.is_empty() {
                break Ok(Ok(()));
            }
            let writing = poll_fn(|context| {
                let (slices, count) = rest.slices();
                Pin::new(&mut self.output).poll_write_vectored(context, &slices[..count])
            });
            match within(self.limits.write_timeout, STALLED, writing).await {
                Ok(Ok(0)) => break Ok(Err(io::ErrorKind::WriteZero.into())),
                Ok(Ok(written)) => rest.advance(written),
                Ok(Err(source)) => break Ok(Err(source)),
                Err(expired) => break Err(expired),
            }
        };
        self.pending.clear();
        self.end(outcome)
    }

    /// From here to [`Sender::end`] the sender counts as broken, so that it is when the caller
    /// drops the future in between.
    fn begin(&mut self) -> Result<()> {
        if self.is_broken {
            return Err(Error::new(Kind::Unavailable, "connection broke in an earlier write")
                .with("peer", &self.peer.name));
        }
        self.is_broken = true;
        Ok(())
    }

    fn end(&mut self, outcome: Result<io::Result<()>>) -> Result<()> {
        let outcome = outcome
            .and_then(|outcome| outcome.map_err(|source| failure(UNWRITABLE, source)))
            .map_err(|error| error.with("peer", &self.peer.name));
        self.is_broken = outcome.is_err();
        outcome
    }
}

const STALLED: &str = "the peer does not take what is sent";
const UNWRITABLE: &str = "cannot write to the connection";

/// What is left to write of a chain of slices.
struct Rest<'a> {
    lead: [&'a [u8]; 2],
    parts: &'a [&'a [u8]],
    index: usize,
    offset: usize,
}

impl<'a> Rest<'a> {
    fn get(&self, index: usize) -> Option<&'a [u8]> {
        let parts = || self.parts.get(index - self.lead.len());
        self.lead.get(index).or_else(parts).copied()
    }

    /// Moves on to the next slice that has bytes left; is there none?
    fn is_empty(&mut self) -> bool {
        while let Some(slice) = self.get(self.index) {
            if self.offset < slice.len() {
                return false;
            }
            (self.index, self.offset) = (self.index + 1, 0);
        }
        true
    }

    fn slices(&self) -> ([IoSlice<'a>; PARTS_PER_WRITE], usize) {
        let mut slices = [IoSlice::new(&[]); PARTS_PER_WRITE];
        let mut count = 0;
        let (mut index, mut offset) = (self.index, self.offset);
        while count < PARTS_PER_WRITE
            && let Some(slice) = self.get(index)
        {
            if offset < slice.len() {
                slices[count] = IoSlice::new(&slice[offset..]);
                count += 1;
            }
            (index, offset) = (index + 1, 0);
        }
        (slices, count)
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(slice) = self.get(self.index) {
            let left = slice.len() - self.offset;
            if written < left {
                self.offset += written;
                return;
            }
            written -= left;
            (self.index, self.offset) = (self.index + 1, 0);
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_same_bytes_however_they_are_written() {
        let parts: Vec<Vec<u8>> = (0..300u32).map(|i| vec![i as u8; (i % 4) as usize]).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let whole = [b"pending", &b""[..], &parts.concat()].concat();
        for step in [1, 2, 3, 7, 100, 1000] {
            let mut rest = Rest { lead: [b"pending", b""], parts: &parts, index: 0, offset: 0 };
            let mut written = Vec::new();
            while !rest.is_empty() {
                let (slices, count) = rest.slices();
                let offered: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                let taken = step.min(offered.len());
                written.extend_from_slice(&offered[..taken]);
                rest.advance(taken);
            }
            assert_eq!(written, whole, "{step} bytes at a time");
        }
    }
}
