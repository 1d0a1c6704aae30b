//! One connection: requests in, replies out. Decides nothing.

use super::desk::{Event, Reply, Ticket};
use contract::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use wire::{Acceptor, Connection, Listener, Sender, fault};

/// Requests of one connection that may be unanswered; further ones wait in the socket.
const REQUESTS_MAX: usize = 64;
/// How long to wait when connections cannot be accepted: others must end before we go on.
const BREATHER: Duration = Duration::from_millis(200);

/// Lets peers in and hands their requests on, for ever.
pub(super) async fn accept(
    mut listener: Listener,
    acceptor: Acceptor,
    events: mpsc::Sender<Event>,
    connections: Arc<Semaphore>,
) {
    // Ends with this task.
    let mut conversations = JoinSet::new();
    loop {
        while conversations.try_join_next().is_some() {}
        let socket = match listener.accept().await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&connections).try_acquire_owned() else {
            tracing::warn!("too many connections");
            continue;
        };
        let (acceptor, events) = (acceptor.clone(), events.clone());
        conversations.spawn(async move {
            let _place = place;
            let outcome = match acceptor.accept(socket).await {
                Ok(established) => converse(established, events).await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                tracing::warn!(error = %error.chain(), "connection ended");
            }
        });
    }
}

async fn converse(established: Connection, events: mpsc::Sender<Event>) -> Result<()> {
    let Connection { sender, mut receiver, .. } = established;
    let (replies, outgoing) = mpsc::unbounded_channel();
    let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut writing = JoinSet::new();
    writing.spawn(write(sender, outgoing));
    let outcome = loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&requests).acquire_owned().await else { break Ok(()) };
        let frame = match receiver.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let ticket = Ticket { header: frame.header, replies: replies.clone(), permit };
        let event = Event::Request { ticket, owner: frame.incarnation, body: frame.body };
        if events.send(event).await.is_err() {
            break Ok(());
        }
    };
    // What is still to be answered is nobody's any more, and ends with `writing`.
    outcome
}

async fn write(mut sender: Sender, mut outgoing: mpsc::UnboundedReceiver<Reply>) -> Result<()> {
    while let Some(reply) = outgoing.recv().await {
        feed(&mut sender, reply).await?;
        while let Ok(reply) = outgoing.try_recv() {
            feed(&mut sender, reply).await?;
        }
        sender.flush().await?;
    }
    Ok(())
}

async fn feed(sender: &mut Sender, reply: Reply) -> Result<()> {
    match &reply.outcome {
        Ok(body) => sender.feed(reply.header.reply(), &[body]).await,
        Err(error) => sender.feed(reply.header.error_reply(), &[&fault::encode(error)]).await,
    }
}
