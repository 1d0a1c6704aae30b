//! The jobs of this user, wherever they run: processes that this machine looks after, and detached
//! pods of Kubernetes clusters. Of the latter only a note is kept here, which says where they are;
//! the cluster has all the rest.

use super::find;
use contract::state::JobState;
use contract::{Error, Kind, Result};
use disk::Access;
use futures_util::future::{BoxFuture, join_all};
use scheduler::backend::{Accepted, Cursor, JobSummary, LogPiece, Metrics};
use scheduler::jobs::Jobs;
use scheduler::kubernetes::Kubernetes;
use scheduler::plan::JobPlan;
use scheduler::submission::{KubernetesPlace, check_id};
use scheduler::{Backend, JobRecord, ReplicaId, Submission};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::timeout;

/// In the directory of jobs.
const NOTES: &str = ".kubernetes";
/// How long a list waits for the clusters that have jobs of it.
const ANSWER: Duration = Duration::from_secs(5);

/// All jobs of this user.
pub(crate) struct Everywhere {
    here: Jobs,
    /// By the text of their places.
    clusters: Mutex<BTreeMap<String, Arc<Kubernetes>>>,
}

/// All jobs of this user.
pub(crate) fn open() -> Result<Everywhere> {
    Ok(Everywhere { here: find::open()?, clusters: Mutex::default() })
}

/// Notes where a job runs.
pub(crate) fn remember(id: &str, place: &KubernetesPlace) -> Result<()> {
    let folder = find::open()?.root.join(NOTES);
    let refused = |source| {
        Error::io("cannot note where the job runs", source).with("folder", folder.display())
    };
    fs::create_dir_all(&folder).map_err(refused)?;
    let text = serde_json::to_vec(place)
        .map_err(|source| Error::invalid("cannot write a place").because(source))?;
    disk::publish(&folder.join(format!("{id}.json")), Access::Private, &text)
}

/// Removes the note of a job that is over. One that stays is removed by the next list of jobs.
pub(crate) fn let_go(id: &str) {
    if let Ok(here) = find::open() {
        let _ = fs::remove_file(here.root.join(NOTES).join(format!("{id}.json")));
    }
}

impl Everywhere {
    /// What was asked for when a job was submitted.
    pub(crate) async fn submission(&self, id: &str) -> Result<Submission> {
        match self.cluster(id)? {
            Some(cluster) => cluster.submission(id).await,
            None => find::submission(&self.here, id),
        }
    }

    /// An error about a job whose cluster does not answer, with what helps if it never will again.
    pub(crate) fn explain(&self, word: &str, error: Error) -> Error {
        match self.note(word) {
            Ok(note) if error.kind().is_retryable() && note.exists() => {
                error.with("if this cluster is gone for good, remove", note.display())
            }
            _ => error,
        }
    }

    fn note(&self, id: &str) -> Result<PathBuf> {
        check_id(id)?;
        Ok(self.here.root.join(NOTES).join(format!("{id}.json")))
    }

    /// The cluster that has a job, if it is one of the noted.
    fn cluster(&self, id: &str) -> Result<Option<Arc<Kubernetes>>> {
        let path = self.note(id)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let error = Error::io("cannot read where a job runs", error);
                return Err(error.with("file", path.display()));
            }
        };
        let place: KubernetesPlace = serde_json::from_str(&text).map_err(|source| {
            let message = "this note of where a job runs is damaged: remove it";
            Error::new(Kind::Damaged, message).with("file", path.display()).because(source)
        })?;
        let key = format!("{:?} {} {}", place.kubeconfig, place.context, place.namespace);
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = clusters.entry(key).or_insert_with(|| Arc::new(Kubernetes::of(&place)));
        Ok(Some(cluster.clone()))
    }

    /// The ids of jobs that are noted.
    fn noted(&self) -> Vec<String> {
        let entries = fs::read_dir(self.here.root.join(NOTES)).into_iter().flatten().flatten();
        let id = |name: String| name.strip_suffix(".json").map(str::to_owned);
        entries.filter_map(|entry| id(entry.file_name().into_string().ok()?)).collect()
    }

    /// One noted job in a list. One that somebody else has removed is no longer noted; of one whose
    /// cluster does not answer in time it says that, and what is known here.
    async fn summary(&self, id: &str) -> Option<JobSummary> {
        let late = |_| {
            Err(Error::new(Kind::Timeout, "its cluster does not answer")
                .with("seconds", ANSWER.as_secs()))
        };
        match timeout(ANSWER, self.observe(id)).await.unwrap_or_else(late) {
            Ok(record) => Some(record.into()),
            Err(error) if error.kind() == Kind::NotFound => {
                let _ = self.note(id).map(fs::remove_file);
                None
            }
            Err(error) => Some(self.unknown(id, &error)),
        }
    }

    /// A noted job of which nobody can say how it is.
    fn unknown(&self, id: &str, why: &Error) -> JobSummary {
        let noted = self.note(id).ok().and_then(|path| fs::metadata(path).ok()?.modified().ok());
        let since = noted.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        JobSummary {
            id: id.to_owned(),
            name: id.rsplit_once('-').map_or(id, |(name, _)| name).to_owned(),
            place: "kubernetes".to_owned(),
            revision: 0,
            state: JobState::Pending,
            reason: format!("not known: {}", why.chain()),
            trainers: 0,
            pservers: 0,
            began_ms: since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            ended_ms: None,
        }
    }
}

/// Calls the backend that has the job.
macro_rules! of_job {
    ($self:ident, $id:ident, $call:ident($($argument:expr),*)) => {
        Box::pin(async move {
            match $self.cluster($id)? {
                Some(cluster) => cluster.$call($id, $($argument),*).await,
                None => $self.here.$call($id, $($argument),*).await,
            }
        })
    };
}

impl Backend for Everywhere {
    fn check(&self, submission: &Submission) -> Result<()> {
        self.here.check(submission)
    }

    fn plan(&self, submission: &Submission) -> Result<JobPlan> {
        self.here.plan(submission)
    }

    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        package: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>> {
        self.here.submit(submission, package)
    }

    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        Box::pin(async move {
            let mut all = self.here.list(origin, since_ms).await?;
            let noted = self.noted();
            let summaries = join_all(noted.iter().map(|id| self.summary(id))).await;
            all.extend(summaries.into_iter().flatten());
            Ok(all)
        })
    }

    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>> {
        of_job!(self, id, observe())
    }

    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>> {
        of_job!(self, id, logs(replica, cursor))
    }

    fn metrics<'a>(&'a self, id: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>> {
        of_job!(self, id, metrics(cursor))
    }

    fn scale<'a>(&'a self, id: &'a str, trainers: u32) -> BoxFuture<'a, Result<()>> {
        of_job!(self, id, scale(trainers))
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        of_job!(self, id, kill(is_forced))
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(cluster) = self.cluster(id)? else { return self.here.forget(id).await };
            cluster.forget(id).await?;
            let path = self.note(id)?;
            fs::remove_file(&path).map_err(|source| {
                Error::io("cannot remove the note of a job", source).with("file", path.display())
            })
        })
    }
}
