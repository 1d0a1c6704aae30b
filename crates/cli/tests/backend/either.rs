//! What runs the jobs of a place: processes of this machine, or a cluster.

use contract::Result;
use futures_util::future::BoxFuture;
use scheduler::backend::{Accepted, Cursor, JobSummary, LogPiece, Metrics};
use scheduler::jobs::Jobs;
use scheduler::kubernetes::Kubernetes;
use scheduler::plan::JobPlan;
use scheduler::submission::Place;
use scheduler::{Backend, JobRecord, ReplicaId, Submission};
use std::ops::Deref;
use std::path::Path;

/// The backend of a place. Jobs that are processes have more to look at, by `Deref`.
pub(crate) struct Either {
    jobs: Jobs,
    cluster: Option<Kubernetes>,
}

impl Either {
    pub(crate) fn of(jobs: Jobs, place: &Place) -> Either {
        let cluster = match place {
            Place::Kubernetes(place) => Some(Kubernetes::of(place)),
            _ => None,
        };
        Either { jobs, cluster }
    }

    fn backend(&self) -> &dyn Backend {
        match &self.cluster {
            Some(cluster) => cluster,
            None => &self.jobs,
        }
    }
}

impl Deref for Either {
    type Target = Jobs;

    fn deref(&self) -> &Jobs {
        &self.jobs
    }
}

impl Backend for Either {
    fn check(&self, submission: &Submission) -> Result<()> {
        self.backend().check(submission)
    }

    fn plan(&self, submission: &Submission) -> Result<JobPlan> {
        self.backend().plan(submission)
    }

    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        package: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>> {
        self.backend().submit(submission, package)
    }

    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        self.backend().list(origin, since_ms)
    }

    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>> {
        self.backend().observe(id)
    }

    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>> {
        self.backend().logs(id, replica, cursor)
    }

    fn metrics<'a>(&'a self, id: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>> {
        self.backend().metrics(id, cursor)
    }

    fn scale<'a>(&'a self, id: &'a str, trainers: u32) -> BoxFuture<'a, Result<()>> {
        self.backend().scale(id, trainers)
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        self.backend().kill(id, is_forced)
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        self.backend().forget(id)
    }
}
