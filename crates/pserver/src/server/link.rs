//! The way out of one connection: replies in a queue, and the task that writes them.

use crate::shard::Reply;
use contract::Result;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;
use wire::{Header, Sender, fault};

/// Replies that wait beyond this stop the reading of further requests.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Replies of one connection.
#[derive(Default)]
pub(super) struct Link {
    queue: RefCell<VecDeque<(Header, Reply)>>,
    queued_bytes: Cell<usize>,
    is_closed: Cell<bool>,
    is_done: Cell<bool>,
    has_replies: Notify,
    has_room: Notify,
}

impl Link {
    pub(super) fn put(&self, header: Header, reply: Reply) {
        self.queued_bytes.set(self.queued_bytes.get() + size_of_reply(&reply));
        self.queue.borrow_mut().push_back((header, reply));
        self.has_replies.notify_one();
    }

    /// No more replies will come: the writer ends when the queue is empty.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.has_replies.notify_one();
    }

    /// Whether everything has been written, or nothing more can be.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.get()
    }

    /// Waits until the peer has taken enough of what waits for it.
    pub(super) async fn room(&self) {
        while self.queued_bytes.get() > QUEUED_BYTES_MAX && !self.is_closed.get() {
            self.has_room.notified().await;
        }
    }

    /// Writes replies until the link is closed or the connection breaks. What was written goes to
    /// `sent`.
    pub(super) async fn write(
        self: Rc<Self>,
        mut sender: Sender,
        sent: impl Fn(Reply),
    ) -> Result<()> {
        let outcome = self.write_all(&mut sender, sent).await;
        self.is_closed.set(true);
        self.is_done.set(true);
        self.queued_bytes.set(0);
        self.queue.borrow_mut().clear();
        self.has_room.notify_one();
        outcome
    }

    async fn write_all(&self, sender: &mut Sender, sent: impl Fn(Reply)) -> Result<()> {
        let mut narrowed = Vec::new();
        loop {
            let next = self.queue.borrow_mut().pop_front();
            match next {
                Some((header, reply)) => {
                    send(sender, header, &reply, &mut narrowed).await?;
                    let left = self.queued_bytes.get().saturating_sub(size_of_reply(&reply));
                    self.queued_bytes.set(left);
                    self.has_room.notify_one();
                    sent(reply);
                }
                None if self.is_closed.get() => return sender.close().await,
                None => {
                    sender.flush().await?;
                    self.has_replies.notified().await;
                }
            }
        }
    }
}

async fn send(
    sender: &mut Sender,
    request: Header,
    reply: &Reply,
    narrowed: &mut Vec<u8>,
) -> Result<()> {
    match reply {
        Reply::Message(message) => {
            let heads = message.heads();
            let keys = bytemuck::cast_slice(&message.keys);
            let values = message.value_bytes(narrowed);
            sender.feed(request.reply(), &[&heads, keys, values]).await
        }
        Reply::Json(body) => sender.feed(request.reply(), &[body]).await,
        Reply::Error(error) => sender.feed(request.error_reply(), &[&fault::encode(error)]).await,
    }
}

fn size_of_reply(reply: &Reply) -> usize {
    match reply {
        // Something for the heads, so that no reply counts for nothing.
        Reply::Message(message) => 64 + message.keys.len() * 8 + message.values.len() * 4,
        Reply::Json(body) => 64 + body.len(),
        Reply::Error(_) => 64,
    }
}
