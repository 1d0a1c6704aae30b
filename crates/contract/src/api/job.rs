//! Jobs, their replicas and their events.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::package::PackageSummary;
use crate::job::JobSpec;
use crate::role::Role;
use crate::state::{JobState, ReplicaState};

/// A job to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// Drawn by the caller, so that it may ask again when it did not hear the answer: the same
    /// number is the same job.
    pub request: String,
    /// What to run. The server fills in `user` and `datacenter`, and refuses other ones.
    #[schema(value_type = Object)]
    pub spec: JobSpec,
    /// The digest of the package, whose files the server has; absent if `spec.package` is a
    /// directory in the user's home already.
    #[serde(default)]
    pub package: Option<String>,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name as typed; several in history may have it.
    pub name: String,
    /// What tells it from all others.
    pub uid: String,
    /// Whose it is.
    pub user: String,
    /// Where it runs.
    pub datacenter: String,
    /// Its state.
    #[schema(value_type = String)]
    pub state: JobState,
    /// Why it is in that state; empty where the state says it all.
    #[serde(default)]
    pub reason: String,
    /// Trainers that were asked for.
    #[serde(default)]
    pub trainers: u32,
    /// Parameter servers that were asked for.
    #[serde(default)]
    pub pservers: u32,
    /// Trainers that ended well.
    #[serde(default)]
    pub succeeded: u32,
    /// Trainers that failed.
    #[serde(default)]
    pub failed: u32,
    /// Trainers that run.
    #[serde(default)]
    pub active: u32,
    /// Parameter servers that serve.
    #[serde(default)]
    pub pservers_ready: u32,
    /// The queue it was sent to; empty for the default one.
    #[serde(default)]
    pub queue: String,
    /// How it ended.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// When it was submitted.
    #[serde(default)]
    pub submitted_ms: u64,
    /// When it was started.
    #[serde(default)]
    pub started_ms: Option<u64>,
    /// When it ended.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Counts its changes.
    #[serde(default)]
    pub revision: u64,
}

/// Which jobs are wanted: the query of a list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobQuery {
    /// Only jobs of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only jobs in these states, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only jobs that have not ended.
    pub active: bool,
    /// Jobs of this user, or of everybody with `*`; for administrators. Absent for the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// At most this many rows, up to [`super::PAGE_ROWS_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether the answer goes on: one [`Job`] as JSON per line, first those that match, then each
    /// one again when it changes, and an empty line now and then while nothing does.
    pub watch: bool,
}

/// All of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// What the list shows.
    #[serde(flatten)]
    pub job: Job,
    /// What was asked for.
    #[schema(value_type = Object)]
    pub spec: JobSpec,
    /// What it ran.
    #[serde(default)]
    pub package: Option<PackageSummary>,
    /// Its replicas.
    #[serde(default)]
    pub workers: Vec<Worker>,
    /// What people should know besides, such as limits that could not be enforced.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A replica of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name: `<job>-trainer-0`.
    pub name: String,
    /// What it is.
    #[schema(value_type = String)]
    pub role: Role,
    /// Its rank in its role.
    pub rank: u32,
    /// Its state.
    #[schema(value_type = String)]
    pub state: ReplicaState,
    /// The machine it is on.
    #[serde(default)]
    pub host: String,
    /// How often it was started before.
    #[serde(default)]
    pub attempt: u32,
    /// When it was started.
    #[serde(default)]
    pub started_ms: Option<u64>,
    /// When it ended.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// How it ended.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// More than the exit code tells.
    #[serde(default)]
    pub message: String,
}

/// What a job waits for, or why it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// Its state.
    #[schema(value_type = String)]
    pub state: JobState,
    /// One sentence, with numbers.
    pub sentence: String,
    /// What people should know besides.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Something that the cloud saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts the events of the job.
    #[serde(default)]
    pub number: u64,
    /// When.
    #[serde(default)]
    pub at_ms: u64,
    /// What, in words.
    pub text: String,
}

/// How to end a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Kill {
    /// Whether its replicas are killed at once, instead of asked to end.
    pub is_forced: bool,
    /// Whether it is removed from history when it has ended.
    pub remove: bool,
}

/// Another number of trainers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// How many are wanted.
    pub trainers: u32,
}
