//! What is known of a job that runs: its own state and that of every replica. Written to
//! `state.json` in the job's directory, so that anybody can look, also after the end.
//!
//! Events change it through [`JobRecord::apply`] alone; what to do next is decided elsewhere.

use super::plan::JobPlan;
use crate::replica::ReplicaId;
use crate::supervisor::message::Event;
use contract::ready::Ready;
use contract::state::{JobState, ReplicaState, State};
use contract::{Error, Result, exit};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A job and its replicas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The version of this description, 1.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// Its state.
    pub state: JobState,
    /// Why it is in that state; empty where the state says it all.
    pub reason: String,
    /// The replica whose failure ended it.
    pub culprit: Option<ReplicaId>,
    /// How it ended: the exit code of the program, 128 + signal.
    pub exit_code: Option<i32>,
    /// When it was begun, in milliseconds since 1970.
    pub began_ms: u64,
    /// When everything had ended.
    pub ended_ms: Option<u64>,
    /// When its end was decided, and how; its replicas may need a while.
    pub ending: Option<Ending>,
    /// Its replicas, servers first.
    pub replicas: Vec<ReplicaRecord>,
}

/// A decided end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// What the job will be.
    pub verdict: Verdict,
    /// Since when its replicas know.
    pub since_ms: u64,
    /// Whether they were killed, after they had been asked.
    pub is_forced: bool,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Succeeded, failed or killed.
    pub state: JobState,
    /// The exit code of the whole.
    pub exit_code: i32,
    /// Why, in words.
    pub reason: String,
    /// Whose failure it was.
    pub culprit: Option<ReplicaId>,
}

/// One rank, in its newest incarnation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaRecord {
    /// Which.
    pub replica: ReplicaId,
    /// On which host.
    pub host: String,
    /// Its state.
    pub state: ReplicaState,
    /// How often it was started again.
    pub attempt: u32,
    /// Its process, where it is known.
    pub pid: Option<u32>,
    /// Where it serves, if it does.
    pub ready: Option<Ready>,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// More than the exit code tells.
    pub message: Option<String>,
    /// When it was started.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Its log, on its host.
    pub log: PathBuf,
    /// Its newest figures, whatever they are.
    pub metrics: Option<serde_json::Value>,
}

impl JobRecord {
    /// A job of which nothing runs yet.
    pub fn new(plan: &JobPlan, now_ms: u64) -> Self {
        let replicas = plan.replicas.iter().map(|replica| ReplicaRecord {
            replica: replica.id,
            host: plan.hosts[replica.host].name.clone(),
            state: ReplicaState::Pending,
            attempt: 0,
            pid: None,
            ready: None,
            exit_code: None,
            message: None,
            started_ms: None,
            ended_ms: None,
            log: replica.directory.join(&replica.log),
            metrics: None,
        });
        JobRecord {
            version: 1,
            job: plan.job.clone(),
            state: JobState::Pending,
            reason: String::new(),
            culprit: None,
            exit_code: None,
            began_ms: now_ms,
            ended_ms: None,
            ending: None,
            replicas: replicas.collect(),
        }
    }

    /// The record of one replica.
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaRecord> {
        self.replicas.iter().find(|record| record.replica == id)
    }

    fn replica_mut(&mut self, id: ReplicaId) -> Option<&mut ReplicaRecord> {
        self.replicas.iter_mut().find(|record| record.replica == id)
    }

    /// Takes in what a supervisor says. Whether anything changed that is worth writing down.
    pub fn apply(&mut self, event: &Event, now_ms: u64) -> bool {
        let is_ending = self.ending.is_some();
        match event {
            Event::Opened { .. } | Event::Log { .. } => return false,
            Event::Started { replica, pid } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.pid = *pid;
                if !replica.is_server() {
                    record.advance(ReplicaState::Running);
                }
            }
            Event::Ready { replica, ready } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.ready = Some(ready.clone());
                record.advance(ReplicaState::Running);
            }
            Event::Metrics { replica, metrics } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.metrics = Some(metrics.clone());
            }
            Event::Exited { replica, code, message } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.exit(*code, message.clone(), is_ending);
                record.ended_ms = Some(now_ms);
            }
        }
        true
    }

    /// A new incarnation of a replica begins.
    pub fn begin(&mut self, id: ReplicaId, now_ms: u64) -> u32 {
        let Some(record) = self.replica_mut(id) else { return 0 };
        if record.state != ReplicaState::Pending {
            record.attempt += 1;
        }
        record.state = ReplicaState::Starting;
        record.started_ms = Some(now_ms);
        record.ready = None;
        (record.pid, record.exit_code, record.message, record.ended_ms) = (None, None, None, None);
        record.attempt
    }

    /// A host has gone, and all its replicas with it as far as anybody can tell.
    pub fn lose_host(&mut self, host: &str, why: &str, now_ms: u64) {
        for record in self.replicas.iter_mut().filter(|record| record.host == host) {
            if !record.state.is_final() {
                record.state = ReplicaState::Lost;
                record.message = Some(why.to_owned());
                record.ended_ms = Some(now_ms);
            }
        }
    }

    /// Writes it to a file that is always complete.
    pub fn write(&self, path: &Path) -> Result<()> {
        let refused =
            |source| Error::io("cannot write the job's state", source).with("file", path.display());
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
        let json = serde_json::to_string_pretty(self)
            .map_err(|source| Error::invalid("cannot render the job's state").because(source))?;
        file.write_all(json.as_bytes()).map_err(refused)?;
        file.persist(path).map_err(|error| refused(error.error))?;
        Ok(())
    }

    /// Reads what [`JobRecord::write`] wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| {
            Error::io("cannot read the job's state", source).with("file", path.display())
        })?;
        serde_json::from_str(&text).map_err(|source| {
            Error::new(contract::Kind::Damaged, "this is not the state of a job")
                .with("file", path.display())
                .because(source)
        })
    }
}

impl ReplicaRecord {
    /// A supervisor may report late; what cannot follow is passed over.
    fn advance(&mut self, next: ReplicaState) {
        if self.state.can_become(next) {
            self.state = next;
        }
    }

    fn exit(&mut self, code: i32, message: Option<String>, is_ending: bool) {
        self.exit_code = Some(code);
        self.message = message;
        let is_early = self.replica.is_server() && self.state == ReplicaState::Starting;
        let next = match code {
            0 if is_early && !is_ending => {
                self.message = Some("it ended before it was ready".to_owned());
                ReplicaState::Failed
            }
            0 => ReplicaState::Succeeded,
            // Whatever a replica says when it is told to end, it is as it should be.
            _ if is_ending => ReplicaState::Killed,
            _ => ReplicaState::Failed,
        };
        self.advance(next);
    }

    /// Why it ended, in plain words.
    pub fn reason(&self) -> String {
        match (&self.message, self.exit_code) {
            (Some(message), _) => message.clone(),
            (None, Some(code)) => exit::reason(code),
            (None, None) => String::new(),
        }
    }
}
