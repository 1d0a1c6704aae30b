//! One connection as a client uses it: requests out by whoever asks, replies in by a task that finds
//! who asked. Does not dial again and sends nothing twice: that is the application's.
//!
//! The task reads as long as the connection lives, whatever the writers do, so that two sides with
//! full buffers never wait for each other. Once broken a session stays broken.

use crate::{Body, Connection, Frame, Header, Receiver, Sender, fault};
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// An established connection that many may ask over at a time.
pub struct Session {
    sender: tokio::sync::Mutex<Sender>,
    waiters: Arc<Waiters>,
    next_request: AtomicU64,
    reader: tokio::task::AbortHandle,
}

/// The answer to one of several requests. The outer error is the connection's, the inner one the
/// server's.
pub struct Delivery {
    /// Which of the requests.
    pub index: usize,
    /// What came.
    pub reply: Result<Result<Body>>,
}

/// Who waits for the answer to a request.
pub struct Waiter {
    /// The kind of the request; that of its reply must be the same.
    pub kind: u16,
    /// Which of several requests it is, for whoever waits.
    pub index: usize,
    /// Not bounded: there is one delivery per request.
    pub deliveries: UnboundedSender<Delivery>,
}

struct Waiters(Mutex<Desk>);

struct Desk {
    /// By number of the request, so that those who wait are told in the order they asked.
    waiting: BTreeMap<u64, Waiter>,
    /// When the last frame came.
    heard: Instant,
    /// Why the connection is of no use any more.
    fault: Option<String>,
}

impl Session {
    /// Begins to read replies, on the runtime of the caller.
    pub fn start(connection: Connection) -> Session {
        let desk = Desk { waiting: BTreeMap::new(), heard: Instant::now(), fault: None };
        let waiters = Arc::new(Waiters(Mutex::new(desk)));
        let reader = tokio::spawn(read(connection.receiver, Arc::clone(&waiters))).abort_handle();
        Session {
            sender: tokio::sync::Mutex::new(connection.sender),
            waiters,
            next_request: AtomicU64::new(1),
            reader,
        }
    }

    /// Sends a request, or leaves a small one for [`Session::flush`] to send.
    pub async fn feed(&self, waiter: Waiter, parts: &[&[u8]]) -> Result<()> {
        let request = self.next_request.fetch_add(1, Ordering::Relaxed);
        let header = Header::new(waiter.kind, request);
        self.waiters.expect(request, waiter)?;
        self.sender.lock().await.feed(header, parts).await
    }

    /// Sends what was fed.
    pub async fn flush(&self) -> Result<()> {
        self.sender.lock().await.flush().await
    }

    /// Whether nothing can be asked over it any more.
    pub fn is_broken(&self) -> bool {
        self.waiters.desk().fault.is_some()
    }

    /// When the server last said anything.
    pub fn heard(&self) -> Instant {
        self.waiters.desk().heard
    }

    /// Gives the connection up; everybody who waits is told.
    pub fn give_up(&self, reason: &Error) {
        self.reader.abort();
        self.waiters.give_up(reason);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut receiver: Receiver, waiters: Arc<Waiters>) {
    let reason = loop {
        match receiver.next().await {
            Ok(Some(frame)) => {
                if let Err(error) = waiters.deliver(frame) {
                    break error;
                }
            }
            Ok(None) => {
                let gone = Error::new(Kind::Unavailable, "server closed the connection");
                break gone.with("peer", &receiver.peer().name);
            }
            Err(error) => break error,
        }
    };
    waiters.give_up(&reason);
}

impl Waiters {
    fn expect(&self, request: u64, waiter: Waiter) -> Result<()> {
        let mut desk = self.desk();
        if let Some(fault) = &desk.fault {
            return Err(broken(fault));
        }
        desk.waiting.insert(request, waiter);
        Ok(())
    }

    fn deliver(&self, frame: Frame) -> Result<()> {
        let mut desk = self.desk();
        desk.heard = Instant::now();
        let waiter = desk.waiting.remove(&frame.header.request);
        drop(desk);
        let waiter = waiter
            .filter(|waiter| frame.header.is_reply() && frame.header.kind == waiter.kind)
            .ok_or_else(|| {
                Error::new(Kind::Damaged, "server answered what nobody asked")
                    .with("request", frame.header.request)
                    .with("kind", frame.header.kind)
            })?;
        let reply = match frame.header.is_error() {
            true => Err(fault::decode(&frame.body)),
            false => Ok(frame.body),
        };
        // Whoever asked may have lost interest.
        let _ = waiter.deliveries.send(Delivery { index: waiter.index, reply: Ok(reply) });
        Ok(())
    }

    fn give_up(&self, reason: &Error) {
        let mut desk = self.desk();
        let fault = desk.fault.get_or_insert_with(|| reason.chain()).clone();
        let waiting = std::mem::take(&mut desk.waiting);
        drop(desk);
        for waiter in waiting.into_values() {
            let delivery = Delivery { index: waiter.index, reply: Err(broken(&fault)) };
            let _ = waiter.deliveries.send(delivery);
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing in here panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn broken(fault: &str) -> Error {
    Error::new(Kind::Unavailable, "connection to the server is broken").because(fault)
}
