//! From a socket to a connection, on either side: TLS if asked for, the handshake, then the halves.
//! Does not listen, retry or reconnect.

use crate::transfer::{failure, within};
use crate::{Limits, Receiver, Sender, handshake, tls};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::mpsc::UnboundedReceiver;

/// What a side of a connection says of itself and asks of the other.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// What is spoken over the frames.
    pub service: Service,
    /// Which life of this process it is; stamped on every frame.
    pub incarnation: u64,
    /// The job's token. Both sides must have the same, or both none.
    pub token: Option<Secret>,
    /// What a connection may cost.
    pub limits: Limits,
}

/// A set of frame kinds and their meaning. Both sides must name the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// At most 8 printable ASCII characters.
    pub name: &'static str,
    /// Changes whenever an older peer would misunderstand.
    pub version: u16,
}

/// A peer that has passed the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its address, or what the caller called it; it is in every error of the connection.
    pub name: String,
    /// Which life of the peer's process it is. Every frame of the connection carries it.
    pub incarnation: u64,
    /// The largest body that the peer accepts, in bytes.
    pub frame_bytes_max: u32,
}

/// An established connection: two halves that can live in different tasks.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: Arc<Peer>,
    /// Frames to the peer.
    pub sender: Sender,
    /// Frames from the peer.
    pub receiver: Receiver,
}

/// Makes connections out of accepted sockets. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Acceptor {
    endpoint: Arc<Endpoint>,
    tls: Option<tls::ServerConfig>,
}

/// Makes connections to servers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    endpoint: Arc<Endpoint>,
    tls: Option<tls::ClientConfig>,
    dial: Option<Arc<dyn Dial>>,
}

/// Another way to an address than TCP: the simulation's network.
pub trait Dial: fmt::Debug + Send + Sync {
    /// A stream to whoever listens at the address.
    fn dial<'a>(&'a self, address: &'a str) -> Dialling<'a>;
}

/// A stream on its way.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// A socket that was accepted, see [`Listener`].
pub enum Socket {
    /// Of the operating system.
    Tcp(TcpStream),
    /// Any other stream, with what errors call it.
    Other(Box<dyn Stream>, String),
}

impl From<TcpStream> for Socket {
    fn from(socket: TcpStream) -> Socket {
        Socket::Tcp(socket)
    }
}

/// Where sockets come from.
pub enum Listener {
    /// The operating system.
    Tcp(TcpListener),
    /// Whoever holds the other end of the channel: the simulation's network.
    Other(UnboundedReceiver<Socket>),
}

impl Listener {
    /// The next socket. A channel whose other end is gone never has one.
    pub async fn accept(&mut self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => Ok(Socket::Tcp(listener.accept().await?.0)),
            Listener::Other(sockets) => match sockets.recv().await {
                Some(socket) => Ok(socket),
                None => std::future::pending().await,
            },
        }
    }
}

impl Endpoint {
    /// An endpoint without a token and with the default limits.
    pub fn new(service: Service, incarnation: u64) -> Self {
        Endpoint { service, incarnation, token: None, limits: Limits::default() }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        let name = self.service.name;
        let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > SERVICE_NAME_BYTES || !is_printable {
            return Err(Error::invalid("service name must be 1 to 8 printable ASCII characters")
                .with("name", name));
        }
        if self.token.as_ref().is_some_and(|token| token.expose().is_empty()) {
            return Err(Error::invalid("job token is empty; give one, or none on both sides"));
        }
        self.limits.check()
    }

    /// Establishing a connection, in time; its errors name the peer.
    async fn timely<T>(&self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.limits.handshake_timeout;
        let outcome = within(limit, "handshake took too long", work).await;
        outcome.and_then(|outcome| outcome).map_err(|error| error.with("peer", name))
    }
}

/// An incarnation that no other process has: random numbers of the operating system, the time and
/// the process.
pub fn fresh_incarnation() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let facts = (now.unwrap_or_default().as_nanos(), std::process::id());
    RandomState::new().hash_one(facts).max(1)
}

const SERVICE_NAME_BYTES: usize = 8;

impl Service {
    pub(crate) fn padded_name(&self) -> [u8; SERVICE_NAME_BYTES] {
        let mut padded = [0; SERVICE_NAME_BYTES];
        padded.iter_mut().zip(self.name.bytes()).for_each(|(target, byte)| *target = byte);
        padded
    }
}

impl Acceptor {
    /// Checks the endpoint once, for all connections.
    pub fn new(endpoint: Endpoint, tls: Option<tls::ServerConfig>) -> Result<Self> {
        endpoint.check()?;
        Ok(Acceptor { endpoint: Arc::new(endpoint), tls })
    }

    /// Lets the peer of an accepted socket in, or tells it why not.
    ///
    /// `Unauthenticated` without the right token or certificate, `Unsupported` when the peer is of
    /// another version or service, `Damaged` when it speaks something else, `Timeout` after
    /// [`Limits::handshake_timeout`], `Unavailable` when it goes away.
    pub async fn accept(&self, socket: impl Into<Socket>) -> Result<Connection> {
        let socket = match socket.into() {
            Socket::Tcp(socket) => socket,
            Socket::Other(stream, name) => return self.accept_over(stream, &name).await,
        };
        let name = socket.peer_addr().map_or_else(|_| "gone".into(), |address| address.to_string());
        let work = async {
            set_up(&socket)?;
            self.establish(socket, &name, tcp_halves).await
        };
        self.endpoint.timely(&name, work).await
    }

    /// The same over any stream; `name` is for errors.
    pub async fn accept_over<S: Stream>(&self, stream: S, name: &str) -> Result<Connection> {
        self.endpoint.timely(name, self.establish(stream, name, halves)).await
    }

    async fn establish<S: Stream>(
        &self,
        mut stream: S,
        name: &str,
        split: fn(S) -> Halves,
    ) -> Result<Connection> {
        let endpoint = &*self.endpoint;
        let (peer, halves) = match &self.tls {
            None => (handshake::accept(&mut stream, endpoint, name).await?, split(stream)),
            Some(tls) => {
                let mut stream = tls.accept(stream).await?;
                (handshake::accept(&mut stream, endpoint, name).await?, halves(stream))
            }
        };
        Ok(Connection::new(peer, halves, endpoint))
    }
}

impl Connector {
    /// Checks the endpoint once, for all connections.
    pub fn new(endpoint: Endpoint, tls: Option<tls::ClientConfig>) -> Result<Self> {
        endpoint.check()?;
        Ok(Connector { endpoint: Arc::new(endpoint), tls, dial: None })
    }

    /// The same, reaching addresses in another way than TCP, if there is one.
    #[must_use]
    pub fn over(self, dial: Option<Arc<dyn Dial>>) -> Self {
        Connector { dial, ..self }
    }

    /// Connects to `host:port`. Errors as of [`Acceptor::accept`]; dialling is part of
    /// [`Limits::handshake_timeout`].
    pub async fn dial(&self, address: &str) -> Result<Connection> {
        if let Some(dial) = &self.dial {
            let work = async {
                let stream = dial.dial(address).await;
                let stream = stream.map_err(|source| failure("cannot connect", source))?;
                self.establish(stream, address, halves).await
            };
            return self.endpoint.timely(address, work).await;
        }
        let work = async {
            let addresses = resolve(address).await?;
            let socket = TcpStream::connect(addresses.as_slice())
                .await
                .map_err(|source| failure("cannot connect", source))?;
            set_up(&socket)?;
            self.establish(socket, address, tcp_halves).await
        };
        self.endpoint.timely(address, work).await
    }

    /// The same over any stream; `name` is for errors.
    pub async fn connect_over<S: Stream>(&self, stream: S, name: &str) -> Result<Connection> {
        self.endpoint.timely(name, self.establish(stream, name, halves)).await
    }

    async fn establish<S: Stream>(
        &self,
        mut stream: S,
        name: &str,
        split: fn(S) -> Halves,
    ) -> Result<Connection> {
        let endpoint = &*self.endpoint;
        let (peer, halves) = match &self.tls {
            None => (handshake::connect(&mut stream, endpoint, name).await?, split(stream)),
            Some(tls) => {
                let mut stream = tls.connect(stream).await?;
                (handshake::connect(&mut stream, endpoint, name).await?, halves(stream))
            }
        };
        Ok(Connection::new(peer, halves, endpoint))
    }
}

impl Connection {
    fn new(peer: Peer, halves: Halves, endpoint: &Endpoint) -> Self {
        let peer = Arc::new(peer);
        let sender =
            Sender::new(halves.writer, peer.clone(), endpoint.incarnation, endpoint.limits);
        let receiver = Receiver::new(halves.reader, peer.clone(), endpoint.limits);
        Connection { peer, sender, receiver }
    }
}

/// Whatever can carry a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Boxed, so that connections over plain TCP and over TLS are of one type; a call through a pointer
/// is nothing beside a read.
struct Halves {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// A socket's halves work at the same time; those of other streams take turns.
fn tcp_halves(socket: TcpStream) -> Halves {
    let (reader, writer) = socket.into_split();
    Halves { reader: Box::new(reader), writer: Box::new(writer) }
}

fn halves<S: Stream>(stream: S) -> Halves {
    let (reader, writer) = tokio::io::split(stream);
    Halves { reader: Box::new(reader), writer: Box::new(writer) }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>> {
    match lookup_host(address).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(source) if source.kind() == ErrorKind::InvalidInput => {
            Err(Error::invalid("address is not of the form host:port").because(source))
        }
        // A cluster's name service may hear of a new host later than we do.
        Err(source) => {
            Err(Error::new(Kind::Unavailable, "cannot resolve the address").because(source))
        }
    }
}

/// Bytes that a socket to this very machine buffers each way; the system doubles them.
///
/// By default they grow to megabytes, so that what is read has left the cache since it was written.
/// Measured in frames of a mebibyte on one machine: 0.12 s of both processors for a gigabyte instead
/// of 0.18 to 0.23.
const LOCAL_BUFFER_BYTES: usize = 128 << 10;

fn set_up(socket: &TcpStream) -> Result<()> {
    // Frames are whole messages: waiting for more to send would only delay them.
    socket.set_nodelay(true).map_err(|source| failure("cannot set up the socket", source))?;
    let is_local = match (socket.local_addr(), socket.peer_addr()) {
        (Ok(own), Ok(peer)) => own.ip() == peer.ip(),
        _ => false,
    };
    if is_local {
        // Where that is refused, it only takes longer.
        let socket = socket2::SockRef::from(socket);
        let _ = socket.set_send_buffer_size(LOCAL_BUFFER_BYTES);
        let _ = socket.set_recv_buffer_size(LOCAL_BUFFER_BYTES);
    }
    Ok(())
}
