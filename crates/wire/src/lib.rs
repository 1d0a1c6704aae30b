//! The transport that pserver and master share. It moves frames between two processes that belong
//! to one job, and knows nothing of what is in them.
//!
//! A server turns each accepted socket into a [`Connection`] with an [`Acceptor`], a client dials
//! with a [`Connector`]; both say who they are by an [`Endpoint`]. On the way TLS is spoken if it is
//! configured, and each side proves to the other that it has the job's token. Then frames flow both
//! ways, many requests at a time, answered in any order. What both applications' clients need besides
//! is here too: matching replies to requests ([`Session`]), waiting between attempts ([`Retry`]), a
//! runtime for callers without one ([`blocking`]) and errors as they travel ([`fault`]). What to ask
//! again after a connection broke is theirs.
//!
//! Whatever comes from a peer is checked before it is believed; it never panics, and never makes us
//! allocate more than a small multiple of what the peer really sent. Timeouts need a tokio runtime
//! with time enabled.
//!
//! Reading order: what it may cost ([`Limits`]) → bytes of a header ([`frame`]) → memory of bodies
//! ([`Pool`]) → socket to frames and back ([`Receiver`], [`Sender`]) → who may talk (`handshake`) →
//! [`tls`] → all of it together ([`Connection`]) → as a client uses it ([`Session`]).
//!
//! ```
//! use wire::{Acceptor, Connector, Endpoint, Header, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> contract::Result<()> {
//! const SERVICE: Service = Service { name: "double", version: 1 };
//! let token = || Some(contract::secret::Secret::new("one per job"));
//! let acceptor = Acceptor::new(Endpoint { token: token(), ..Endpoint::new(SERVICE, 1) }, None)?;
//! let connector = Connector::new(Endpoint { token: token(), ..Endpoint::new(SERVICE, 7) }, None)?;
//! let (near, far) = tokio::io::duplex(4096);
//!
//! let server = async {
//!     let mut connection = acceptor.accept_over(far, "client").await?;
//!     while let Some(frame) = connection.receiver.next().await? {
//!         let doubled: Vec<u64> = wire::cast::<u64>(&frame.body)?.iter().map(|x| 2 * x).collect();
//!         let parts = [zerocopy::IntoBytes::as_bytes(doubled.as_slice())];
//!         connection.sender.send(frame.header.reply(), &parts).await?;
//!     }
//!     Ok(())
//! };
//! let client = async {
//!     let mut connection = connector.connect_over(near, "server").await?;
//!     connection.sender.send(Header::new(1, 42), &[&21u64.to_le_bytes()]).await?;
//!     let reply = connection.receiver.next().await?.expect("the server has not closed");
//!     assert_eq!((reply.header.request, reply.header.is_reply()), (42, true));
//!     assert_eq!(wire::cast::<u64>(&reply.body)?, [42]);
//!     connection.sender.close().await
//! };
//! tokio::try_join!(server, client)?;
//! # Ok(())
//! # }
//! ```

mod limits;

pub mod frame;
mod pool;
mod transfer;

mod receiver;
mod sender;

mod handshake;
pub mod tls;

mod connection;

pub mod blocking;
pub mod fault;
mod retry;
mod session;

pub use connection::{
    Acceptor, Connection, Connector, Dial, Dialling, Endpoint, Listener, Peer, Service, Socket,
    Stream, fresh_incarnation,
};
pub use frame::{Frame, Header, cast};
pub use handshake::VERSION;
pub use limits::Limits;
pub use pool::{Body, Pool};
pub use receiver::Receiver;
pub use retry::{Attempts, Retry, may_pass};
pub use sender::Sender;
pub use session::{Delivery, Session, Waiter};
