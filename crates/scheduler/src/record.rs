//! What is known of a job: its own state and that of every replica. Written to `state.json` in the
//! job's directory, so that anybody can look, also after the end.
//!
//! Events change it through [`JobRecord::apply`] alone; what to do next is decided elsewhere.

use crate::conductor::Stop;
use crate::plan::{JobPlan, ReplicaPlan};
use crate::replica::ReplicaId;
use crate::submission::Submission;
use crate::supervisor::files;
use crate::supervisor::message::Event;
use contract::job::FaultTolerance;
use contract::ready::Ready;
use contract::role::Role;
use contract::state::{JobState, ReplicaState, State};
use contract::{Error, Kind, Result, exit};
use disk::Access;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A job and its replicas.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The version of this description, 2.
    pub version: u32,
    /// The id that the submitter chose.
    pub id: String,
    /// Whose job it is.
    pub origin: String,
    /// The job's name.
    pub job: String,
    /// Where it runs: `local`, `ssh`, `mpi`, `slurm`.
    pub place: String,
    /// Counts the changes of this record.
    pub revision: u64,
    /// When it changed last, in milliseconds since 1970.
    pub changed_ms: u64,
    /// Its state.
    pub state: JobState,
    /// Why it is in that state; empty where the state says it all.
    pub reason: String,
    /// What people should know besides: limits that cannot be enforced here, results that could
    /// not be brought.
    pub notes: Vec<String>,
    /// The replica whose failure ended it.
    pub culprit: Option<ReplicaId>,
    /// How it ended: the exit code of the program, 128 + signal.
    pub exit_code: Option<i32>,
    /// When it was submitted, in milliseconds since 1970.
    pub began_ms: u64,
    /// When its machines were given to it, where it had to wait for them: its time limit counts from
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_ms: Option<u64>,
    /// When everything had ended.
    pub ended_ms: Option<u64>,
    /// How many conductors it has had; more than one if one of them died.
    pub conductors: u32,
    /// How often the whole job was started again.
    pub rounds: u32,
    /// When its end was decided, and how; its replicas may need a while.
    pub ending: Option<Ending>,
    /// The number of trainers that is wanted now.
    pub trainers: u32,
    /// The number of parameter servers.
    pub pservers: u32,
    /// Its replicas, servers first; none before its machines are reached.
    pub replicas: Vec<ReplicaRecord>,
}

/// The most notes that are kept.
const NOTES_MAX: usize = 50;

/// A decided end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// What the job will be.
    pub verdict: Verdict,
    /// Since when its replicas know, or were killed.
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

impl Verdict {
    /// A job that fails for this reason.
    pub fn failed(reason: String) -> Self {
        Verdict { state: JobState::Failed, exit_code: 1, reason, culprit: None }
    }

    /// A job that somebody ended.
    pub fn killed(stop: Stop) -> Self {
        let Stop { exit_code, reason, .. } = stop;
        let reason = reason.unwrap_or_else(|| exit::reason(exit_code));
        Verdict { state: JobState::Killed, exit_code, reason, culprit: None }
    }
}

/// One rank, in its newest incarnation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaRecord {
    /// Its name.
    pub replica: ReplicaId,
    /// The machine it is on.
    pub host: String,
    /// Its state.
    pub state: ReplicaState,
    /// How often it was started before: `PADDLE_ATTEMPT`.
    pub attempt: u32,
    /// How often it failed and was started again for that.
    pub failures: u32,
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
    /// How many trainers a server has served, as it said when it ended.
    pub trainers_joined: Option<u32>,
    /// Whether a server has said that a signal ended it while it had trainers to wait for.
    #[serde(default)]
    pub was_stopped: bool,
    /// Whether a server has said that it could not write its last checkpoint.
    #[serde(default)]
    pub is_unsaved: bool,
    /// Which attempts of trainers a server has heard goodbye from, see
    /// [`contract::ready::Farewell::goodbyes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodbyes: Option<Vec<(u32, u32)>>,
    /// Why it was started again alone the last time.
    #[serde(default)]
    pub restarted_for: Option<String>,
    /// When it was asked to leave because fewer trainers are wanted; the largest number once it was
    /// killed for that.
    #[serde(default)]
    pub leaving_ms: Option<u64>,
}

impl JobRecord {
    /// A job that was accepted and of which nothing runs yet.
    pub fn new(submission: &Submission, now_ms: u64) -> Self {
        JobRecord {
            version: 2,
            id: submission.id.clone(),
            origin: submission.origin.clone(),
            job: submission.spec.name.clone(),
            place: submission.place.name().to_owned(),
            changed_ms: now_ms,
            began_ms: now_ms,
            trainers: submission.spec.trainers,
            pservers: submission.spec.pservers,
            ..JobRecord::default()
        }
    }

    /// Refuses a number of trainers that a job with this tolerance cannot get now.
    ///
    /// # Errors
    /// Says which numbers the job may have, or that it has ended.
    pub fn check_scale(&self, tolerance: Option<FaultTolerance>, trainers: u32) -> Result<()> {
        let refuse = |kind, message: &str| {
            let error = Error::new(kind, message).with("id", &self.id);
            Err(error.with("trainers", self.trainers).with("wanted", trainers))
        };
        let Some(FaultTolerance { min_trainers, max_trainers }) = tolerance else {
            let message = "the number of trainers of this job is fixed: to change it while it \
                           runs, submit it with min_trainers and max_trainers";
            return refuse(Kind::Unsupported, message);
        };
        if !(min_trainers..=max_trainers).contains(&trainers) {
            let message =
                format!("this job may have from {min_trainers} to {max_trainers} trainers");
            return refuse(Kind::Invalid, &message);
        }
        if self.state.is_final() || self.ending.is_some() {
            return refuse(Kind::Conflict, "the job has ended");
        }
        Ok(())
    }

    /// Makes room for the replicas of a plan. Those that are known keep their number of attempts:
    /// whatever they were doing ended with the machines they were on.
    pub fn take_plan(&mut self, plan: &JobPlan) {
        let known = std::mem::take(&mut self.replicas);
        let attempt = |id: ReplicaId| {
            let old = known.iter().find(|record| record.replica == id);
            old.map_or((0, 0), |old| match old.state {
                ReplicaState::Pending => (old.attempt, old.failures),
                _ => (old.attempt + 1, old.failures),
            })
        };
        let trainers = self.trainers;
        self.replicas = plan
            .replicas
            .iter()
            .filter(|replica| replica.id.role != Role::Trainer || replica.id.rank < trainers)
            .map(|replica| {
                let (attempt, failures) = attempt(replica.id);
                ReplicaRecord { attempt, failures, ..ReplicaRecord::planned(plan, replica) }
            })
            .collect();
    }

    /// Changes the number of trainers that is wanted. Those among them that failed and were given up
    /// are started again, with all their restarts; those of a lost machine cannot be.
    pub fn scale(&mut self, plan: &JobPlan, trainers: u32) {
        if self.trainers != trainers {
            self.note(format!("from {} to {trainers} trainers", self.trainers));
            self.trainers = trainers;
        }
        for record in &mut self.replicas {
            let is_wanted = record.replica.role == Role::Trainer && record.replica.rank < trainers;
            if is_wanted && record.state == ReplicaState::Failed {
                // It comes back like one that was asked to leave.
                (record.leaving_ms, record.failures) = (Some(u64::MAX), 0);
            }
        }
        for replica in &plan.replicas {
            let is_wanted = replica.id.role == Role::Trainer && replica.id.rank < trainers;
            if is_wanted && self.replica(replica.id).is_none() {
                self.replicas.push(ReplicaRecord::planned(plan, replica));
            }
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
            Event::Opened { .. } | Event::Log { .. } | Event::Probed { .. } | Event::Alive => {
                return false;
            }
            Event::Note { text } => return self.note(text.clone()),
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
            Event::Metrics { replica, lines } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.metrics = lines.last().cloned().or_else(|| record.metrics.take());
            }
            Event::Farewell { replica, farewell } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.trainers_joined = Some(farewell.trainers_joined);
                record.was_stopped = farewell.was_stopped;
                record.is_unsaved = farewell.is_unsaved;
                record.goodbyes = farewell.goodbyes.clone();
            }
            Event::Exited { replica, code, message } => {
                let Some(record) = self.replica_mut(*replica) else { return false };
                record.exit(*code, message.clone(), is_ending);
                record.ended_ms = Some(now_ms);
            }
        }
        true
    }

    /// Adds something that people should know, once. Whether it was new.
    pub fn note(&mut self, text: String) -> bool {
        let is_new = !self.notes.contains(&text) && self.notes.len() < NOTES_MAX;
        if is_new {
            self.notes.push(text);
        }
        is_new
    }

    /// Whether any trainer was ever started.
    pub fn has_begun(&self) -> bool {
        let was_started =
            |one: &ReplicaRecord| one.attempt > 0 || one.state != ReplicaState::Pending;
        let mut trainers = self.replicas.iter().filter(|one| one.replica.role == Role::Trainer);
        trainers.any(was_started)
    }

    /// A new incarnation of a replica begins.
    pub fn begin(&mut self, id: ReplicaId, now_ms: u64) -> u32 {
        let Some(record) = self.replica_mut(id) else { return 0 };
        if record.state != ReplicaState::Pending {
            record.attempt += 1;
            record.failures += u32::from(record.leaving_ms.is_none());
            record.restarted_for = Some(record.reason());
        }
        (record.leaving_ms, record.was_stopped, record.is_unsaved) = (None, false, false);
        record.goodbyes = None;
        record.state = ReplicaState::Starting;
        record.started_ms = Some(now_ms);
        record.ready = None;
        (record.pid, record.exit_code, record.message, record.ended_ms) = (None, None, None, None);
        record.attempt
    }

    /// Trainers were asked to leave, or killed because they had not.
    pub fn leave(&mut self, replicas: &[ReplicaId], is_killed: bool, now_ms: u64) {
        for record in self.replicas.iter_mut().filter(|own| replicas.contains(&own.replica)) {
            record.leaving_ms = Some(if is_killed { u64::MAX } else { now_ms });
        }
    }

    /// A replica failed in a way that takes the whole round with it.
    pub fn count_failure(&mut self, id: ReplicaId) {
        if let Some(record) = self.replica_mut(id) {
            record.failures += 1;
        }
    }

    /// A machine has gone, and all its replicas with it as far as anybody can tell.
    pub fn lose_host(&mut self, host: &str, why: &str, now_ms: u64) {
        for record in self.replicas.iter_mut().filter(|record| record.host == host) {
            if !record.state.is_final() {
                record.state = ReplicaState::Lost;
                record.message = Some(why.to_owned());
                record.ended_ms = Some(now_ms);
            }
        }
    }

    /// The job is over.
    pub fn finish(&mut self, verdict: Verdict, now_ms: u64) {
        let Verdict { state, exit_code, reason, culprit } = verdict;
        (self.state, self.reason, self.culprit) = (state, reason, culprit);
        (self.exit_code, self.ended_ms, self.ending) = (Some(exit_code), Some(now_ms), None);
        for replica in self.replicas.iter_mut().filter(|replica| !replica.state.is_final()) {
            replica.state = ReplicaState::Killed;
        }
    }

    /// Writes it to a file that is always complete. With `is_durable` the end is also on disk when
    /// this returns; what comes before it is written too often for that, and would be wrong after a
    /// power failure in any case.
    pub fn write(&self, path: &Path, is_durable: bool) -> Result<()> {
        let refused =
            |source| Error::io("cannot write the job's state", source).with("file", path.display());
        let json = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::invalid("cannot render the job's state").because(source))?;
        if is_durable && self.state.is_final() {
            return disk::publish(path, Access::Private, &json);
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
        file.write_all(&json).map_err(refused)?;
        // A file that is renamed over another is flushed first by ext4, which can take long on a
        // busy disk; one that changes names with another is not. The old one goes with `file`.
        if renameat_with(CWD, file.path(), CWD, path, RenameFlags::EXCHANGE).is_err() {
            file.persist(path).map_err(|error| refused(error.error))?;
        }
        Ok(())
    }

    /// Reads what [`JobRecord::write`] wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let text = files::read(path).map_err(|source| {
            Error::io("cannot read the job's state", source).with("file", path.display())
        })?;
        serde_json::from_slice(&text).map_err(|source| {
            Error::new(contract::Kind::Damaged, "this is not the state of a job")
                .with("file", path.display())
                .because(source)
        })
    }
}

impl ReplicaRecord {
    /// One of the plan that was not started yet.
    fn planned(plan: &JobPlan, replica: &ReplicaPlan) -> Self {
        let host = plan.nodes[replica.node].name.clone();
        ReplicaRecord::pending(replica.id, host, replica.log.clone())
    }

    /// A replica that was never started.
    pub fn pending(replica: ReplicaId, host: String, log: PathBuf) -> Self {
        ReplicaRecord {
            replica,
            host,
            state: ReplicaState::Pending,
            attempt: 0,
            failures: 0,
            pid: None,
            ready: None,
            exit_code: None,
            message: None,
            started_ms: None,
            ended_ms: None,
            log,
            metrics: None,
            trainers_joined: None,
            was_stopped: false,
            is_unsaved: false,
            goodbyes: None,
            restarted_for: None,
            leaving_ms: None,
        }
    }

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
            0 if self.was_stopped && !is_ending => {
                self.message = Some("a signal ended it before the job was over".to_owned());
                ReplicaState::Failed
            }
            0 => ReplicaState::Succeeded,
            // Any exit code after a request to end counts as killed.
            _ if is_ending || self.leaving_ms.is_some() => ReplicaState::Killed,
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
