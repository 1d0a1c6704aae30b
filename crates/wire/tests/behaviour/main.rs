//! How the transport behaves, through its public face: against itself, and against peers that
//! misbehave.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod handshake;
mod patience;
mod round_trip;
mod tls;

use contract::secret::Secret;
use contract::{Kind, Result};
use std::time::Duration;
use tokio::io::DuplexStream;
use wire::{Acceptor, Connection, Connector, Endpoint, Limits, Service};

const SERVICE: Service = Service { name: "test", version: 1 };
const CLIENT_INCARNATION: u64 = 7;
const SERVER_INCARNATION: u64 = 3;

/// Longer than any test takes on a slow machine; no test waits for it to pass.
const LONG: Duration = Duration::from_secs(60);
/// For tests that wait for it to pass.
const SHORT: Duration = Duration::from_millis(20);

fn limits() -> Limits {
    Limits { handshake_timeout: Some(LONG), ..Limits::default() }
}

fn endpoint(incarnation: u64, token: Option<&str>) -> Endpoint {
    let token = token.map(Secret::new);
    Endpoint { token, limits: limits(), ..Endpoint::new(SERVICE, incarnation) }
}

fn client_endpoint() -> Endpoint {
    endpoint(CLIENT_INCARNATION, None)
}

fn server_endpoint() -> Endpoint {
    endpoint(SERVER_INCARNATION, None)
}

/// What either side of a handshake gets.
async fn meet(client: Endpoint, server: Endpoint) -> (Result<Connection>, Result<Connection>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let connector = Connector::new(client, None).unwrap();
    let acceptor = Acceptor::new(server, None).unwrap();
    tokio::join!(connector.connect_over(near, "server"), acceptor.accept_over(far, "client"))
}

/// Two ends that have met, the client's first.
async fn pair(client: Endpoint, server: Endpoint) -> (Connection, Connection) {
    let (client, server) = meet(client, server).await;
    (client.unwrap(), server.unwrap())
}

/// The server's end of a connection whose client has gone over to sending whatever the test likes.
async fn hijacked(server: Endpoint) -> (DuplexStream, Connection) {
    let (mut near, far) = tokio::io::duplex(8 << 20);
    let acceptor = Acceptor::new(server, None).unwrap();
    let (_, connection) =
        tokio::join!(handshake::greet(&mut near), acceptor.accept_over(far, "client"));
    (near, connection.unwrap())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn kind<T>(outcome: Result<T>) -> Option<Kind> {
    outcome.err().map(|error| error.kind())
}
