//! A connection between rank 0 and another rank: who each is, proved, and then sealed lines.

use std::net::SocketAddr;
use std::time::Duration;

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::seal::{Agreement, Seal, Side, is_nonce, nonce};
use crate::supervisor::message::LINE_BYTES_MAX;

/// Counts up when a message changes its meaning.
const VERSION: u32 = 1;
/// How long a stranger may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest line before both sides are known.
const HELLO_BYTES_MAX: u64 = 4 << 10;
/// A tag and a space.
const TAG_BYTES: usize = 65;

/// The start that two ranks belong to, and what proves it.
#[derive(Debug, Clone)]
pub(super) struct Party {
    pub(super) job: String,
    pub(super) size: u32,
    pub(super) key: Secret,
}

#[derive(Serialize, Deserialize)]
struct Hello {
    paddle_mpi: u32,
    job: String,
    rank: u32,
    size: u32,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    nonce: String,
    proof: String,
}

#[derive(Serialize, Deserialize)]
struct Confirmation {
    proof: String,
}

/// A rank at the other end.
pub(super) struct Link {
    /// The other end's rank.
    pub(super) rank: u32,
    /// The other end's address.
    pub(super) peer: SocketAddr,
    /// This end's address, as the other end knows it.
    pub(super) local: SocketAddr,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

/// One direction.
pub(super) struct Sender {
    stream: BufWriter<OwnedWriteHalf>,
    seal: Seal,
}

/// The other.
pub(super) struct Receiver {
    stream: BufReader<OwnedReadHalf>,
    seal: Seal,
}

impl Link {
    /// Rank 0's side.
    ///
    /// # Errors
    /// The other end is no rank of this start, or too slow.
    pub(super) async fn accept(stream: TcpStream, party: &Party) -> Result<Link> {
        let shake = async {
            let mut raw = Raw::new(stream)?;
            let hello: Hello = raw.read().await?;
            let is_ours = hello.paddle_mpi == VERSION
                && (&hello.job, hello.size) == (&party.job, party.size)
                && (1..party.size).contains(&hello.rank)
                && is_nonce(&hello.nonce);
            if !is_ours {
                let message = "another start, or another release, of paddle launch --mpi called";
                return Err(Error::new(Kind::Forbidden, message).with("rank", hello.rank));
            }
            let agreement =
                Agreement { client_nonce: hello.nonce, server_nonce: nonce()?, rank: hello.rank };
            let welcome = Welcome {
                nonce: agreement.server_nonce.clone(),
                proof: agreement.proof(&party.key, Side::Server),
            };
            raw.write(&welcome).await?;
            let confirmation: Confirmation = raw.read().await?;
            agreement.check(&party.key, Side::Client, &confirmation.proof)?;
            raw.seal(&agreement, party, Side::Server)
        };
        in_time(shake).await
    }

    /// The side of every other rank.
    ///
    /// # Errors
    /// The other end is not rank 0 of this start, or too slow.
    pub(super) async fn dial(address: SocketAddr, rank: u32, party: &Party) -> Result<Link> {
        let shake = async {
            let stream = TcpStream::connect(address).await.map_err(broken)?;
            let mut raw = Raw::new(stream)?;
            let client_nonce = nonce()?;
            let hello = Hello {
                paddle_mpi: VERSION,
                job: party.job.clone(),
                rank,
                size: party.size,
                nonce: client_nonce.clone(),
            };
            raw.write(&hello).await?;
            let welcome: Welcome = raw.read().await?;
            if !is_nonce(&welcome.nonce) {
                return Err(Error::new(Kind::Damaged, "this is not rank 0"));
            }
            let agreement = Agreement { client_nonce, server_nonce: welcome.nonce, rank };
            agreement.check(&party.key, Side::Server, &welcome.proof)?;
            let proof = agreement.proof(&party.key, Side::Client);
            raw.write(&Confirmation { proof }).await?;
            raw.seal(&agreement, party, Side::Client)
        };
        in_time(shake).await
    }
}

async fn in_time(shake: impl Future<Output = Result<Link>>) -> Result<Link> {
    let late = |_| Error::new(Kind::Timeout, "the other end does not say who it is");
    timeout(HANDSHAKE, shake).await.map_err(late)?
}

/// A connection on which nobody has proved anything.
struct Raw {
    reader: BufReader<OwnedReadHalf>,
    writer: BufWriter<OwnedWriteHalf>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Raw {
    fn new(stream: TcpStream) -> Result<Raw> {
        stream.set_nodelay(true).map_err(broken)?;
        let peer = stream.peer_addr().map_err(broken)?;
        let local = stream.local_addr().map_err(broken)?;
        let (reader, writer) = stream.into_split();
        Ok(Raw { reader: BufReader::new(reader), writer: BufWriter::new(writer), peer, local })
    }

    async fn read<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = read_line(&mut self.reader, HELLO_BYTES_MAX).await?.unwrap_or_default();
        serde_json::from_str(&line).map_err(|source| {
            Error::new(Kind::Damaged, "the other end is not paddle launch --mpi").because(source)
        })
    }

    async fn write(&mut self, message: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(message)
            .map_err(|source| Error::invalid("cannot write a message").because(source))?;
        write_line(&mut self.writer, &line).await
    }

    fn seal(self, agreement: &Agreement, party: &Party, side: Side) -> Result<Link> {
        let other = if side == Side::Server { Side::Client } else { Side::Server };
        Ok(Link {
            rank: agreement.rank,
            peer: self.peer,
            local: self.local,
            sender: Sender { stream: self.writer, seal: agreement.seal(&party.key, side) },
            receiver: Receiver { stream: self.reader, seal: agreement.seal(&party.key, other) },
        })
    }
}

impl Sender {
    /// Sends a line, given without its end.
    pub(super) async fn send(&mut self, line: &str) -> Result<()> {
        let sealed = self.seal.close(line);
        write_line(&mut self.stream, &sealed).await
    }
}

impl Receiver {
    /// The next line, without its end; `None` if the other end has closed.
    pub(super) async fn receive(&mut self) -> Result<Option<String>> {
        let limit = (LINE_BYTES_MAX + TAG_BYTES) as u64;
        match read_line(&mut self.stream, limit).await? {
            None => Ok(None),
            Some(sealed) => self.seal.open(&sealed).map(|line| Some(line.to_owned())),
        }
    }
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin), max: u64) -> Result<Option<String>> {
    let mut line = String::new();
    stream.take(max).read_line(&mut line).await.map_err(broken)?;
    match line.pop() {
        None => Ok(None),
        Some('\n') => Ok(Some(line)),
        Some(_) => Err(Error::new(Kind::Damaged, "the connection ended within a line")),
    }
}

async fn write_line(stream: &mut BufWriter<OwnedWriteHalf>, line: &str) -> Result<()> {
    stream.write_all(line.as_bytes()).await.map_err(broken)?;
    stream.write_all(b"\n").await.map_err(broken)?;
    stream.flush().await.map_err(broken)
}

fn broken(source: std::io::Error) -> Error {
    Error::io("the connection between ranks is broken", source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn party(key: &str) -> Party {
        Party { job: "7".into(), size: 3, key: Secret::new(key) }
    }

    async fn meet(server: Party, rank: u32, client: Party) -> (Result<Link>, Result<Link>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept = async {
            let (stream, _) = listener.accept().await.unwrap();
            Link::accept(stream, &server).await
        };
        tokio::join!(accept, Link::dial(address, rank, &client))
    }

    #[tokio::test]
    async fn ranks_with_the_same_key_talk() {
        let (near, far) = meet(party("k"), 2, party("k")).await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_eq!(near.rank, 2);
        near.sender.send("hello 你好").await.unwrap();
        far.sender.send("and back").await.unwrap();
        assert_eq!(far.receiver.receive().await.unwrap().unwrap(), "hello 你好");
        assert_eq!(near.receiver.receive().await.unwrap().unwrap(), "and back");
        drop(far);
        assert_eq!(near.receiver.receive().await.unwrap(), None);
    }

    #[tokio::test]
    async fn strangers_are_refused_by_both_sides() {
        let (near, far) = meet(party("k"), 2, party("other")).await;
        assert!(near.is_err());
        assert_eq!(far.err().unwrap().kind(), Kind::Forbidden);
        let other_job = Party { job: "8".into(), ..party("k") };
        let (near, far) = meet(party("k"), 2, other_job).await;
        assert!(near.err().unwrap().kind() == Kind::Forbidden && far.is_err());
        let (near, _) = meet(party("k"), 3, party("k")).await;
        assert!(near.is_err(), "rank 3 of 3");
    }
}
