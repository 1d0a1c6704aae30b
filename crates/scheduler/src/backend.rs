//! The promise that every place keeps: the one trait through which jobs are submitted, watched and
//! ended, whatever runs them.

use crate::plan::JobPlan;
use crate::{JobRecord, ReplicaId, Submission};
use contract::Result;
use contract::state::JobState;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What every place that runs jobs can do. Jobs are known by the id that their submitter chose.
pub trait Backend: Send + Sync {
    /// Refuses a job that this place cannot run exactly as asked, and names the field.
    fn check(&self, submission: &Submission) -> Result<()>;

    /// What would run, without reaching any machine: names stand for what is not known yet.
    fn plan(&self, submission: &Submission) -> Result<JobPlan>;

    /// Accepts a job and starts it. When this returns the job is on disk, with its package if that
    /// is dispatched (then `package` is the directory to take it from), and is found by its id
    /// whatever happens to the caller. A caller that did not hear the answer asks again.
    ///
    /// # Errors
    /// [`contract::Kind::Conflict`] if another job has this id.
    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        package: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>>;

    /// All jobs of an origin in one call; with `since_ms` only those that changed at or after that
    /// time, in milliseconds since 1970. A job that cannot be asked how it is keeps its last state.
    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>>;

    /// How the job is now.
    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>>;

    /// What a replica has printed since `cursor`, at most [`LOG_BYTES_MAX`].
    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>>;

    /// The figures that replicas have reported since `cursor`, at most [`METRICS_LINES_MAX`].
    fn metrics<'a>(&'a self, id: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>>;

    /// Changes the number of trainers of a running job.
    fn scale<'a>(&'a self, id: &'a str, trainers: u32) -> BoxFuture<'a, Result<()>>;

    /// Asks to end the job; with `is_forced` at once. A job that has ended already is no error.
    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>>;

    /// Removes what is known of a job that has ended.
    ///
    /// # Errors
    /// [`contract::Kind::Conflict`] if it has not.
    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// The most that one call of [`Backend::logs`] returns.
pub const LOG_BYTES_MAX: usize = 1 << 20;
/// The most lines that one call of [`Backend::metrics`] returns.
pub const METRICS_LINES_MAX: usize = 1000;

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is a new job.
    New,
    /// The same job was submitted before; nothing new was started.
    Known,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its id.
    pub id: String,
    /// Its name as typed.
    pub name: String,
    /// Where it runs: `local`, `ssh`, `mpi`, `slurm`, `kubernetes`.
    pub place: String,
    /// Counts the changes of its record.
    pub revision: u64,
    /// Its state.
    pub state: JobState,
    /// Why it is in that state; empty where the state says it all.
    pub reason: String,
    /// The number of trainers.
    pub trainers: u32,
    /// The number of parameter servers.
    pub pservers: u32,
    /// When it was submitted, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
}

impl From<JobRecord> for JobSummary {
    fn from(record: JobRecord) -> Self {
        JobSummary {
            id: record.id,
            name: record.job,
            place: record.place,
            revision: record.revision,
            state: record.state,
            reason: record.reason,
            trainers: record.trainers,
            pservers: record.pservers,
            began_ms: record.began_ms,
            ended_ms: record.ended_ms,
        }
    }
}

/// A place in a log or in a history of figures. Only the backend that made it can read it; the
/// default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// What was printed; empty where there is no more yet.
    pub bytes: Vec<u8>,
    /// Where the next piece begins.
    pub next: Cursor,
    /// Bytes before this piece that are no longer kept.
    pub skipped_bytes: u64,
    /// Whether nothing will follow: the job has ended, and this was the rest.
    pub is_last: bool,
}

/// Figures of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// The lines, oldest first.
    pub lines: Vec<MetricsLine>,
    /// Where the next ones begin.
    pub next: Cursor,
}

/// One line of a replica's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsLine {
    /// Whose they are.
    pub replica: ReplicaId,
    /// What the replica wrote, an object.
    pub figures: serde_json::Value,
}
