//! Who may talk: what both sides do before the first frame. The job token never travels.
//!
//! ```text
//! client                                   server
//!   hello (versions, service, nonce, …) ──►
//!                                       ◄── hello
//!   proof                               ──►
//!                                       ◄── verdict (reason, proof)
//! ```
//!
//! Each side proves that it has the token by a keyed hash over both hellos, which hold a random
//! number of either side; so nothing can be replayed, sent back, or altered. The client proves
//! first: whoever does not know the token gets nothing from the server to try guesses on.
//! It keeps strangers out. It does not encrypt, and against somebody who can alter packets on the
//! way it protects only together with TLS.

mod message;

pub use message::VERSION;

use crate::transfer::failure;
use crate::{Endpoint, Peer};
use contract::{Error, Kind, Result};
use message::{Hello, Opening, Proof, Reason, Role, Verdict, objection};
use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How long a refused peer may take to hear why.
const FAREWELL: Duration = Duration::from_secs(1);
/// How much a refused peer may still be sending.
const FAREWELL_BYTES: u64 = 64 << 10;

const SPEAKS_TLS: &str = "peer speaks TLS and this side does not; use TLS on both";

/// The client's side. Says who the server is.
pub(crate) async fn connect<S>(stream: &mut S, endpoint: &Endpoint, name: &str) -> Result<Peer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let client = hello(endpoint)?;
    write(stream, &[client.as_bytes()]).await?;

    let opening = read::<Opening, S>(stream).await?;
    if let Some(reason) = opening.objection() {
        return Err(refusal(reason, &client.opening, &opening));
    }
    let server = read_rest(stream, opening).await?;
    if let Some(reason) = objection(&client, &server) {
        return Err(refused_service(reason, &client, &server));
    }

    let proof = prove(endpoint, Role::Client, &client, &server);
    write(stream, &[proof.as_bytes()]).await?;
    let verdict = read::<Verdict, S>(stream).await?;
    if let Some(reason) = Reason::decode(verdict.reason.get())? {
        return Err(reason.error());
    }
    match &endpoint.token {
        Some(token) if !verdict.proof.holds(token, Role::Server, &client, &server) => {
            Err(Error::new(Kind::Unauthenticated, "server did not prove that it has the job token"))
        }
        _ => Ok(peer(name, &server)),
    }
}

/// The server's side. Says who the client is; a client that is refused is told why.
pub(crate) async fn accept<S>(stream: &mut S, endpoint: &Endpoint, name: &str) -> Result<Peer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let server = hello(endpoint)?;
    let opening = read::<Opening, S>(stream).await?;
    if let Some(reason) = opening.objection() {
        refuse(stream, Some(&server), reason).await;
        return Err(refusal(reason, &opening, &server.opening));
    }
    let client = read_rest(stream, opening).await?;
    if let Some(reason) = objection(&client, &server) {
        refuse(stream, Some(&server), reason).await;
        return Err(refused_service(reason, &client, &server));
    }

    write(stream, &[server.as_bytes()]).await?;
    let proof = read::<Proof, S>(stream).await?;
    if let Some(token) = &endpoint.token
        && !proof.holds(token, Role::Client, &client, &server)
    {
        refuse(stream, None, Reason::TokenWrong).await;
        return Err(Reason::TokenWrong.error());
    }
    let proof = prove(endpoint, Role::Server, &client, &server);
    let welcome = Verdict { reason: 0.into(), reserved: 0.into(), proof };
    write(stream, &[welcome.as_bytes()]).await?;
    Ok(peer(name, &client))
}

fn hello(endpoint: &Endpoint) -> Result<Hello> {
    let service = endpoint.service;
    let mut hello = Hello {
        incarnation: endpoint.incarnation.into(),
        frame_bytes_max: endpoint.limits.frame_bytes_max.into(),
        ..Hello::new(service.padded_name(), service.version, endpoint.token.is_some())
    };
    SystemRandom::new().fill(&mut hello.nonce).map_err(|_| {
        Error::new(Kind::Unavailable, "the operating system gives no random numbers")
    })?;
    Ok(hello)
}

fn prove(endpoint: &Endpoint, role: Role, client: &Hello, server: &Hello) -> Proof {
    match &endpoint.token {
        Some(token) => Proof::new(token, role, client, server),
        None => Proof::NONE,
    }
}

fn peer(name: &str, hello: &Hello) -> Peer {
    Peer {
        name: name.to_owned(),
        incarnation: hello.incarnation.get(),
        frame_bytes_max: hello.frame_bytes_max.get(),
    }
}

/// The error about an opening that is not ours, or not of our version.
fn refusal(reason: Reason, client: &Opening, server: &Opening) -> Error {
    let strangers = [client, server].into_iter().find(|side| side.magic != message::MAGIC);
    let error = reason.error();
    match strangers {
        Some(Opening { magic: [0x15 | 0x16, 3, ..], .. }) => Error::new(error.kind(), SPEAKS_TLS),
        Some(stranger) => error.with("found", stranger.as_bytes().escape_ascii()),
        None => error.with("client_version", client.version).with("server_version", server.version),
    }
}

/// The error about a hello that we do not get along with.
fn refused_service(reason: Reason, client: &Hello, server: &Hello) -> Error {
    let describe = |hello: &Hello| {
        let name = hello.service.split(|byte| *byte == 0).next().unwrap_or_default();
        format!("{} version {}", name.escape_ascii(), hello.opening.service_version)
    };
    match reason {
        Reason::Service | Reason::ServiceVersion => {
            reason.error().with("client", describe(client)).with("server", describe(server))
        }
        _ => reason.error(),
    }
}

/// Tells the peer why, as far as it listens. Closing a socket that has unread bytes would take the
/// reason away from a peer that is still sending, so what it sends is read, within bounds.
async fn refuse<S>(stream: &mut S, hello: Option<&Hello>, reason: Reason)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let verdict =
        Verdict { reason: (reason as u32).into(), reserved: 0.into(), proof: Proof::NONE };
    let hello = hello.map_or(&[][..], |hello| hello.as_bytes());
    let farewell = async {
        write(stream, &[hello, verdict.as_bytes()]).await.ok()?;
        stream.shutdown().await.ok()?;
        tokio::io::copy(&mut stream.take(FAREWELL_BYTES), &mut tokio::io::sink()).await.ok()
    };
    // The caller has a better error than that of a farewell that did not get through.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

async fn read_rest<S: AsyncRead + Unpin>(stream: &mut S, opening: Opening) -> Result<Hello> {
    let mut hello = Hello::new_zeroed();
    hello.opening = opening;
    fill(stream, &mut hello.as_mut_bytes()[size_of::<Opening>()..]).await?;
    Ok(hello)
}

async fn read<T: FromBytes + IntoBytes, S: AsyncRead + Unpin>(stream: &mut S) -> Result<T> {
    let mut message = T::new_zeroed();
    fill(stream, message.as_mut_bytes()).await?;
    Ok(message)
}

async fn fill<S: AsyncRead + Unpin>(stream: &mut S, target: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < target.len() {
        let outcome = stream.read(&mut target[filled..]).await;
        match outcome.map_err(|source| failure("handshake failed", source))? {
            0 => {
                let (kind, message) = match target[..filled] {
                    [0x15 | 0x16, 3, ..] => (Kind::Damaged, SPEAKS_TLS),
                    _ => (Kind::Unavailable, "peer closed the connection during the handshake"),
                };
                return Err(Error::new(kind, message).with("bytes", filled));
            }
            read => filled += read,
        }
    }
    Ok(())
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, messages: &[&[u8]]) -> Result<()> {
    let sending = async {
        stream.write_all(&messages.concat()).await?;
        stream.flush().await
    };
    sending.await.map_err(|source| failure("handshake failed", source))
}
