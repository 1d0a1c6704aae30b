//! The backend of every place that is made of processes: this machine, ssh hosts, MPI, Slurm.
//!
//! A job is a directory below a root, named by its id, with everything that is known of it, and a
//! process that runs it, the conductor ([`conduct`]): one of its own, or that of a submitter with
//! which the job ends. The directory appears complete, by a rename,
//! so a job is either accepted or was never there. A lock that the kernel releases says whether the
//! conductor lives. A detached job whose conductor has died gets another one: from its guard, which
//! waits for nothing else, or, when that is gone too, from the next one who asks about the job.
//!
//! Callers are never kept waiting by a disk: whatever looks at one is [`blocking`]. A conductor is not
//! so careful with the files of its own job: others wait for it as little as it for them.

pub mod conduct;
pub mod directory;
pub mod guard;
pub mod segments;

pub(crate) mod check;
mod history;
mod shared;
mod site;

pub use site::{Paddle, Progress};

use crate::ReplicaId;
use crate::backend::{
    Accepted, Backend, Cursor, JobSummary, LOG_BYTES_MAX, LogPiece, METRICS_LINES_MAX, Metrics,
};
use crate::conductor::{Stop, now_ms};
use crate::plan::{self, JobPlan};
use crate::record::JobRecord;
use crate::ssh::package::Manifest;
use crate::ssh::transfer;
use crate::submission::{Package, RunAs, Submission, check_id};
use crate::supervisor::message::SILENCE_MAX;
use crate::supervisor::{guard as supervisor, leftover, lock};
use contract::state::State;
use contract::{Error, Kind, Result};
use directory::JobDirectory;
use futures_util::future::BoxFuture;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Jobs below one directory.
#[derive(Debug, Clone)]
pub struct Jobs {
    /// The directory. It and what is in it can be read by its owner alone.
    pub root: PathBuf,
    /// The program that conducts them.
    pub paddle: Paddle,
}

/// A job that ends with its submitter, which conducts it: when this is dropped, or this process
/// dies, the job ends.
#[derive(Debug)]
pub struct Leash {
    stops: mpsc::Sender<Stop>,
    news: watch::Receiver<()>,
    /// `None` once its end was heard of.
    conductor: Option<JoinHandle<Result<()>>>,
}

/// How long a conductor may take until it is at work.
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// Requests of a submitter that its own conductor has not taken yet.
const STOPS_MAX: usize = 4;
/// How long a conductor may be stopped before one who asks about the job replaces it. Its guard is
/// given the time to do so first.
const PATIENCE: Duration = SILENCE_MAX.saturating_add(Duration::from_secs(10));
/// Below the root: directories of jobs that were not accepted yet.
const PENDING_PREFIX: &str = ".new-";

impl Jobs {
    /// As [`Backend::submit`], for a job that ends with its submitter. Must be called on a runtime,
    /// which conducts the job.
    pub async fn submit_leashed(
        &self,
        submission: &Submission,
        package: Option<&Path>,
    ) -> Result<Leash> {
        let directory = self.clone().accept(submission.clone(), package.map(Path::to_owned), true);
        let (directory, accepted) = directory.await?;
        if accepted == Accepted::Known {
            return Err(conflict(&submission.id));
        }
        let (stops, requests) = mpsc::channel(STOPS_MAX);
        let (changed, news) = watch::channel(());
        let (lock, paddle) = (directory.acquire().await?, self.paddle.clone());
        let conductor = tokio::spawn(async move {
            conduct::conduct_with(lock, &directory, &paddle, requests, changed).await
        });
        Ok(Leash { stops, news, conductor: Some(conductor) })
    }

    fn directory(&self, id: &str) -> Result<JobDirectory> {
        check_id(id)?;
        let path = self.root.join(id);
        match path.is_dir() {
            true => Ok(JobDirectory::new(path)),
            false => Err(Error::new(Kind::NotFound, "there is no such job").with("id", id)),
        }
    }

    /// Works on the directory of a job, where it keeps nobody else waiting.
    async fn work_on<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&Jobs, &JobDirectory) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (jobs, id) = (self.clone(), id.to_owned());
        blocking(move || work(&jobs, &jobs.directory(&id)?)).await
    }

    /// Makes the job's directory, unless the job is refused or the same is there already.
    async fn accept(
        self,
        submission: Submission,
        package: Option<PathBuf>,
        is_leashed: bool,
    ) -> Result<(JobDirectory, Accepted)> {
        blocking(move || {
            check::check(&submission)?;
            let directory = JobDirectory::new(self.root.join(&submission.id));
            if directory.path().exists() {
                return known(&directory, &submission);
            }
            check::check_topology(&submission)?;
            let refused = |source| {
                let message = "cannot make the job's directory: set PADDLE_JOBS_DIR to a directory \
                               that can be written to";
                Error::io(message, source).with("directory", directory.path().display())
            };
            let make = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            make(&self.root).map_err(refused)?;
            let pending = tempfile::Builder::new()
                .prefix(PENDING_PREFIX)
                .tempdir_in(&self.root)
                .map_err(refused)?;
            let draft = JobDirectory::new(pending.path().to_owned());
            take_package(&submission, package.as_deref(), &draft)?;
            draft.write_submission(&submission, is_leashed)?;
            JobRecord::new(&submission, now_ms()).write(&draft.state(), false)?;
            match fs::rename(pending.path(), directory.path()) {
                Ok(()) => {
                    // It is the job's directory now, and not to be removed.
                    let _ = pending.keep();
                    if !is_leashed {
                        disk::sync_folder(&self.root)?;
                    }
                    Ok((directory, Accepted::New))
                }
                // Somebody else was faster: a directory cannot be renamed to one with content.
                Err(_) if directory.path().exists() => known(&directory, &submission),
                Err(source) => Err(refused(source)),
            }
        })
        .await
    }

    /// Starts the conductor of a detached job, which ends at once if there is one already.
    fn start_conductor(&self, directory: &JobDirectory) -> Result<tokio::process::Child> {
        let refused = |source| {
            Error::io("cannot start the job's conductor", source)
                .with("directory", directory.path().display())
        };
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.conductor_log())
            .map_err(refused)?;
        let mut command = tokio::process::Command::new(&self.paddle.program);
        command.arg("conduct").arg("--directory").arg(directory.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(refused)?).stderr(log);
        command.spawn().map_err(refused)
    }

    async fn await_conductor(
        &self,
        directory: &JobDirectory,
        mut child: tokio::process::Child,
    ) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            let status = child.try_wait().map_err(|source| Error::io("cannot wait", source))?;
            let failed = status.filter(|status| !status.success());
            let own = directory.clone();
            if blocking(move || has_begun(&own, failed)).await? {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::new(Kind::Timeout, "the job's conductor does not begin")
                    .with("seconds", START.as_secs())
                    .with("log", directory.conductor_log().display()));
            }
            tokio::time::sleep(LOOK).await;
        }
        // Taken note of when it ends, so that none is left as a zombie.
        tokio::spawn(async move {
            let _ = child.wait().await;
        });
        Ok(())
    }

    /// Gives a detached job that has lost its conductor another one. One that is stopped, and that
    /// its guard has not replaced, is killed: the next look finds the job without any.
    fn revive(&self, directory: &JobDirectory, record: &JobRecord) -> Result<()> {
        if record.state.is_final() || directory.is_leashed() {
            return Ok(());
        }
        if directory.is_conducted()? {
            return lock::kill_stopped_holder(&directory.conductor_lock(), PATIENCE);
        }
        let child = self.start_conductor(directory)?;
        tokio::spawn(async move { child.wait_with_output().await });
        Ok(())
    }

    /// The record, seen from outside: a job on a leash whose conductor is gone has ended.
    fn look(directory: &JobDirectory) -> Result<JobRecord> {
        if !directory.is_leashed() {
            return directory.record();
        }
        // In this order: a conductor that ends in between has written its last state before.
        let is_conducted = directory.is_conducted()?;
        let mut record = directory.record()?;
        let is_young = now_ms().saturating_sub(record.began_ms) < START.as_millis() as u64;
        let may_begin = record.conductors == 0 && is_young;
        if !record.state.is_final() && !is_conducted && !may_begin {
            let machine = directory.machine();
            if record.place == "local" && supervisor::has_died(&machine)? {
                leftover::kill_marked(&machine);
            }
            let reason = "gone: the process that ran the job died, and all replicas with it";
            let verdict = crate::record::Verdict::failed(reason.to_owned());
            let ended_ms = record.changed_ms;
            record.finish(verdict, ended_ms);
        }
        Ok(record)
    }
}

impl Leash {
    /// Waits until something has changed that was not heard of before: the record, or the output of
    /// a replica.
    ///
    /// # Errors
    /// Why the job is not conducted any more, if that is not its end.
    pub async fn changed(&mut self) -> Result<()> {
        if self.news.changed().await.is_ok() {
            return Ok(());
        }
        match self.conductor.take() {
            Some(conductor) => joined(conductor.await),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let exit_code = contract::exit::from_signal(HANG_UP);
        let reason = Some("gone: the process that held its leash has ended".to_owned());
        // Its conductor may have ended already.
        let _ = self.stops.try_send(Stop { exit_code, reason, is_forced: true });
    }
}

impl Backend for Jobs {
    fn check(&self, submission: &Submission) -> Result<()> {
        check::check(submission)
    }

    fn plan(&self, submission: &Submission) -> Result<JobPlan> {
        check::check(submission)?;
        check::check_topology(submission)?;
        plan::plan(submission, site::imagine(submission, &self.paddle)?)
    }

    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        package: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>> {
        Box::pin(async move {
            let package = package.map(Path::to_owned);
            let (directory, accepted) =
                self.clone().accept(submission.clone(), package, false).await?;
            let (jobs, own, id) = (self.clone(), directory.clone(), submission.id.clone());
            let conductor = blocking(move || {
                if own.is_leashed() {
                    return Err(conflict(&id));
                }
                let has_one = own.record()?.state.is_final() || own.is_conducted()?;
                (!has_one).then(|| jobs.start_conductor(&own)).transpose()
            });
            if let Some(child) = conductor.await? {
                self.await_conductor(&directory, child).await?;
            }
            Ok(accepted)
        })
    }

    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        Box::pin(async move {
            let (jobs, origin) = (self.clone(), origin.to_owned());
            blocking(move || {
                let (list, lost) = history::list(&jobs.root, &origin, since_ms)?;
                for directory in lost {
                    let revived = directory.record().and_then(|job| jobs.revive(&directory, &job));
                    // Others are listed all the same. One that was forgotten meanwhile is not there.
                    if let Err(error) = revived.or_else(not_there) {
                        tracing::warn!(error = error.chain(), "a job cannot be looked after");
                    }
                }
                Ok(list)
            })
            .await
        })
    }

    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>> {
        Box::pin(self.work_on(id, |jobs, directory| {
            let record = Jobs::look(directory)?;
            jobs.revive(directory, &record)?;
            Ok(record)
        }))
    }

    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>> {
        Box::pin(async move {
            let from = segments::parse_cursor(&cursor.0)?;
            self.work_on(id, move |_, directory| {
                let path = directory.log(replica);
                let mut piece = segments::read(&path, from, LOG_BYTES_MAX)?;
                let mut is_last = false;
                if piece.bytes.is_empty() {
                    // Whether more can come is asked before it is read once more: what is printed
                    // after this look is for the next call.
                    let record = Jobs::look(directory)?;
                    // One that a later round does without has printed all the same.
                    let is_unknown = record.replica(replica).is_none() && !path.exists();
                    if !record.replicas.is_empty() && is_unknown {
                        let message = "the job has no such replica";
                        return Err(Error::new(Kind::NotFound, message).with("replica", replica));
                    }
                    if record.state.is_final() {
                        piece = segments::read(&path, from, LOG_BYTES_MAX)?;
                        is_last = piece.bytes.is_empty();
                    }
                }
                Ok(LogPiece {
                    is_last,
                    next: Cursor(piece.next.to_string()),
                    skipped_bytes: piece.skipped_bytes,
                    bytes: piece.bytes,
                })
            })
            .await
        })
    }

    fn metrics<'a>(&'a self, id: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>> {
        Box::pin(async move {
            let from = segments::parse_cursor(&cursor.0)?;
            let work = move |_: &Jobs, directory: &JobDirectory| {
                history::metrics(directory, from, METRICS_LINES_MAX)
            };
            self.work_on(id, work).await
        })
    }

    fn scale<'a>(&'a self, id: &'a str, trainers: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.work_on(id, move |jobs, directory| {
            let record = Jobs::look(directory)?;
            record.check_scale(directory.submission()?.spec.fault_tolerance, trainers)?;
            directory.request_scale(trainers)?;
            jobs.revive(directory, &record)
        }))
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        let exit_code = contract::exit::from_signal(TERMINATE);
        let stop = Stop { exit_code, reason: Some("killed on request".to_owned()), is_forced };
        Box::pin(self.work_on(id, move |jobs, directory| {
            let mut record = directory.record()?;
            if !record.state.is_final() {
                directory.request_stop(&stop)?;
                // A conductor that is stopped hears nothing.
                lock::continue_holder(&directory.conductor_lock())?;
                if record.conductors == 0 {
                    end_unconducted(directory, stop)?;
                    record = directory.record()?;
                }
            }
            // A job that nobody conducts needs somebody to write down its end.
            jobs.revive(directory, &record)
        }))
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.work_on(id, |_, directory| {
            let record = Jobs::look(directory)?;
            if !record.state.is_final() {
                let message = "the job has not ended: kill it first";
                return Err(Error::new(Kind::Conflict, message).with("state", record.state));
            }
            history::remove(directory)
        }))
    }
}

/// Whether a conductor that was started is at work, or another one is.
fn has_begun(directory: &JobDirectory, failed: Option<ExitStatus>) -> Result<bool> {
    let record = directory.record()?;
    if record.conductors > 0 || record.state.is_final() {
        return Ok(true);
    }
    // Somebody else may have been faster, whose conductor is at work.
    if let Some(status) = failed
        && !directory.is_conducted()?
    {
        let log = fs::read_to_string(directory.conductor_log()).unwrap_or_default();
        let words = log.lines().next_back().unwrap_or_default().to_owned();
        return Err(Error::new(Kind::Unavailable, "the job's conductor ended at once")
            .with("status", status)
            .with("said", words));
    }
    Ok(false)
}

fn not_there(error: Error) -> Result<()> {
    if error.kind() == Kind::NotFound { Ok(()) } else { Err(error) }
}

/// SIGTERM and SIGHUP.
const TERMINATE: i32 = 15;
const HANG_UP: i32 = 1;

/// Writes down the end of a job that nobody has begun to run, and that perhaps nobody can. While
/// the lock is ours nobody begins.
fn end_unconducted(directory: &JobDirectory, stop: Stop) -> Result<()> {
    let Ok(_lock) = crate::supervisor::lock::Lock::acquire(&directory.conductor_lock()) else {
        return Ok(());
    };
    let mut record = directory.record()?;
    if record.conductors > 0 || record.state.is_final() {
        return Ok(());
    }
    record.finish(crate::record::Verdict::killed(stop), now_ms());
    record.write(&directory.state(), true)
}

/// The same job again, or another one under its id.
fn known(directory: &JobDirectory, submission: &Submission) -> Result<(JobDirectory, Accepted)> {
    match directory.submission()?.digest()? == submission.digest()? {
        true => Ok((directory.clone(), Accepted::Known)),
        false => Err(conflict(&submission.id)),
    }
}

fn conflict(id: &str) -> Error {
    Error::new(Kind::Conflict, "another job has this id: choose another").with("id", id)
}

/// Copies the files of a dispatched package into the job's directory, and checks them.
fn take_package(
    submission: &Submission,
    package: Option<&Path>,
    draft: &JobDirectory,
) -> Result<()> {
    let (manifest, source) = match (&submission.package, package) {
        (Package::Present(_), _) => return Ok(()),
        (Package::Dispatch(manifest), Some(source)) => (manifest, source),
        (Package::Dispatch(_), None) => {
            return Err(Error::invalid("a package that is dispatched must come with its files"));
        }
    };
    manifest.check()?;
    transfer::copy(source, &draft.package(), manifest)?;
    if Manifest::scan(&draft.package(), &[])? == *manifest {
        return match submission.run_as {
            Some(run_as) => give_to(&draft.package(), run_as),
            None => Ok(()),
        };
    }
    Err(Error::new(Kind::Conflict, "the package changed while it was submitted: try again")
        .with("package", source.display()))
}

/// Gives a directory, with everything in it, to a user.
fn give_to(path: &Path, run_as: RunAs) -> Result<()> {
    let refused = |source| {
        Error::io("cannot give the package to its user", source).with("file", path.display())
    };
    std::os::unix::fs::lchown(path, Some(run_as.uid), Some(run_as.gid)).map_err(refused)?;
    if path.symlink_metadata().map_err(refused)?.is_dir() {
        for entry in fs::read_dir(path).map_err(refused)? {
            give_to(&entry.map_err(refused)?.path(), run_as)?;
        }
    }
    Ok(())
}

/// Runs what waits for a disk where it keeps nobody else waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(tokio::task::spawn_blocking(work).await)
}

fn joined<T>(outcome: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    outcome.unwrap_or_else(|error| Err(Error::new(Kind::Io, "a task was lost").because(error)))
}
