//! The directory of one job: the names of its files, and how they are written and read.
//!
//! Only the conductor and those who ask about the job use it. Programs of the job write elsewhere;
//! whatever may lie here under a known name, reading it blocks nobody.

use crate::conductor::Stop;
use crate::record::JobRecord;
use crate::supervisor::files;
use crate::supervisor::lock::{self, Lock};
use crate::{ReplicaId, Submission};
use contract::{Error, Kind, Result};
use disk::Access;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The directory of one job.
#[derive(Debug, Clone)]
pub struct JobDirectory(PathBuf);

impl JobDirectory {
    /// The directory at this path.
    pub fn new(path: PathBuf) -> Self {
        JobDirectory(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The lock of the conductor.
    pub fn conductor_lock(&self) -> PathBuf {
        self.0.join("conductor.lock")
    }

    /// What the conductor says.
    pub fn conductor_log(&self) -> PathBuf {
        self.0.join("conductor.log")
    }

    /// The files of a package that is dispatched.
    pub fn package(&self) -> PathBuf {
        self.0.join("package")
    }

    /// The place of a supervisor on this machine, and of the master.
    pub fn machine(&self) -> PathBuf {
        self.0.join("machine")
    }

    /// What all replicas have printed.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// What a replica has printed.
    pub fn log(&self, replica: ReplicaId) -> PathBuf {
        self.logs().join(replica.to_string())
    }

    /// The figures of all replicas.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics")
    }

    /// Becomes the job's conductor, until the lock is dropped. Those who only ask whether there is
    /// one are in the way for a moment.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if there is one.
    pub(super) async fn acquire(&self) -> Result<Lock> {
        Lock::acquire_within(&self.conductor_lock(), ASKED).await
    }

    /// Whether a conductor is at work.
    pub fn is_conducted(&self) -> Result<bool> {
        lock::is_held(&self.conductor_lock())
    }

    /// Whether the job ends with its submitter.
    pub fn is_leashed(&self) -> bool {
        self.0.join(LEASH).exists()
    }

    /// Writes the submission, which holds secrets. That of a job that ends with its submitter need
    /// not survive a power failure, and waits for no disk.
    pub fn write_submission(&self, submission: &Submission, is_leashed: bool) -> Result<()> {
        let path = self.0.join(SUBMISSION);
        if !is_leashed {
            return write_json(&path, submission);
        }
        let refused =
            |source| Error::io("cannot write a file", source).with("file", path.display());
        let mut options = fs::OpenOptions::new();
        let file = options.create_new(true).write(true).mode(0o600).open(&path).map_err(refused)?;
        serde_json::to_writer(BufWriter::new(file), submission)
            .map_err(|source| refused(source.into()))?;
        fs::write(self.0.join(LEASH), "").map_err(refused)
    }

    /// Reads the submission.
    pub fn submission(&self) -> Result<Submission> {
        read_json(&self.0.join(SUBMISSION), "submission")
    }

    /// The file of the record.
    pub fn state(&self) -> PathBuf {
        self.0.join(STATE)
    }

    /// Reads the record. One that a power failure has taken, or half of it, is begun anew: the
    /// submission and the end are on disk for good.
    pub fn record(&self) -> Result<JobRecord> {
        match JobRecord::read(&self.state()) {
            Err(error) if error.kind() == Kind::Damaged => {
                let submission = self.submission().map_err(|_| error)?;
                Ok(JobRecord::new(&submission, self.submitted_ms()))
            }
            record => record,
        }
    }

    /// Notes for good that replicas may have been started.
    pub(super) fn note_begun(&self) -> Result<()> {
        match self.has_begun() {
            true => Ok(()),
            false => disk::publish(&self.0.join(BEGUN), Access::Private, b""),
        }
    }

    /// Whether replicas may have been started, also before a power failure that took the record.
    /// Kept only of detached jobs that are not to be started again.
    pub(super) fn has_begun(&self) -> bool {
        self.0.join(BEGUN).exists()
    }

    fn submitted_ms(&self) -> u64 {
        let written = fs::metadata(self.0.join(SUBMISSION)).and_then(|file| file.modified());
        let since = written.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Asks to end the job. A request stays until the job has ended; one that kills replaces one
    /// that asks.
    pub fn request_stop(&self, request: &Stop) -> Result<()> {
        let known = self.stop_request()?;
        if known.is_some_and(|known| known.is_forced || !request.is_forced) {
            return Ok(());
        }
        write_json(&self.0.join(STOP), request)
    }

    /// The request to end the job, if there is one.
    pub fn stop_request(&self) -> Result<Option<Stop>> {
        read_if_there(&self.0.join(STOP), "request to end the job")
    }

    /// Asks for a number of trainers. The newest request counts, also if it asks for the same
    /// number again.
    pub fn request_scale(&self, trainers: u32) -> Result<()> {
        let earlier = self.scale_request()?.map_or(0, |request| request.number);
        let request = ScaleRequest { trainers, number: earlier.saturating_add(1) };
        write_json(&self.0.join(SCALE), &request)
    }

    /// The newest request for a number of trainers, if there is one.
    pub fn scale_request(&self) -> Result<Option<ScaleRequest>> {
        read_if_there(&self.0.join(SCALE), "number of trainers")
    }
}

/// A request for a number of trainers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleRequest {
    /// How many are wanted.
    pub trainers: u32,
    /// Counts the requests of a job.
    pub number: u64,
}

/// How long the lock of the conductor may be in the hands of those who ask about it.
const ASKED: Duration = Duration::from_millis(200);
const SUBMISSION: &str = "submission.json";
const STATE: &str = "state.json";
const STOP: &str = "stop.json";
const SCALE: &str = "scale.json";
const LEASH: &str = "leashed";
const BEGUN: &str = "begun";

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec_pretty(value)
        .map_err(|source| Error::invalid("cannot render JSON").because(source))?;
    disk::publish(path, Access::Private, &json)
}

fn read_if_there<T: DeserializeOwned>(path: &Path, what: &str) -> Result<Option<T>> {
    match read_json(path, what) {
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = match files::read(path) {
        Ok(text) => text,
        Err(source) if source.kind() == ErrorKind::NotFound => {
            return Err(Error::new(Kind::NotFound, format!("there is no {what}"))
                .with("file", path.display()));
        }
        Err(source) => {
            return Err(Error::io("cannot read a file", source).with("file", path.display()));
        }
    };
    serde_json::from_slice(&text).map_err(|source| {
        // serde's own text may quote a secret.
        Error::new(Kind::Damaged, format!("this is not a {what} of this release"))
            .with("file", path.display())
            .with("line", source.line())
    })
}
