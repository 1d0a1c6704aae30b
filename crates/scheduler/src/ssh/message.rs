//! What a launcher asks of a host, and what it hears: one JSON object per line through ssh, and
//! between some of them the bytes of files.
//!
//! Nothing secret passes here; the job's token travels with the commands to the supervisor, which
//! has a connection of its own.

use std::net::IpAddr;

use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::package::Manifest;

/// Counts up when a message changes its meaning.
pub const VERSION: u32 = 3;
/// The longest line: the manifest of a package with very many files.
pub const LINE_BYTES_MAX: u64 = 128 << 20;

/// What a launcher asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What is there?
    Probe {
        /// The network interface that servers are to listen on; empty for all.
        nic: String,
        /// Where jobs live.
        root_dir: String,
        /// Whether a package will be copied there.
        will_copy: bool,
    },
    /// Make the job's directory ready.
    Prepare(Prepare),
    /// Send what is in a directory of the job, if it exists.
    Gather {
        /// Its path inside the job's directory.
        name: String,
    },
    /// End jobs that were left running.
    Kill {
        /// Where jobs live.
        root_dir: String,
        /// The directory of the only job to end; all of `root_dir` without.
        directory: Option<String>,
    },
}

/// How to make a job's directory ready.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The job's directory.
    pub directory: String,
    /// The place of this host among the hosts.
    pub node: u32,
    /// How many hosts there are.
    pub nodes: u32,
    /// How many trainers the job has.
    pub trainers: u32,
    /// Whether the job has been here before: its directory and its logs stay as they are.
    pub is_again: bool,
    /// Where logs go, in the directory.
    pub log_dir: String,
    /// Whether this host keeps only its own part of `train.list`.
    pub shard_train_list: bool,
    /// The V1 configuration that must be there, as a path from the directory; empty for none.
    pub topology: String,
    /// What to copy into the directory; without, it has to be there already.
    pub package: Option<Package>,
}

/// A package to copy.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Where the host keeps its last copy, to be sent only what changed.
    pub mirror: String,
    /// What is in it.
    pub manifest: Manifest,
}

/// What a host answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The first line: it takes requests.
    #[serde(rename = "paddle_node")]
    Opened {
        /// [`VERSION`] of its messages.
        version: u32,
        /// Its release of paddle.
        release: String,
    },
    /// What is there.
    Probed(Probed),
    /// These files of the package have to be sent, in this order.
    Needed {
        /// Their paths in the package.
        paths: Vec<String>,
    },
    /// The job's directory is ready.
    Prepared {
        /// Its absolute path.
        directory: String,
    },
    /// What follows: the content of all files of the manifest, in its order.
    Gathered {
        /// What there is; `None` if the directory does not exist, or is passed over.
        manifest: Option<Manifest>,
        /// What cannot be sent, and why.
        passed_over: Vec<String>,
    },
    /// These jobs have been ended.
    Killed {
        /// Their directories.
        directories: Vec<String>,
    },
    /// It cannot be done.
    Failed {
        /// Why.
        message: String,
        /// Whether the request was wrong, rather than the world.
        is_invalid: bool,
    },
}

/// What a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// The address of the interface that was asked for.
    pub address: Option<IpAddr>,
    /// Where jobs live, absolute.
    pub root_dir: String,
    /// Whether it has rsync.
    pub has_rsync: bool,
    /// Where it looks for commands: its `PATH`.
    pub search_path: String,
}

impl Reply {
    /// An error in a form that travels.
    pub fn failed(error: &Error) -> Reply {
        Reply::Failed { message: error.chain(), is_invalid: error.kind() == Kind::Invalid }
    }
}

/// Writes a message as a line.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)
        .map_err(|source| Error::invalid("cannot write a message").because(source))?;
    line.push(b'\n');
    let lost = |source| Error::io("the connection is lost", source);
    stream.write_all(&line).await.map_err(lost)?;
    stream.flush().await.map_err(lost)
}

/// Reads the next line; `None` at the end.
pub async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> Result<Option<T>> {
    let mut line = Vec::new();
    let mut limited = stream.take(LINE_BYTES_MAX);
    limited
        .read_until(b'\n', &mut line)
        .await
        .map_err(|source| Error::io("the connection is lost", source))?;
    if line.is_empty() {
        return Ok(None);
    }
    let parsed = serde_json::from_slice(&line).map_err(|source| {
        let message = "not a message of this program: use matching releases";
        Error::new(Kind::Damaged, message).because(source)
    })?;
    Ok(Some(parsed))
}
