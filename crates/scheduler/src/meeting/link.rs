//! A connection between the conductor and a rank: who the rank is, then the lines that a conductor
//! and a supervisor exchange, one a frame.

use super::identity;
use crate::supervisor::host::Host;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use wire::{Acceptor, Connection, Connector, Endpoint, Header, Receiver, Sender, Service};

const SERVICE: Service = Service { name: "rank", version: 2 };
/// The kind of every frame: a line of JSON.
const LINE: u16 = 1;
/// How long a rank's supervisor may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is buffered between a link and whoever reads it.
const PIPE_BYTES: usize = 64 << 10;
/// How long the other end may leave what it is sent unread. A conductor whose disk is slow is
/// not dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// A rank as it introduces itself. Machines may differ, so each says its own paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its number.
    pub rank: u32,
    /// How many it believes there are.
    pub size: u32,
    /// The name of its machine.
    pub machine: String,
    /// How others reach it; empty for the address that it comes from.
    pub address: String,
    /// The program `paddle` there.
    pub paddle: String,
    /// Where its supervisor keeps its lock, and the master its state.
    pub directory: PathBuf,
}

/// A rank, or the conductor, at the other end.
pub(crate) struct Link {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// What makes links of accepted sockets.
pub(crate) fn acceptor(key: &Secret) -> Result<Acceptor> {
    Acceptor::new(endpoint(key), Some(identity::server(key)?))
}

fn endpoint(key: &Secret) -> Endpoint {
    let mut endpoint = Endpoint::new(SERVICE, wire::fresh_incarnation());
    endpoint.token = Some(key.clone());
    endpoint.limits.frame_bytes_max = crate::supervisor::message::LINE_BYTES_MAX as u32;
    endpoint.limits.write_timeout = Some(WRITE_TIMEOUT);
    endpoint
}

/// The conductor's side.
///
/// # Errors
/// The other end is no rank of this start.
pub(crate) async fn accept(stream: TcpStream, acceptor: &Acceptor) -> Result<(Link, Member)> {
    let mut link = Link::from(acceptor.accept(stream).await?);
    let line = link.receive().await?.unwrap_or_default();
    let member = serde_json::from_slice(&line).map_err(|source| {
        let message = "a rank introduced itself in words that are not known: use matching releases";
        Error::new(Kind::Unsupported, message).because(source)
    })?;
    Ok((link, member))
}

/// A rank's side.
pub(crate) async fn dial(address: &str, key: &Secret, own: &Member) -> Result<Link> {
    let connector = Connector::new(endpoint(key), Some(identity::client(key)?))?;
    let mut link = Link::from(connector.dial(address).await?);
    let introduction = serde_json::to_vec(own)
        .map_err(|source| Error::invalid("cannot write an introduction").because(source))?;
    link.sender.send(Header::new(LINE, 0), &[&introduction]).await?;
    Ok(link)
}

impl From<Connection> for Link {
    fn from(connection: Connection) -> Self {
        let Connection { sender, receiver, .. } = connection;
        Link { sender, receiver }
    }
}

impl Link {
    async fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.receiver.next().await?.map(|frame| frame.body.to_vec()))
    }

    /// Makes the supervisor at the other end look like one behind a pipe.
    pub(crate) async fn into_host(self, machine: &str) -> Result<Host> {
        let Link { sender, receiver } = self;
        let (commands, command_lines) = tokio::io::duplex(PIPE_BYTES);
        let (event_lines, events) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(send_lines(command_lines, sender));
        tokio::spawn(receive_lines(receiver, event_lines));
        Host::attach(machine, Box::new(commands), Box::new(events), PATIENCE).await
    }
}

/// Sends every line that is read; at their end the link is closed in this direction.
pub(crate) async fn send_lines(
    from: impl tokio::io::AsyncRead + Unpin,
    mut sender: Sender,
) -> Result<()> {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.unwrap_or(0) > 0 {
        sender.send(Header::new(LINE, 0), &[&line]).await?;
        line.clear();
    }
    sender.close().await
}

/// Writes every line that is received; at their end the other side is closed. Returns the last.
pub(crate) async fn receive_lines(
    mut receiver: Receiver,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) -> Result<Vec<u8>> {
    let mut last = Vec::new();
    while let Some(frame) = receiver.next().await? {
        if to.write_all(&frame.body).await.is_err() || to.flush().await.is_err() {
            return Err(Error::new(Kind::Unavailable, "the supervisor of this rank has died"));
        }
        last = frame.body.to_vec();
    }
    Ok(last)
}
