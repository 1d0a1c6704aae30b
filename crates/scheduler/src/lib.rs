//! A job description becomes running replicas, and running replicas become states and logs.
//!
//! It knows processes, never training: what a replica computes, and what its figures mean, is
//! nobody's business here. It does not read the environment or print; `cli` does.
//!
//! Three layers, each usable alone:
//!
//! - a [`supervisor`] per job and host: a process that starts, ends and watches the replicas of
//!   that host as it is told over a pipe, and takes everything down when the pipe closes;
//! - a [`conductor`] per job: the decisions (who starts when, who is started again, what the end
//!   is), pure, and the loop that carries them out on any number of supervisors;
//! - a [`Backend`] for those who must not hold a pipe: it leaves a conductor behind that outlives
//!   its caller, and finds it again by a durable [`Handle`].
//!
//! Every backend folder has the same files: `mod.rs`, the only I/O; `plan.rs`, pure, what would
//! run; `state.rs`, its words for states in ours.

pub mod quote;
pub mod replica;

pub mod conductor;
pub mod supervisor;

pub mod server;

pub mod launched;
pub mod local;
pub mod mpi;
pub mod ssh;

use contract::Result;
use contract::job::JobSpec;
use contract::port::Ports;
use contract::secret::Secret;
use contract::state::JobState;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use conductor::record::{JobRecord, ReplicaRecord};
pub use replica::ReplicaId;

/// What every place that runs jobs can do.
pub trait Backend: Send + Sync {
    /// Starts a job. When this returns, the job will be found by the handle whatever happens to
    /// the caller.
    fn submit<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Result<Handle>>;

    /// How the job is now.
    fn observe<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Observation>>;

    /// What a replica has printed from byte `offset` on, at most [`LOG_BYTES_MAX`]; empty where
    /// there is no more yet.
    fn logs<'a>(
        &'a self,
        handle: &'a Handle,
        replica: ReplicaId,
        offset: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>>>;

    /// Asks to end the job. A job that has ended already is no error.
    fn kill<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<()>>;
}

/// The most that one call of [`Backend::logs`] returns.
pub const LOG_BYTES_MAX: usize = 1 << 20;

/// A job to run, with what is not part of its description: secrets and places.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// What was asked for.
    pub spec: JobSpec,
    /// The program of a trainer and its arguments; empty to give the spec's entry to a shell.
    pub program: Vec<String>,
    /// The secret by which the replicas know each other.
    #[serde(with = "secret")]
    pub token: Secret,
    /// The job's own directory: its state, its lock.
    pub directory: PathBuf,
    /// Where logs go.
    pub log_dir: PathBuf,
    /// Where trainer 0 saves the model.
    pub output_dir: PathBuf,
    /// Where servers keep checkpoints, if they do.
    pub checkpoint_dir: Option<PathBuf>,
    /// Whether servers begin with the newest checkpoint there.
    pub restore: bool,
    /// The files that the master deals out, as patterns; none if the program names them.
    pub dataset: Vec<String>,
    /// After how many passes the master ends; 0 if the program says when it has seen enough.
    pub master_passes: u32,
    /// The ports of a parameter server; a first port of 0 lets the system choose.
    pub ports: Ports,
    /// How often one rank may be started again after a failure.
    pub restarts: u32,
    /// How long a server may take until it serves.
    pub ready_seconds: u64,
}

/// Finds a job again, also from another process and after a restart of this machine's services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// The backend's name, such as `local`.
    pub backend: String,
    /// What that backend knows the job by.
    pub id: String,
}

/// How a job is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observation {
    /// Its state.
    pub state: JobState,
    /// Why it is in that state, in words.
    pub reason: String,
    /// How it ended, once it has.
    pub exit_code: Option<i32>,
    /// Its replicas.
    pub replicas: Vec<ReplicaRecord>,
}

/// A secret has no serialization of its own, so that none is written by accident. A submission
/// travels through a pipe to the process that needs it, and nowhere else.
mod secret {
    use contract::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        secret: &Secret,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}
