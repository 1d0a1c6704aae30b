//! Jobs: submit, list, look, end, wait.

use crate::client::{Client, Rows, get, send};
use crate::retry::Repeat;
use crate::retry::{self, POLL_FIRST, POLL_MAX};
use crate::tokens::hex;
use crate::transport::{Call, Content};
use contract::api::job::{Event, Job, JobDetail, Kill, Scale, Submit, Why, Worker};
use contract::api::path;
use contract::job::JobSpec;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::time::{Duration, Instant};
use ureq::http::Method;

/// Which jobs of a list.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// Only those that have not ended.
    pub is_active: bool,
    /// Those of another user, or of everybody with `*`; for administrators.
    pub user: Option<String>,
}

impl Client {
    /// Hands a job in. `package` is the digest that [`Client::upload`] gave.
    pub fn submit(&self, spec: &JobSpec, package: Option<String>) -> Result<Job> {
        let mut number = [0; 16];
        getrandom::fill(&mut number)
            .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
        let submit = Submit { request: hex(&number), spec: spec.clone(), package };
        // Twice is once: the server knows the request by its number.
        self.ask(&send(Method::POST, self.path(path::JOBS, &[])?, &submit, "submit a job")?)
    }

    /// The newest jobs of which `which` is true, at most `rows_max`.
    pub fn jobs(&self, which: &Which, rows_max: usize) -> Result<Rows<Job>> {
        let mut path = format!("{}?active={}", self.path(path::JOBS, &[])?, which.is_active);
        if let Some(user) = &which.user {
            path.push_str(&format!("&user={}", path::encode(user)));
        }
        self.rows(&path, "list jobs", rows_max)
    }

    /// One job, by name (the newest of that name) or uid.
    pub fn job(&self, job: &str) -> Result<JobDetail> {
        self.ask(&get(self.path(path::JOB, &[job])?, "show a job"))
    }

    /// Its replicas.
    pub fn workers(&self, job: &str) -> Result<Vec<Worker>> {
        let path = self.path(path::JOB_WORKERS, &[job])?;
        self.ask(&get(path, "list the workers of a job"))
    }

    /// What it waits for, or why it ended.
    pub fn why(&self, job: &str) -> Result<Why> {
        self.ask(&get(self.path(path::JOB_WHY, &[job])?, "say what a job waits for"))
    }

    /// What the cloud saw of it.
    pub fn events(&self, job: &str) -> Result<Vec<Event>> {
        let path = self.path(path::JOB_EVENTS, &[job])?;
        self.ask(&get(path, "list the events of a job"))
    }

    /// Ends it. Its replicas may take a while to.
    pub fn kill(&self, job: &str, kill: &Kill) -> Result<Job> {
        self.ask(&send(Method::POST, self.path(path::JOB_KILL, &[job])?, kill, "kill a job")?)
    }

    /// Removes one that has ended from history.
    pub fn delete_job(&self, job: &str) -> Result<()> {
        let path = self.path(path::JOB, &[job])?;
        self.call(&delete(path, "delete a job")).map(|_| ())
    }

    /// Changes the number of its trainers.
    pub fn scale(&self, job: &str, trainers: u32) -> Result<Job> {
        let path = self.path(path::JOB_SCALE, &[job])?;
        self.ask(&send(Method::POST, path, &Scale { trainers }, "scale a job")?)
    }

    /// The job when it has ended. `see` is shown it every few seconds and may end the wait. The
    /// server may be away for some minutes, for example to be updated.
    pub fn wait(
        &self,
        job: &str,
        timeout: Option<Duration>,
        mut see: impl FnMut(&JobDetail) -> Result<()>,
    ) -> Result<JobDetail> {
        let began = Instant::now();
        // By its uid from now on: another job may get the name.
        let mut detail = self.job(job)?;
        let uid = detail.job.uid.clone();
        let mut pause = POLL_FIRST;
        loop {
            see(&detail)?;
            if detail.job.state.is_final() {
                return Ok(detail);
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                let message = "the job has not ended in the time that was given";
                return Err(Error::new(Kind::Timeout, message)
                    .with("job", job)
                    .with("state", detail.job.state));
            }
            let left = timeout.map_or(pause, |timeout| timeout.saturating_sub(began.elapsed()));
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL_MAX);
            detail = self.patiently(|| self.job(&uid))?;
        }
    }

    /// Asks again while the server is away, for some minutes, or as [`Client::with_patience`] says.
    pub fn patiently<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        retry::patiently(self.patience, |line| (self.notice)(line), ask)
    }
}

/// A removal.
pub(crate) fn delete(path: String, what: &'static str) -> Call<'static> {
    let content = Content::Nothing;
    Call { method: Method::DELETE, path, content, repeat: Repeat::Safe, what, answer: None }
}
