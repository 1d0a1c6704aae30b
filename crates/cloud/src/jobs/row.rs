//! A job as the database keeps it.

use super::need::Need;
use contract::api::job::{Job, Worker};
use contract::job::JobSpec;
use contract::role::Role;
use contract::state::{JobState, ReplicaState};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A job with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobRow {
    /// What tells it from all others, also on its backend.
    pub(crate) uid: String,
    /// The submitter's number, so that it may ask again.
    pub(crate) request: String,
    pub(crate) name: String,
    pub(crate) username: String,
    pub(crate) datacenter: String,
    pub(crate) spec: JobSpec,
    /// The digest of its package.
    pub(crate) package: Option<String>,
    /// How far the cloud is with it.
    pub(crate) stage: Stage,
    /// What people see.
    pub(crate) state: JobState,
    pub(crate) reason: String,
    pub(crate) exit_code: Option<i32>,
    /// What it takes while it runs.
    pub(crate) need: Need,
    /// The number of trainers that is wanted now.
    pub(crate) trainers: u32,
    pub(crate) submitted_ms: u64,
    pub(crate) started_ms: Option<u64>,
    pub(crate) ended_ms: Option<u64>,
    /// When somebody asked to end it.
    pub(crate) kill_ms: Option<u64>,
    pub(crate) is_kill_forced: bool,
    /// Whether it is to be removed from history when it has ended.
    pub(crate) is_removed_at_end: bool,
    /// How often it could not be started, and when to try again.
    pub(crate) attempts: u32,
    pub(crate) retry_ms: u64,
    /// What keeps the cloud from starting it, or from seeing how it is.
    pub(crate) trouble: Option<Trouble>,
    /// Whether the backend has nothing of it any more.
    pub(crate) is_forgotten: bool,
    pub(crate) workers: Vec<Worker>,
    pub(crate) notes: Vec<String>,
    /// Counts its changes.
    pub(crate) revision: u64,
    /// Counts the changes of all jobs.
    pub(crate) change: u64,
}

/// The last error of the backend, when there was no success since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub(crate) error: String,
    /// The time of the first error.
    pub(crate) since_ms: u64,
}

/// How far the cloud is with a job. Every change is on disk before the next step is taken, so a
/// server that is started again knows what it may have done and not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for its turn; the backend has nothing of it.
    Queued,
    /// It may start; the backend may have it.
    Admitted,
    /// The backend has accepted it.
    Placed,
    /// It has ended, and everything of it is in the database and the archive.
    Ended,
}

const STAGES: [(Stage, &str); 4] = [
    (Stage::Queued, "queued"),
    (Stage::Admitted, "admitted"),
    (Stage::Placed, "placed"),
    (Stage::Ended, "ended"),
];

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = STAGES.iter().find(|(stage, _)| stage == self).map_or("", |(_, word)| word);
        f.write_str(word)
    }
}

impl FromStr for Stage {
    type Err = contract::Error;

    fn from_str(text: &str) -> contract::Result<Self> {
        let found = STAGES.iter().find(|(_, word)| *word == text).map(|(stage, _)| *stage);
        found.ok_or_else(|| {
            contract::Error::new(contract::Kind::Damaged, "not a stage of a job")
                .with("stage", text)
        })
    }
}

impl JobRow {
    /// A job that was just submitted, by the user and for the datacenter that its spec names.
    pub(crate) fn queued(
        uid: String,
        request: String,
        spec: JobSpec,
        package: Option<String>,
        submitted_ms: u64,
    ) -> Self {
        JobRow {
            uid,
            request,
            name: spec.name.clone(),
            username: spec.user.clone(),
            datacenter: spec.datacenter.clone(),
            trainers: spec.trainers,
            need: Need::of(&spec, spec.trainers),
            spec,
            package,
            stage: Stage::Queued,
            state: JobState::Pending,
            reason: String::new(),
            exit_code: None,
            submitted_ms,
            started_ms: None,
            ended_ms: None,
            kill_ms: None,
            is_kill_forced: false,
            is_removed_at_end: false,
            attempts: 0,
            retry_ms: 0,
            trouble: None,
            is_forgotten: false,
            workers: Vec::new(),
            notes: Vec::new(),
            revision: 1,
            change: 0,
        }
    }

    /// How many replicas of a role are in a state.
    pub(crate) fn count(&self, role: Role, is: impl Fn(ReplicaState) -> bool) -> u32 {
        let own = self.workers.iter().filter(|worker| worker.role == role && is(worker.state));
        u32::try_from(own.count()).unwrap_or(u32::MAX)
    }

    /// The reason, or else what keeps the cloud from seeing how the job is.
    fn told_reason(&self) -> String {
        match &self.trouble {
            Some(trouble) if self.reason.is_empty() => {
                format!("the place that runs it cannot be asked: {}", trouble.error)
            }
            _ => self.reason.clone(),
        }
    }

    /// What a list shows.
    pub(crate) fn job(&self) -> Job {
        let is_active = |state| matches!(state, ReplicaState::Starting | ReplicaState::Running);
        Job {
            name: self.name.clone(),
            uid: self.uid.clone(),
            user: self.username.clone(),
            datacenter: self.datacenter.clone(),
            state: self.state,
            reason: self.told_reason(),
            trainers: self.trainers,
            pservers: self.spec.pservers,
            succeeded: self.count(Role::Trainer, |state| state == ReplicaState::Succeeded),
            failed: self.count(Role::Trainer, |state| {
                matches!(state, ReplicaState::Failed | ReplicaState::Lost)
            }),
            active: self.count(Role::Trainer, is_active),
            pservers_ready: self.count(Role::Pserver, |state| state == ReplicaState::Running),
            queue: self.spec.queue.clone(),
            exit_code: self.exit_code,
            submitted_ms: self.submitted_ms,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            revision: self.revision,
        }
    }
}

/// The name of a replica, as people see it.
pub(crate) fn worker_name(job: &str, replica: scheduler::ReplicaId) -> String {
    format!("{job}-{replica}")
}
