//! `paddle._native.CloudClient`: a user of the cloud. Values go in and out as JSON, which
//! `paddle/cloud` turns into classes. Calls wait on a thread of their own, without the interpreter,
//! so that Ctrl-C ends them.

use crate::cloud_files::CloudFiles;
use crate::error::raise;
use crate::waiting::{interrupt, seconds};
use client::{Client, Package, Profile, Progress, Seen, Which};
use contract::api::job::Kill;
use contract::api::log::{LogPiece, LogQuery};
use contract::job::JobSpec;
use contract::role::Role;
use contract::secret::Secret;
use contract::{Error, Kind, Result, name};
use pyo3::prelude::*;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Between two looks for a signal.
const PAUSE: Duration = Duration::from_millis(50);
/// Pieces of a log that are fetched ahead.
const PIECES_AHEAD: usize = 16;

/// A user at one datacenter.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct CloudClient(Arc<Own>);

/// A client for every process that the interpreter is forked into, as workers of a data loader are:
/// what a child has of its parent's are connections on which it would read the parent's answers,
/// and locks that nobody gives back.
pub(crate) struct Own {
    process: u32,
    client: Arc<Client>,
    /// That of a process that was forked from this one.
    forked: OnceLock<Box<Own>>,
}

impl Own {
    fn new(client: Client) -> Own {
        Own { process: std::process::id(), client: Arc::new(client), forked: OnceLock::new() }
    }

    /// The client of this process.
    fn client(&self) -> Result<&Arc<Client>> {
        let process = std::process::id();
        let mut own = self;
        while own.process != process {
            if own.forked.get().is_none() {
                let fresh = Own::new(own.client.reopened()?);
                // Another thread may have been quicker.
                let _ = own.forked.set(Box::new(fresh));
            }
            match own.forked.get() {
                Some(forked) => own = forked,
                None => return Err(crashed()),
            }
        }
        Ok(&own.client)
    }
}

#[pymethods]
impl CloudClient {
    /// `home` has `.paddle/config`; `notice` of the client is Python's log.
    #[new]
    #[pyo3(signature = (home, *, config=None, datacenter=None, token=None))]
    fn new(
        home: PathBuf,
        config: Option<PathBuf>,
        datacenter: Option<String>,
        token: Option<String>,
    ) -> PyResult<Self> {
        let token = token.map(Secret::new);
        let profile = Profile { home, config, datacenter, token, notice };
        Client::open(&profile).map(|client| CloudClient(Arc::new(Own::new(client)))).map_err(raise)
    }

    /// Who makes the calls.
    #[getter]
    fn username(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, |client| client.username())
    }

    /// What the server calls the datacenter.
    #[getter]
    fn datacenter(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, |client| client.datacenter_name())
    }

    /// The user's files.
    fn files(&self) -> CloudFiles {
        CloudFiles(Arc::clone(&self.0))
    }

    /// Sends the package and hands the job in: `spec` is a job spec without user, place and package.
    fn submit(&self, py: Python<'_>, package: String, spec: String) -> PyResult<String> {
        self.json(py, move |client| submit(client, &package, &spec))
    }

    /// Runs what a job ran, again.
    fn resubmit(&self, py: Python<'_>, job: String, name: Option<String>) -> PyResult<String> {
        self.json(py, move |client| {
            let detail = client.job(&job)?;
            let mut spec = detail.spec;
            if let Some(name) = name {
                name::check_job_for_submit(&name)?;
                spec.name = name;
            }
            let digest = detail.package.map(|package| package.digest);
            if digest.is_some() {
                spec.package.clear();
            }
            client.submit(&spec, digest)
        })
    }

    /// The newest jobs.
    fn jobs(&self, py: Python<'_>, limit: usize) -> PyResult<String> {
        self.json(py, move |client| {
            let found = client.jobs(&Which::default(), limit)?;
            found.notes.iter().for_each(|note| notice(&format!("not listed: {note}")));
            Ok(found.rows)
        })
    }

    /// One job.
    fn job(&self, py: Python<'_>, job: String) -> PyResult<String> {
        self.json(py, move |client| client.job(&job))
    }

    /// What it waits for, or why it ended.
    fn why(&self, py: Python<'_>, job: String) -> PyResult<String> {
        self.json(py, move |client| client.why(&job))
    }

    /// What the cloud saw of it.
    fn events(&self, py: Python<'_>, job: String) -> PyResult<String> {
        self.json(py, move |client| client.events(&job))
    }

    /// Ends it.
    fn kill(&self, py: Python<'_>, job: String, remove: bool, force: bool) -> PyResult<String> {
        self.json(py, move |client| client.kill(&job, &Kill { is_forced: force, remove }))
    }

    /// Another number of trainers.
    fn scale(&self, py: Python<'_>, job: String, trainers: u32) -> PyResult<String> {
        self.json(py, move |client| client.scale(&job, trainers))
    }

    /// The job when it has ended.
    fn wait(&self, py: Python<'_>, job: String, timeout: Option<f64>) -> PyResult<String> {
        let timeout = timeout.map(|limit| seconds("timeout", limit)).transpose().map_err(raise)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let answer = self.json(py, move |client| {
            client.wait(&job, timeout, |_| match seen.load(Ordering::Relaxed) {
                true => Err(Error::new(Kind::Interrupted, "interrupted")),
                false => Ok(()),
            })
        });
        is_over.store(true, Ordering::Relaxed);
        answer
    }

    /// What its workers printed, piece by piece, as JSON.
    #[pyo3(signature = (job, *, lines, worker, role, follow))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn logs(
        &self,
        job: String,
        lines: Option<u32>,
        worker: Option<String>,
        role: Option<String>,
        follow: bool,
    ) -> PyResult<CloudLogs> {
        let role: Option<Role> = role.map(|role| role.parse()).transpose().map_err(raise)?;
        let query = LogQuery { worker, role, tail: lines, follow, ..LogQuery::default() };
        let client = Arc::clone(self.0.client().map_err(raise)?);
        let (sender, receiver) = sync_channel(PIECES_AHEAD);
        std::thread::spawn(move || {
            let result = read_logs(&client, &job, &query, &sender);
            if let Err(error) = result {
                // Nobody listens any more, or this is the last that is heard.
                let _ = sender.send(Err(error));
            }
        });
        Ok(CloudLogs { process: std::process::id(), pieces: Mutex::new(receiver) })
    }
}

/// Makes a call on a thread of its own.
pub(crate) fn ask<T: Send + 'static>(
    own: &Own,
    py: Python<'_>,
    work: impl FnOnce(&Client) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let client = Arc::clone(own.client().map_err(raise)?);
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || sender.send(work(&client)));
    py.detach(move || receive(&receiver)?.ok_or_else(crashed)).map_err(raise)
}

/// As [`ask`], for an answer that becomes JSON.
pub(crate) fn json<T: Serialize + Send + 'static>(
    own: &Own,
    py: Python<'_>,
    work: impl FnOnce(&Client) -> Result<T> + Send + 'static,
) -> PyResult<String> {
    ask(own, py, |client| render(&work(client)?))
}

impl CloudClient {
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Client) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        ask(&self.0, py, work)
    }

    fn json<T: Serialize + Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Client) -> Result<T> + Send + 'static,
    ) -> PyResult<String> {
        json(&self.0, py, work)
    }
}

/// The pieces of a log, as they come.
#[pyclass(frozen, module = "paddle._native")]
pub(crate) struct CloudLogs {
    /// Where the thread is that fetches them.
    process: u32,
    pieces: Mutex<Receiver<Result<Option<LogPiece>>>>,
}

#[pymethods]
impl CloudLogs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if self.process != std::process::id() {
            let message = "these logs belong to the process that asked for them: ask again here";
            return Err(raise(Error::invalid(message)));
        }
        let piece = py.detach(|| {
            let receiver = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                match receive(&receiver)? {
                    // Only whether somebody listens was asked.
                    Some(None) => {}
                    Some(Some(piece)) => return render(&piece).map(Some),
                    None => return Ok(None),
                }
            }
        });
        piece.map_err(raise)
    }
}

fn submit(client: &Client, package: &str, spec: &str) -> Result<contract::api::job::Job> {
    let mut spec: JobSpec = serde_json::from_str(spec)
        .map_err(|source| Error::invalid("the job cannot be read").because(source))?;
    name::check_job_for_submit(&spec.name)?;
    let is_remote = package.starts_with("/pfs/");
    let files = match is_remote {
        true => None,
        false => Some(Package::scan(Path::new(package))?),
    };
    spec.user = client.username()?;
    spec.datacenter = client.datacenter_name()?;
    if is_remote {
        spec.package = client.pfs_path(package)?.to_string();
    }
    spec.check()?;
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let digest = files.map(|files| client.upload(&files, &progress)).transpose()?;
    client.submit(&spec, digest)
}

fn read_logs(
    client: &Client,
    job: &str,
    query: &LogQuery,
    sender: &SyncSender<Result<Option<LogPiece>>>,
) -> Result<()> {
    let send = |piece| {
        let gone = |_| Error::new(Kind::Interrupted, "nobody reads the log any more");
        sender.send(Ok(piece)).map_err(gone)
    };
    if !query.follow {
        return client.logs(job, query, |piece| send(Some(piece)));
    }
    let mut follow = client.follow(job, query)?;
    while let Some(seen) = follow.see()? {
        match seen {
            Seen::Piece(piece) => send(Some(piece))?,
            Seen::Lost(why) => notice(&format!("{why}; trying again")),
            Seen::Back => notice("the server is back"),
            Seen::Quiet => send(None)?,
        }
    }
    Ok(())
}

/// The next of a channel, `None` at its end; ended by a signal.
fn receive<T>(receiver: &Receiver<Result<T>>) -> Result<Option<T>> {
    let check = interrupt();
    loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(value) => return value.map(Some),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => check()?,
        }
    }
}

fn crashed() -> Error {
    Error::new(Kind::Io, "the call crashed")
}

fn render(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|source| Error::new(Kind::Io, "cannot render JSON").because(source))
}

/// What is worth knowing goes to Python's log.
fn notice(line: &str) {
    Python::attach(|py| {
        let logger = py.import("logging").and_then(|module| {
            module.getattr("getLogger").and_then(|get| get.call1(("paddle.cloud",)))
        });
        // A log that cannot be written is no reason to fail.
        let _ = logger.and_then(|logger| logger.call_method1("warning", ("%s", line)));
    });
}

struct Silent;

impl Progress for Silent {
    fn begin(&self, _: usize, _: u64) {}

    fn sent(&self, _: u64) {}
}
