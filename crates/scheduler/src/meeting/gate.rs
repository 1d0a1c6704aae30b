//! The conductor's side of a meeting: waits until every rank has come.

use super::link::{self, Link, Member};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// Connections that may be making themselves known at the same time, beyond those expected.
const STRANGERS_MAX: usize = 64;

/// A rank that has arrived: its link, and both addresses of the connection.
pub(crate) struct Arrival {
    pub(crate) link: Link,
    pub(crate) member: Member,
    pub(crate) peer: IpAddr,
    pub(crate) local: IpAddr,
}

/// Waits for all ranks, in order. They have `patience` from the moment that `started` is over.
pub(crate) async fn collect(
    listener: &TcpListener,
    key: &Secret,
    ranks: u32,
    patience: Duration,
    started: impl Future<Output = ()>,
) -> Result<Vec<Arrival>> {
    let acceptor = link::acceptor(key)?;
    let mut found: Vec<Option<Arrival>> = (0..ranks).map(|_| None).collect();
    let (sender, mut arrivals) = mpsc::channel(found.len().max(1));
    let slots = Arc::new(Semaphore::new(found.len() + STRANGERS_MAX));
    let too_late = async {
        started.await;
        tokio::time::sleep(patience).await;
    };
    tokio::pin!(too_late);
    while found.iter().any(Option::is_none) {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else { continue };
                let Ok(local) = stream.local_addr() else { continue };
                let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    match link::accept(stream, &acceptor).await {
                        Ok((link, member)) => {
                            let (peer, local) = (peer.ip().to_canonical(), local.ip().to_canonical());
                            let arrival = Arrival { link, member, peer, local };
                            drop(sender.send(arrival).await);
                        }
                        Err(error) => tracing::warn!(error = error.chain(), "a caller was refused"),
                    }
                    drop(slot);
                });
            }
            Some(arrival) = arrivals.recv() => {
                let Member { rank, size, .. } = arrival.member;
                if size != ranks {
                    let message = "another number of ranks was started than was asked for";
                    let error = Error::new(Kind::Conflict, message);
                    return Err(error.with("started", size).with("asked", ranks));
                }
                // One that was given up has come again: the older link leads nowhere.
                if let Some(place) = found.get_mut(rank as usize) {
                    *place = Some(arrival);
                }
            }
            () = &mut too_late => return Err(missing(&found, patience)),
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// How other machines reach this one, as far as those that came from others tell.
pub(crate) fn outer_address(arrivals: &[Arrival]) -> IpAddr {
    let outer = arrivals.iter().find(|arrival| !arrival.local.is_loopback());
    outer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |arrival| arrival.local)
}

fn missing(found: &[Option<Arrival>], patience: Duration) -> Error {
    let absent = found.iter().enumerate().filter(|(_, arrival)| arrival.is_none());
    let absent: Vec<String> = absent.map(|(rank, _)| rank.to_string()).collect();
    let message = "not all ranks have reached the conductor: is its port open to their machines?";
    Error::new(Kind::Timeout, message)
        .with("missing", absent.join(","))
        .with("seconds", patience.as_secs())
}
