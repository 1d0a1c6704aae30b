//! A backend whose jobs run nowhere: they are accepted, say that they run, and end when they are
//! told to. The job [`TALKER`] prints all the time; [`QUICK`] has ended when it is looked at.

use contract::role::Role;
use contract::state::{JobState, ReplicaState};
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use scheduler::backend::{Accepted, Cursor, JobSummary, LogPiece, Metrics};
use scheduler::conductor::Stop;
use scheduler::plan::JobPlan;
use scheduler::record::{JobRecord, ReplicaRecord, Verdict};
use scheduler::{Backend, ReplicaId, Submission};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const TALKER: &str = "talker";
pub(crate) const QUICK: &str = "quick";
const COPY: &str = "copy";
/// What the talker prints.
pub(crate) const LINES_PER_SECOND: u64 = 10;
const LINE: &[u8] = b"Pass=0 Batch=100 samples=51200 AvgCost=0.693147 CurrentCost=0.693147 Eval: \
                      auc=0.5 CurrentEval: auc=0.5\n";

/// The jobs by their ids.
#[derive(Default)]
pub(crate) struct Pretend(Mutex<HashMap<String, JobRecord>>);

impl Pretend {
    fn with<T>(&self, id: &str, work: impl FnOnce(&mut JobRecord) -> T) -> Result<T> {
        let mut jobs = self.0.lock().unwrap();
        if !jobs.contains_key(id)
            && let Some(template) = id.rsplit_once('-').and_then(|(known, _)| jobs.get(known))
        {
            // A copy of a job, of which only the database was told.
            let (id, job) = (id.to_owned(), COPY.to_owned());
            let record = JobRecord { id: id.clone(), job, ..template.clone() };
            jobs.insert(id, record);
        }
        let record = jobs.get_mut(id);
        record.map(work).ok_or_else(|| Error::new(Kind::NotFound, "there is no such job"))
    }
}

impl Backend for Pretend {
    fn check(&self, _: &Submission) -> Result<()> {
        Ok(())
    }

    fn plan(&self, _: &Submission) -> Result<JobPlan> {
        Err(Error::new(Kind::Unsupported, "nothing would run"))
    }

    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        _: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>> {
        let mut record = running(submission);
        if submission.spec.name == QUICK {
            for replica in &mut record.replicas {
                replica.state = ReplicaState::Succeeded;
                (replica.ended_ms, replica.exit_code) = (replica.started_ms, Some(0));
            }
            let verdict =
                Verdict { state: JobState::Succeeded, exit_code: 0, ..Verdict::failed("".into()) };
            record.finish(verdict, now_ms());
        }
        let known = self.0.lock().unwrap().insert(submission.id.clone(), record);
        let accepted = if known.is_some() { Accepted::Known } else { Accepted::New };
        Box::pin(async move { Ok(accepted) })
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<u64>) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>> {
        let record = self.with(id, |record| record.clone());
        Box::pin(async move { record })
    }

    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>> {
        let piece = self.with(id, |record| {
            let is_talker = record.job == TALKER && replica == ReplicaId::new(Role::Trainer, 0);
            let rate = if is_talker { LINES_PER_SECOND } else { 0 };
            let end = (now_ms() - record.began_ms) * rate / 1000;
            let begin = cursor.0.parse().unwrap_or(0).min(end);
            LogPiece {
                bytes: LINE.repeat(usize::try_from(end - begin).unwrap()),
                next: Cursor(end.to_string()),
                skipped_bytes: 0,
                is_last: record.ended_ms.is_some(),
            }
        });
        Box::pin(async move { piece })
    }

    fn metrics<'a>(&'a self, _: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>> {
        Box::pin(async { Ok(Metrics { lines: Vec::new(), next: cursor.clone() }) })
    }

    fn scale<'a>(&'a self, _: &'a str, _: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        let stop = Stop { exit_code: 143, reason: None, is_forced };
        let killed = self.with(id, |record| record.finish(Verdict::killed(stop), now_ms()));
        Box::pin(async move { killed })
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.lock().unwrap().remove(id);
        Box::pin(async { Ok(()) })
    }
}

fn running(submission: &Submission) -> JobRecord {
    let spec = &submission.spec;
    let servers = (0..spec.pservers).map(|rank| ReplicaId::new(Role::Pserver, rank));
    let trainers = (0..spec.trainers).map(|rank| ReplicaId::new(Role::Trainer, rank));
    let replica = |replica| ReplicaRecord {
        replica,
        host: "127.0.0.1".to_owned(),
        state: ReplicaState::Running,
        attempt: 0,
        failures: 0,
        pid: Some(1),
        ready: None,
        exit_code: None,
        message: None,
        started_ms: Some(now_ms()),
        ended_ms: None,
        log: PathBuf::new(),
        metrics: None,
        trainers_joined: None,
        goodbyes: None,
        restarted_for: None,
        leaving_ms: None,
        was_stopped: false,
        is_unsaved: false,
    };
    JobRecord {
        id: submission.id.clone(),
        job: spec.name.clone(),
        state: JobState::Running,
        began_ms: now_ms(),
        conductors: 1,
        trainers: spec.trainers,
        pservers: spec.pservers,
        replicas: servers.chain(trainers).map(replica).collect(),
        ..JobRecord::default()
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
