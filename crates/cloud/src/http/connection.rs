//! How many connections there may be at once, and how long one may be silent. One too many is closed
//! before anything is read of it, and one on which nothing moves after a while, so that those who
//! ask for something are served. A call that is worked on after its connection has gone keeps its
//! place.

use axum_server::accept::Accept;
use std::collections::HashMap;
use std::future::{Future, Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// How long a connection may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    /// Until its first byte.
    pub(crate) first: Duration,
    /// Between any two bytes in either direction, unless a call is being worked on: calls have
    /// limits of their own. Followers hear something more often than this.
    pub(crate) idle: Duration,
}

impl Default for Silence {
    fn default() -> Self {
        Silence { first: Duration::from_secs(10), idle: Duration::from_secs(60) }
    }
}

/// Lets so many connections in.
#[derive(Debug, Clone)]
pub(crate) struct Limited {
    all: u32,
    per_address: u32,
    silence: Silence,
    open: Arc<Mutex<Open>>,
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Open {
    /// By the peer.
    admissions: HashMap<SocketAddr, Weak<Admission>>,
    addresses: HashMap<IpAddr, u32>,
}

impl Limited {
    /// At most `all` at once, and `per_address` from one address.
    pub(crate) fn new(all: u32, per_address: u32, silence: Silence) -> Self {
        Limited { all, per_address, silence, open: Arc::default() }
    }

    /// A call of this peer is worked on until the guard is dropped.
    pub(crate) fn working(&self, peer: SocketAddr) -> Working {
        let admission = self.lock().admissions.get(&peer).and_then(Weak::upgrade);
        if let Some(admission) = &admission {
            admission.calls.fetch_add(1, Ordering::Relaxed);
        }
        Working(admission)
    }

    fn admit(&self, peer: SocketAddr) -> io::Result<Arc<Admission>> {
        let mut open = self.lock();
        let address = network(peer.ip());
        let own = open.addresses.get(&address).copied().unwrap_or(0);
        if open.admissions.len() >= self.all as usize || own >= self.per_address {
            metrics::counter!("cloud_connections_refused").increment(1);
            return Err(io::Error::other("too many connections"));
        }
        let calls = AtomicU32::default();
        let admission = Arc::new(Admission { limited: self.clone(), peer, calls });
        open.admissions.insert(peer, Arc::downgrade(&admission));
        open.addresses.insert(address, own + 1);
        Ok(admission)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who counts as one address: a customer has a whole /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

impl<S> Accept<TcpStream, S> for Limited {
    type Stream = Counted;
    type Service = S;
    type Future = Ready<io::Result<(Counted, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepted = || {
            let admission = self.admit(stream.peer_addr()?)?;
            // Answers are whole; waiting for more of them helps nobody.
            stream.set_nodelay(true)?;
            let silence = Box::pin(sleep(self.silence.first));
            Ok((admission, silence))
        };
        ready(
            accepted()
                .map(|(admission, silence)| (Counted { stream, silence, admission }, service)),
        )
    }
}

/// A call that is being worked on.
#[derive(Debug)]
pub(crate) struct Working(Option<Arc<Admission>>);

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(admission) = &self.0 {
            admission.calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a connection takes up, until it has gone and none of its calls is worked on.
#[derive(Debug)]
struct Admission {
    limited: Limited,
    peer: SocketAddr,
    /// How many calls are being worked on.
    calls: AtomicU32,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut open = self.limited.lock();
        // The peer may have come again by the same port already.
        let is_own = |known: &Weak<Admission>| std::ptr::eq(known.as_ptr(), self);
        if open.admissions.get(&self.peer).is_some_and(is_own) {
            open.admissions.remove(&self.peer);
        }
        let address = network(self.peer.ip());
        match open.addresses.get_mut(&address) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                open.addresses.remove(&address);
            }
        }
    }
}

/// A connection that counts while it lives.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    admission: Arc<Admission>,
}

impl Counted {
    /// Passes on what a step gave; one that waits fails when it was silent for too long.
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        step: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let idle = self.admission.limited.silence.idle;
        if step.is_ready() {
            self.silence.as_mut().reset(Instant::now() + idle);
            return step;
        }
        while self.silence.as_mut().poll(context).is_ready() {
            if self.admission.calls.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.silence.as_mut().reset(Instant::now() + idle);
        }
        Poll::Pending
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watched(context, step)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, step)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watched(context, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(20);

    /// Both ends of a connection that was let in.
    async fn pair(limited: &Limited) -> io::Result<(TcpStream, Counted)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let peer = TcpStream::connect(listener.local_addr()?).await?;
        let (stream, ()) = limited.accept(listener.accept().await?.0, ()).await?;
        Ok((peer, stream))
    }

    #[tokio::test]
    async fn a_connection_that_sends_nothing_is_closed() {
        let limited = Limited::new(8, 8, Silence { first: SHORT, idle: LONG });
        let (_peer, mut stream) = pair(&limited).await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_that_stalls_is_closed_unless_a_call_is_worked_on() {
        let limited = Limited::new(8, 8, Silence { first: LONG, idle: SHORT });
        let (mut peer, mut stream) = pair(&limited).await.unwrap();
        peer.write_all(b"a").await.unwrap();
        stream.read_u8().await.unwrap();
        let working = limited.working(peer.local_addr().unwrap());
        assert!(tokio::time::timeout(SHORT * 10, stream.read_u8()).await.is_err());
        drop(working);
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Nor does somebody who reads nothing keep a place.
        let (_peer, mut stream) = pair(&limited).await.unwrap();
        let error = stream.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn one_address_does_not_take_all_places() {
        let limited = Limited::new(8, 2, Silence::default());
        let first = pair(&limited).await.unwrap();
        let _second = pair(&limited).await.unwrap();
        assert!(pair(&limited).await.is_err());
        limited.admit("10.0.0.1:80".parse().unwrap()).unwrap();
        let (peer, stream) = first;
        let working = limited.working(peer.local_addr().unwrap());
        drop((peer, stream));
        assert!(pair(&limited).await.is_err(), "its call is still worked on");
        drop(working);
        pair(&limited).await.unwrap();
    }
}
