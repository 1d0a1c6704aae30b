//! `paddle cluster_train` as its users see it: a training is handed in, and its results are looked at.

use crate::client::{Client, get, send};
use crate::config::Datacenter;
use crate::endpoint::Endpoint;
use crate::transport::{Call, Transport};
use contract::api::cluster_train::{Accepted, ClusterTrain};
use contract::api::file::Entry;
use contract::api::path;
use contract::checksum::{CHECKSUM_BYTES, Checksum};
use contract::{Error, Kind, Result};
use std::time::Duration;
use ureq::http::Method;

/// How long a receiver may take to execute a configuration and to find the data, with time to say
/// that the store does not answer.
const ACCEPT: Duration = Duration::from_secs(180);

/// What is at a path of the results.
pub enum Results {
    /// A directory, with what is in it.
    Directory(Vec<Entry>),
    /// A file, with its bytes.
    File(Vec<u8>),
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
        let bytes = self.call(&call)?;
        if let Ok(entries) = serde_json::from_slice::<Vec<Entry>>(&bytes) {
            return Ok(Results::Directory(entries));
        }
        let broken = || Error::new(Kind::Unavailable, "a result arrived damaged: try again");
        let length = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or_else(broken)?;
        let (content, sum) = bytes.split_at(length);
        match Checksum::of(content).0[..] == *sum {
            true => Ok(Results::File(content.to_vec())),
            false => Err(broken()),
        }
    }

    /// The client of another datacenter of the same server, with the same login.
    pub fn within(self, datacenter: &str) -> Client {
        let mut own = self.datacenter.clone();
        datacenter.clone_into(&mut own.name);
        self.at_datacenter(own)
    }
}
