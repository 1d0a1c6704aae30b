//! What a supervisor is told and what it tells: one JSON object per line, over its standard input
//! and output. Commands carry the replicas' environments, token included, so they are never logged
//! and never an argument.

use crate::replica::ReplicaId;
use crate::submission::{Mount, RunAs, Sandbox};
use contract::ready::{Farewell, Ready};
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Counts up when a message changes its meaning. Both sides are the same program, but over SSH not
/// always the same release.
pub const VERSION: u32 = 6;
/// The longest line: a replica's environment may be large, and so may a piece of its output.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// How often the processes that run a job show that they are at work.
pub const BEAT: Duration = Duration::from_secs(5);
/// How long such a process may show nothing before it is taken for hung. Less than a server has by
/// default to get ready (60 s), which would be blamed otherwise.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// What the conductor says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Start a replica.
    Start(Box<Start>),
    /// Send a signal to the process groups of these replicas; those that have ended are skipped.
    Signal {
        /// The replicas.
        replicas: Vec<ReplicaId>,
        /// The signal.
        signal: Signal,
    },
    /// Try whether a folder is shared with another machine.
    Probe(Probe),
    /// Kill whatever is left, and end: the job is over. Without it the end of the input does the
    /// same, but the job may come back for another round.
    Close,
}

/// A file by which two machines find out whether they share a folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The folder.
    pub folder: PathBuf,
    /// The name of the file.
    pub name: String,
    /// What to do with it.
    pub action: ProbeAction,
}

/// What to do with the file of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAction {
    /// Write it.
    Write,
    /// Look for it, for a few seconds.
    Find,
    /// Remove it.
    Remove,
}

/// A replica to start.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Its name.
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
    /// A file of JSON lines that are reported as they appear.
    pub metrics: Option<PathBuf>,
    /// The most memory it may use, with all its processes.
    pub memory_bytes_max: Option<u64>,
    /// The most processor time it may use, in thousandths of a core.
    pub cpu_milli_max: Option<u64>,
    /// Lines that its log begins with.
    pub preamble: Vec<String>,
    /// What it may use of its machine.
    pub confinement: Confinement,
    /// How long its process may be stopped (SIGSTOP) before it is killed. No limit if absent.
    pub stopped_seconds_max: Option<u64>,
}

/// What a replica may use of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// The user it runs as, if not that of the supervisor.
    pub run_as: Option<RunAs>,
    /// A root of its own, if it does not see the machine's. Only together with `run_as`.
    pub root: Option<Root>,
    /// How many GPUs it gets for itself; `None` to leave it those of the machine.
    pub gpus: Option<u32>,
    /// Whether it reaches no network, not even this machine's. Only together with `root`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_offline: bool,
    /// The most processes and threads it may have, if fewer than usual. Only together with `root`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_max: Option<u32>,
}

/// What a replica sees of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// What is readable, and what looks empty.
    pub sandbox: Sandbox,
    /// Directories that it sees at other paths.
    pub mounts: Vec<Mount>,
    /// Directories that stay writable at their own paths.
    pub kept: Vec<PathBuf>,
    /// Small files of its own, by their paths.
    pub files: BTreeMap<PathBuf, String>,
    /// Devices that it uses, beside those that everybody may use.
    pub devices: Vec<PathBuf>,
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
        /// Its name.
        replica: ReplicaId,
        /// Its process, as this host numbers it.
        pid: Option<u32>,
    },
    /// A server serves.
    Ready {
        /// Its name.
        replica: ReplicaId,
        /// The addresses and ports it serves at.
        ready: Ready,
    },
    /// A server says goodbye.
    Farewell {
        /// Its name.
        replica: ReplicaId,
        /// What it has to say.
        farewell: Farewell,
    },
    /// What a replica printed, also kept in its log.
    Log {
        /// Its name.
        replica: ReplicaId,
        /// The bytes, as they came.
        output: Output,
    },
    /// New lines of a replica's file of figures.
    Metrics {
        /// Its name.
        replica: ReplicaId,
        /// The lines, oldest first, whatever they say.
        lines: Vec<serde_json::Value>,
    },
    /// Something that people should know, such as a limit that cannot be enforced here.
    Note {
        /// The sentence.
        text: String,
    },
    /// It is at work. Said every [`BEAT`], so that one that hangs is noticed.
    Alive,
    /// The answer to a probe.
    Probed {
        /// What went wrong, if something did.
        problem: Option<String>,
    },
    /// A replica has ended, or could not be started. Everything it printed was reported before.
    Exited {
        /// Its name.
        replica: ReplicaId,
        /// Its exit code, 128 + signal if a signal ended it; 126 and 127 as a shell uses them.
        code: i32,
        /// More than the code tells, where there is more.
        message: Option<String>,
    },
}

/// Bytes that are nearly always text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Valid UTF-8.
    Text(String),
    /// Anything else, two hexadecimal digits a byte.
    Hex(String),
}

impl Output {
    /// Bytes as a message carries them.
    pub fn encode(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Output::Text(text.to_owned()),
            Err(_) => Output::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// The bytes; nothing for digits that are none.
    pub fn decode(&self) -> Vec<u8> {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok());
        match self {
            Output::Text(text) => text.as_bytes().to_vec(),
            Output::Hex(text) => {
                let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
                text.as_bytes().chunks(2).map_while(byte).collect()
            }
        }
    }
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
