//! What a supervisor is told and what it tells: one JSON object per line, over its standard input
//! and output. Commands carry the replicas' environments, token included, so they are never logged
//! and never an argument.

use crate::replica::ReplicaId;
use contract::ready::Ready;
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Counts up when a message changes its meaning. Both sides are the same program, but over SSH not
/// always the same release.
pub const VERSION: u32 = 1;
/// The longest line: a replica's environment may be large, and so may a piece of its output.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// What the conductor says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Start a replica.
    Start(Start),
    /// Send a signal to the process groups of these replicas; those that have ended are skipped.
    Signal {
        /// To whom.
        replicas: Vec<ReplicaId>,
        /// Which.
        signal: Signal,
    },
    /// Kill whatever is left, and end. The end of the input means the same.
    Close,
}

/// A replica to start.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Which.
    pub replica: ReplicaId,
    /// How often it was started before.
    pub attempt: u32,
    /// Program and arguments. The program is looked up as a shell would, in `directory`.
    pub argv: Vec<String>,
    /// Variables to set, secrets included, beside what the supervisor has inherited.
    pub env: BTreeMap<String, String>,
    /// Where it runs. Created if it is missing.
    pub directory: PathBuf,
    /// The file for its output: begun anew for the first attempt, continued later. A relative path
    /// begins at `directory`.
    pub log: PathBuf,
    /// Whether to look for a readiness line in its output.
    pub is_server: bool,
    /// A file of JSON lines whose newest line is reported from time to time.
    pub metrics: Option<PathBuf>,
}

/// Environments hold secrets: only their names are shown.
impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start")
            .field("replica", &self.replica)
            .field("attempt", &self.attempt)
            .field("argv", &self.argv)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// How to ask a replica to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// It may save what it has: SIGTERM.
    Terminate,
    /// At once: SIGKILL.
    Kill,
}

/// What a supervisor says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first line: it takes commands.
    Opened {
        /// [`VERSION`] of its messages.
        version: u32,
    },
    /// A replica runs.
    Started {
        /// Which.
        replica: ReplicaId,
        /// Its process, as this host numbers it.
        pid: Option<u32>,
    },
    /// A server serves.
    Ready {
        /// Which.
        replica: ReplicaId,
        /// Where.
        ready: Ready,
    },
    /// Whole lines that a replica printed, also kept in its log; bytes that are not UTF-8 replaced.
    Log {
        /// Which.
        replica: ReplicaId,
        /// Lines, each with its end.
        text: String,
    },
    /// The newest line of a replica's file of figures.
    Metrics {
        /// Which.
        replica: ReplicaId,
        /// The line, whatever it says.
        metrics: serde_json::Value,
    },
    /// A replica has ended, or could not be started. Everything it printed was reported before.
    Exited {
        /// Which.
        replica: ReplicaId,
        /// Its exit code, 128 + signal if a signal ended it; 126 and 127 as a shell uses them.
        code: i32,
        /// More than the code tells, where there is more.
        message: Option<String>,
    },
}

/// A message as a line, with its end.
pub fn encode(message: &impl Serialize) -> Result<String> {
    let mut line = serde_json::to_string(message)
        .map_err(|source| Error::invalid("cannot write a message").because(source))?;
    line.push('\n');
    if line.len() > LINE_BYTES_MAX {
        return Err(Error::new(Kind::LimitExceeded, "the message is too long")
            .with("bytes", line.len())
            .with("bytes_max", LINE_BYTES_MAX));
    }
    Ok(line)
}

/// Reads a line back. The line is not shown in the error: it may hold a secret.
pub fn decode<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|source| {
        // serde's own text may quote what it met.
        Error::new(Kind::Damaged, "not a message of this supervisor: use matching releases")
            .with("column", source.column())
    })
}
