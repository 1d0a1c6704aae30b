//! Frame ↔ request and reply. All messages are JSON: they are few, one per task rather than per
//! record. A request is an object with one field, its verb, whose value are the arguments; the reply
//! is what the verb answers, or an error frame.

use crate::task::{Lease, Task};
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What is spoken over the frames; the version changes when an older peer would misunderstand.
pub const SERVICE: wire::Service = wire::Service { name: "master", version: 2 };

/// The kind of every frame.
pub const KIND: u16 = 1;

/// The longest name of a trainer, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// The longest reason of a failure, in characters; what is longer is cut.
pub const REASON_CHARS_MAX: usize = 1000;
/// The most patterns of a dataset.
pub const PATTERNS_MAX: usize = 4096;
/// The longest pattern of a dataset, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// The most leases that a trainer may have at a time.
pub const LEASES_MAX: usize = 1024;

/// What a client asks. Who asks is told by the incarnation of its frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// → [`Next`].
    Get(Get),
    /// The records of a task are consumed → [`Accepted`].
    Finish {
        /// Which.
        lease: Lease,
        /// The first checkpoint cut that will contain its gradients, if there are checkpoints.
        cut: Option<u64>,
    },
    /// A task cannot be worked on → [`Accepted`].
    Fail {
        /// Which.
        lease: Lease,
        /// Why; `None` gives it back without blame.
        reason: Option<String>,
    },
    /// The trainer is alive and works on these → [`Renewed`].
    Renew {
        /// All it has.
        leases: Vec<Lease>,
    },
    /// Says what the data is → [`IsSet`].
    SetDataset {
        /// Paths and globs.
        patterns: Vec<String>,
        /// How long the reply may take; reading indexes may take longer, so that asking again is
        /// needed.
        wait_ms: u64,
    },
    /// Asks to be the one that saves the model → [`Granted`].
    RequestSave {
        /// Who.
        trainer: String,
        /// For how long nobody else may.
        duration_ms: u64,
    },
    /// Parameter servers went back to a checkpoint → [`Reopened`].
    Reopen {
        /// The cut that they restored.
        cut: u64,
        /// Tells this restore from others; all trainers must give the same.
        restore: u64,
    },
    /// The trainer goes: its tasks are for others → `{}`.
    Leave {},
    /// → [`Status`].
    Status {},
}

/// Asks for a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// The pass that the trainer is in; `None` joins the one under way.
    pub pass: Option<u64>,
    /// All leases it has. One that it should have and does not know of was lost on the way, and is
    /// answered again.
    pub leases: Vec<Lease>,
    /// How long the reply may take.
    pub wait_ms: u64,
    /// What people call the trainer.
    pub name: String,
}

/// What a trainer gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Work.
    Task(Task),
    /// Nothing now: others have the last tasks of the pass and may yet fail. Ask again.
    Wait,
    /// The pass that the trainer was in is over.
    PassOver(PassOver),
    /// The last pass is over.
    AllOver,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassOver {
    /// The pass that is under way now.
    pub pass: u64,
    /// Tasks of the pass before it that were finished.
    pub done: u64,
    /// Tasks of the pass before it that were given up after too many failures: their records are
    /// missing from it.
    pub set_aside: u64,
}

/// Whether a lease still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// False: the task is no longer the trainer's, and nothing has changed.
    pub is_accepted: bool,
}

/// What became of leases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Those that are no longer the trainer's.
    pub lost: Vec<Lease>,
}

/// Whether the dataset is known by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsSet {
    /// False: its files are still being looked at; ask again.
    pub is_set: bool,
}

/// Whether the trainer is to save the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// False: another trainer is.
    pub is_granted: bool,
}

/// What a restore came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopened {
    /// The pass that is under way now.
    pub pass: u64,
    /// Tasks that are to be done again because of it; 0 when it had been reported before.
    pub reopened: u64,
}

/// What the master knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The dataset's paths and globs; empty until it is set.
    pub dataset: Vec<String>,
    /// The pass under way, from 0.
    pub pass: u64,
    /// How many passes there are; 0 for no end.
    pub passes: u64,
    /// Whether the last pass is over.
    pub is_over: bool,
    /// All tasks.
    pub tasks: u64,
    /// Those that wait for a trainer.
    pub todo: u64,
    /// Those that a trainer has.
    pub pending: u64,
    /// Those that are finished in this pass.
    pub done: u64,
    /// Those that failed too often in this pass.
    pub set_aside: u64,
    /// Who has which, the first thousand.
    pub pending_tasks: Vec<PendingTask>,
    /// What was given up in this pass and the one before it, and why, the first thousand.
    pub set_aside_tasks: Vec<SetAsideTask>,
}

/// A task that a trainer has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTask {
    /// Which.
    pub task: u64,
    /// Which dispatch of it.
    pub epoch: u64,
    /// What people call the trainer.
    pub trainer: String,
    /// Failures in this pass.
    pub failures: u64,
}

/// A task that failed too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAsideTask {
    /// Which.
    pub task: u64,
    /// In which pass.
    pub pass: u64,
    /// Why it failed the last time.
    pub reason: String,
    /// The files it is made of, the first ten.
    pub files: Vec<String>,
}

/// Reads a message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|source| Error::new(Kind::Damaged, "message cannot be read").because(source))
}

/// Writes a message.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(message)
        .map_err(|source| Error::invalid("message cannot be written").because(source))
}
