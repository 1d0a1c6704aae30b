//! Jobs on this machine.
//!
//! `paddle launch` conducts a job itself, and the job ends with it. [`Local`] leaves a `paddle
//! conduct` behind, which conducts the job as the leader of a session of its own, writes
//! `state.json` and the logs in the job's directory, and holds the directory's lock while it
//! lives. Whoever has the directory has the job.

pub mod plan;
mod state;

use crate::conductor::decide::Decision;
use crate::conductor::record::JobRecord;
use crate::conductor::{self, Stop, Watch};
use crate::replica::ReplicaId;
use crate::supervisor::host::Host;
use crate::supervisor::lock::{self, Lock};
use crate::{Backend, Handle, LOG_BYTES_MAX, Observation, Submission};
use contract::state::State;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

/// The record of a job, in its directory.
pub const STATE: &str = "state.json";
/// The lock of the process that conducts it.
const LOCK: &str = "conductor.lock";
/// What that process says.
const LOG: &str = "conductor.log";
/// How long a supervisor on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Reaches a supervisor on this machine for the job's directory. With `may_isolate` it has a PID
/// namespace where that is permitted.
pub async fn open(paddle: &Path, directory: &Path, may_isolate: bool) -> Result<Host> {
    let mut command = Command::new(paddle);
    command.arg("supervise").arg("--directory").arg(directory);
    if may_isolate {
        command.arg("--namespace");
    }
    Host::open("localhost", command, PATIENCE).await
}

/// Runs jobs on this machine that outlive their submitter.
#[derive(Debug)]
pub struct Local {
    /// The program `paddle`.
    pub paddle: PathBuf,
}

impl Backend for Local {
    fn submit<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Result<Handle>> {
        Box::pin(self.leave_behind(submission))
    }

    fn observe<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Observation>> {
        Box::pin(async { observe(directory(handle)?) })
    }

    fn logs<'a>(
        &'a self,
        handle: &'a Handle,
        replica: ReplicaId,
        offset: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            logs(&JobRecord::read(&directory(handle)?.join(STATE))?, replica, offset)
        })
    }

    fn kill<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { lock::terminate_holder(&directory(handle)?.join(LOCK)).map(|_| ()) })
    }
}

fn directory(handle: &Handle) -> Result<&Path> {
    if handle.backend == "local" {
        return Ok(Path::new(&handle.id));
    }
    Err(Error::invalid("this job is not on the local backend").with("backend", &handle.backend))
}

impl Local {
    async fn leave_behind(&self, submission: &Submission) -> Result<Handle> {
        let directory = &submission.directory;
        let refused = |source| {
            Error::io("cannot start the job's process", source)
                .with("directory", directory.display())
        };
        if directory.join(STATE).exists() {
            return Err(Error::new(Kind::AlreadyExists, "this directory has had a job already")
                .with("directory", directory.display()));
        }
        std::fs::create_dir_all(directory).map_err(refused)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.join(LOG))
            .map_err(refused)?;
        let mut child = tokio::process::Command::new(&self.paddle)
            .arg("conduct")
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(refused)?)
            .stderr(log)
            .spawn()
            .map_err(refused)?;
        let json = serde_json::to_vec(submission)
            .map_err(|source| Error::invalid("cannot write a submission").because(source))?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(&json).await.map_err(refused)?;
        }
        // It is found by its directory from the moment it has written its state.
        while !directory.join(STATE).exists() {
            if let Some(status) = child.try_wait().map_err(refused)? {
                let log = std::fs::read_to_string(directory.join(LOG)).unwrap_or_default();
                let words = log.lines().next_back().unwrap_or_default().to_owned();
                return Err(Error::new(Kind::Unavailable, "the job's process ended at once")
                    .with("status", status)
                    .with("said", words));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Handle { backend: "local".to_owned(), id: directory.to_string_lossy().into_owned() })
    }
}

fn observe(directory: &Path) -> Result<Observation> {
    // In this order: whoever dies in between has written its last state before.
    let is_alive = lock::holder(&directory.join(LOCK))?.is_some();
    let record = match JobRecord::read(&directory.join(STATE)) {
        Ok(record) => Some(record),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error),
    };
    if record.is_none() && !directory.is_dir() {
        return Err(Error::new(Kind::NotFound, "there is no such job")
            .with("directory", directory.display()));
    }
    Ok(state::observation(is_alive, record))
}

/// What a replica has printed, from the file on this machine that its job's record names.
pub(crate) fn logs(record: &JobRecord, replica: ReplicaId, offset: u64) -> Result<Vec<u8>> {
    let path = match record.replica(replica) {
        Some(replica) => replica.log.clone(),
        None => {
            return Err(
                Error::new(Kind::NotFound, "the job has no such replica").with("replica", replica)
            );
        }
    };
    let refused =
        |source| Error::io("cannot read the replica's log", source).with("file", path.display());
    let mut file = match File::open(&path) {
        // It has not been started yet.
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(refused)?,
    };
    file.seek(SeekFrom::Start(offset)).map_err(refused)?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// The process that [`Local`] leaves behind: conducts a job to its end, however it ends.
///
/// # Errors
/// The job could not be begun.
pub async fn conduct(
    submission: &Submission,
    paddle: &Path,
    stops: mpsc::Receiver<Stop>,
) -> Result<JobRecord> {
    let _lock = Lock::acquire(&submission.directory.join(LOCK))?;
    let plan = plan::plan(submission, paddle)?;
    let host = open(paddle, &submission.directory, true).await?;
    let mut file = StateFile { path: submission.directory.join(STATE) };
    conductor::run(&plan, vec![host], stops, &mut file).await
}

/// Writes every change of a job to its directory.
#[derive(Debug)]
pub struct StateFile {
    /// The file.
    pub path: PathBuf,
}

impl Watch for StateFile {
    fn log(&mut self, _: ReplicaId, _: &str) {}

    fn decided(&mut self, decision: &Decision, reason: &str) {
        if !matches!(decision, Decision::Finish) {
            tracing::info!(reason, "decided");
        }
    }

    fn changed(&mut self, record: &JobRecord) {
        if record.state.is_final() {
            tracing::info!(state = %record.state, reason = record.reason, "ended");
        }
        if let Err(error) = record.write(&self.path) {
            tracing::error!(error = error.chain(), "those who look for the job see an old state");
        }
    }
}
