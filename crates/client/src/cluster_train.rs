//! `paddle cluster_train` as its users see it: a training is handed in, and its results are looked at.

use crate::body;
use crate::client::{Client, get, send};
use crate::config::Datacenter;
use crate::endpoint::Endpoint;
use crate::retry::{self, ELAPSED_MAX};
use crate::transport::{Call, Transport};
use contract::api::cluster_train::{Accepted, ClusterTrain};
use contract::api::file::Entry;
use contract::api::path;
use contract::checksum::{CHECKSUM_BYTES, Summing};
use contract::{Error, Kind, Result};
use std::io::Read;
use std::time::Duration;
use ureq::http::{Method, Response};

/// How long a receiver may take to execute a configuration and to find the data, with time to say
/// that the store does not answer.
const ACCEPT: Duration = Duration::from_secs(180);

/// What is at a path of the results.
pub enum Results {
    /// A directory, with what is in it.
    Directory(Vec<Entry>),
    /// A file.
    File(SentFile),
}

/// A file of the results, as it arrives: it may be larger than memory.
pub struct SentFile {
    reader: Box<dyn Read + Send>,
    bytes: u64,
}

const PIECE_BYTES: usize = 256 << 10;
/// The longest list of a directory.
const LIST_BYTES_MAX: u64 = 64 << 20;

impl SentFile {
    fn of(answer: Response<ureq::Body>) -> Result<SentFile> {
        let length = answer.headers().get("content-length");
        let length = length.and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
        let bytes = length.and_then(|length| length.checked_sub(CHECKSUM_BYTES as u64));
        let bytes = bytes.ok_or_else(|| {
            Error::new(Kind::Damaged, "the receiver does not say how long a result is")
        })?;
        Ok(SentFile { reader: Box::new(answer.into_body().into_reader()), bytes })
    }

    /// Gives the content to `see`, piece by piece.
    ///
    /// # Errors
    /// It broke off, or is not what its checksum says, which is known only at the end.
    pub fn read(mut self, mut see: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let broken = |source| {
            let message = "a result broke off on its way: try again";
            Error::new(Kind::Unavailable, message).because(source)
        };
        let (mut sum, mut left) = (Summing::new(), self.bytes);
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            match self.reader.read(&mut piece[..most]).map_err(broken)? {
                0 => return Err(broken(std::io::ErrorKind::UnexpectedEof.into())),
                count => {
                    sum.add(&piece[..count]);
                    see(&piece[..count])?;
                    left -= count as u64;
                }
            }
        }
        let mut told = [0; CHECKSUM_BYTES];
        self.reader.read_exact(&mut told).map_err(broken)?;
        match sum.checksum().0 == told {
            true => Ok(()),
            false => Err(Error::new(Kind::Unavailable, "a result arrived damaged: try again")),
        }
    }
}

/// Whether a server is there and can serve. It is asked once, and not waited for.
///
/// # Errors
/// Why not.
pub fn check_health(endpoint: &Endpoint, patience: Duration) -> Result<()> {
    let datacenter = Datacenter {
        name: String::new(),
        username: String::new(),
        password: None,
        endpoint: endpoint.clone(),
        ca: None,
        socket: None,
    };
    let transport = Transport::new(&datacenter, Some(patience))?;
    let call = get("/readyz".to_owned(), "ask whether the receiver is there");
    match transport.exchange(&call, None, &[]) {
        // Who speaks TLS with a certificate of its own is there; a login will look at it.
        Err(error) if error.kind() == Kind::Unauthenticated => Ok(()),
        answer => answer.map(|_| ()),
    }
}

impl Client {
    /// Hands a training in. `package` of it is the digest that [`Client::upload`] gave.
    pub fn cluster_train(&self, asked: &ClusterTrain) -> Result<Accepted> {
        let path = path::CLUSTER_TRAIN.to_owned();
        // Twice is once: the server knows the request by its number.
        let call = send(Method::POST, path, asked, "submit a training")?;
        self.ask(&Call { answer: Some(ACCEPT), ..call })
    }

    /// What a training has sent so far to a path below its results.
    pub fn results(&self, job: &str, below: &str) -> Result<Results> {
        let path = self.path(path::JOB_RESULTS, &[job])?;
        let call = get(format!("{path}?path={}", path::encode(below)), "look at results");
        let patience = self.patience.min(ELAPSED_MAX);
        let ask = || self.with_token(|token| self.transport.exchange(&call, Some(token), &[]));
        let mut answer = retry::patiently(patience, self.notice, ask)?;
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
            return SentFile::of(answer).map(Results::File);
        }
        let list = answer.body_mut().with_config().limit(LIST_BYTES_MAX).read_to_vec();
        let list = list.map_err(|source| {
            Error::new(Kind::Unavailable, "the list of results broke off").because(source)
        })?;
        body::decode(&list, call.what).map(Results::Directory)
    }

    /// The client of another datacenter of the same server, with the same login.
    pub fn within(self, datacenter: &str) -> Client {
        let mut own = self.datacenter.clone();
        datacenter.clone_into(&mut own.name);
        self.at_datacenter(own)
    }
}
