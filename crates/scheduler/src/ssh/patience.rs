//! A stream that is given up when nothing moves on it for long. The far end may hang, with its
//! machine or its disk, while `ssh` itself finds that the connection is well.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long nothing may move. A host that sums up a large package says nothing meanwhile.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(600);

/// A stream whose every read and write ends within [`SILENCE_MAX`].
pub(super) struct Patient<S> {
    stream: S,
    /// Runs out when nothing has moved for long.
    silence: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Patient { stream, silence: Box::pin(sleep(SILENCE_MAX)), is_waiting: false }
    }

    /// The outcome, unless nothing came and the patience has run out.
    fn within<T>(&mut self, context: &mut Context<'_>, moved: Poll<Result<T>>) -> Poll<Result<T>> {
        if moved.is_ready() {
            self.is_waiting = false;
            return moved;
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        ready!(self.silence.as_mut().poll(context));
        let seconds = SILENCE_MAX.as_secs();
        let message = format!("nothing came for {seconds} s: paddle or a disk hangs there");
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.within(context, read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn only_a_stream_on_which_nothing_moves_is_given_up() {
        let (near, mut far) = duplex(4);
        let mut near = Patient::new(near);
        // In all it takes longer than nothing may move.
        let speaking = tokio::spawn(async move {
            for _ in 0..3 {
                sleep(SILENCE_MAX * 2 / 3).await;
                far.write_all(b"word").await.unwrap();
            }
            far
        });
        let mut words = [0; 12];
        near.read_exact(&mut words).await.unwrap();
        let far = speaking.await.unwrap();
        assert_eq!(near.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(near.write_all(b"too much").await.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(far);
    }
}
