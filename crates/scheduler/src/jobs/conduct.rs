//! The conductor process of a job: reaches its machines, runs it round by round, delivers what it
//! produced, and writes down how it ended.
//!
//! Everything it needs is in the job's directory, so a conductor that is killed can be replaced by
//! another one, which goes on. What the old one ran is gone by then: supervisors end with the pipe
//! to their conductor, and a new supervisor waits for the old one's lock. So the job begins another
//! round, as it does after the loss of a machine. A job that may not be restarted is not begun twice
//! either: it has failed then. An end that was decided stays decided.

use super::directory::{JobDirectory, ScaleRequest};
use super::segments::{LOG_LIMITS, METRICS_LIMITS, Segments};
use super::shared;
use super::site::{Opening, Paddle, Progress, Site};
use crate::backend::MetricsLine;
use crate::conductor::{self, Outcome, Request, Stop, Watch, decide, now_ms};
use crate::plan::{self, JobPlan};
use crate::record::{JobRecord, ReplicaRecord, Verdict};
use crate::slurm::Doubt;
use crate::ssh::package::hexadecimal;
use crate::submission::{Package, Place};
use crate::supervisor::host::{Host, Hosts};
use crate::supervisor::lock::{self, Lock};
use crate::supervisor::message::BEAT;
use crate::supervisor::{guard, leftover};
use crate::{ReplicaId, Submission, mpi, slurm, ssh};
use contract::state::{JobState, ReplicaState, State};
use contract::{Error, Kind, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How often a request to end the job is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How often a job that may be started again tries to reach its machines the first time.
const ATTEMPTS_MAX: u32 = 3;
/// Between two attempts to reach machines again, or to write down how the job ended.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a full disk may keep the end of a job from being written down.
const FULL_DISK: Duration = Duration::from_secs(60);

/// Conducts the job of a directory to its end. `stops` are requests from this process itself, such
/// as signals.
///
/// # Errors
/// Another conductor is at work ([`Kind::Conflict`]), or the directory cannot be used. The failure
/// of the job is not an error but its record.
pub async fn conduct(path: &Path, paddle: &Paddle, stops: mpsc::Receiver<Stop>) -> Result<()> {
    let directory = JobDirectory::new(path.to_owned());
    let lock = directory.acquire().await?;
    conduct_with(lock, &directory, paddle, stops, watch::channel(()).0).await
}

/// Conducts the job for a caller that holds the conductor's lock. `news` is told whenever something
/// was written down.
pub(super) async fn conduct_with(
    _lock: Lock,
    directory: &JobDirectory,
    paddle: &Paddle,
    stops: mpsc::Receiver<Stop>,
    news: watch::Sender<()>,
) -> Result<()> {
    let submission = directory.submission()?;
    let claim = claim(&submission, directory.path());
    let mut record = directory.record()?;
    if record.state.is_final() {
        return Ok(());
    }
    record.conductors += 1;
    let settled = settled(&mut record, &submission, directory);
    if record.conductors > 1 {
        // It was about what the last one did.
        record.reason.clear();
        let what = match (&settled, submission.spec.checkpoint.dir.is_empty()) {
            (Some(_), _) => "the job ends",
            (None, true) => "all replicas start again from the beginning",
            (None, false) => "all replicas start again from the newest checkpoint",
        };
        record.notes.push(format!("conductor {} took over; {what}", record.conductors));
    }
    let mut files = Files::new(directory, news);
    // A job whose end could not be written down later is not begun.
    files.write(&mut record)?;
    show_life(directory.conductor_lock());
    let mut requests = with_requests(stops, directory.clone());
    let mut job =
        Job { submission: &submission, paddle, directory, site: None, has_given_back: false };
    let outcome = match (&claim, settled) {
        (Ok(_), None) => job.run(&mut record, &mut requests, &mut files).await,
        (Ok(_), Some(verdict)) => Ok(job.find_gone(verdict, &mut record, &mut requests).await),
        (Err(error), _) => Ok(Verdict::failed(error.chain())),
    };
    let verdict = match outcome {
        Ok(verdict) => verdict,
        Err(error) => Verdict::failed(error.chain()),
    };
    // Where another job has the log directory nothing may be brought there.
    if claim.is_ok() {
        job.find_results(&mut record, &mut requests).await;
    }
    let verdict = job.deliver(verdict, &mut record, &mut files, &mut requests).await;
    if let Place::Local(_) = &submission.place
        && guard::has_died(&directory.machine())?
    {
        leftover::end_marked(&directory.machine()).await;
    }
    mpi::forget_ranks(directory.path());
    job.give_back(&mut record).await;
    record.finish(verdict, now_ms());
    files.write_down(&mut record).await
}

/// How a job ends that nobody may run any more: another conductor had decided its end, or has begun
/// it, and it is to run once.
fn settled(
    record: &mut JobRecord,
    submission: &Submission,
    directory: &JobDirectory,
) -> Option<Verdict> {
    if let Some(ending) = record.ending.take() {
        return Some(ending.verdict);
    }
    let is_over = submission.spec.restarts_max() == 0 && directory.has_begun();
    is_over.then(|| match directory.stop_request() {
        Ok(Some(stop)) => Verdict::killed(stop),
        _ => Verdict::failed(
            "the process that conducted the job died, and all replicas with it; restarts is 0, so \
             they are not started again: submit the job again, with --restarts to let it go on by \
             itself"
                .to_owned(),
        ),
    })
}

/// Shows the guard, as long as this process runs, that it does not hang.
fn show_life(lock: std::path::PathBuf) {
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(BEAT);
        loop {
            beat.tick().await;
            lock::beat(&lock);
        }
    });
}

/// Two jobs of this machine cannot write the same logs, or bring them to the same place. Who has a
/// log directory is told by a lock beside the jobs' directories, where no program writes.
fn claim(submission: &Submission, path: &Path) -> Result<Option<Lock>> {
    let base = match (&submission.place, &submission.package) {
        (Place::Ssh(place), _) => &place.results,
        (Place::Slurm(place), Package::Dispatch(_)) => &place.results,
        (Place::Local(_) | Place::Mpi(_) | Place::Slurm(_), Package::Present(workspace)) => {
            Path::new(workspace)
        }
        _ => return Ok(None),
    };
    let log_dir = real(&base.join(&submission.spec.log_dir));
    let refused = |source| {
        Error::io("cannot claim the log directory", source).with("log_dir", log_dir.display())
    };
    let root = path.parent().unwrap_or(path).join(".claims");
    std::fs::create_dir_all(&root).map_err(refused)?;
    let name = hexadecimal(Sha256::new_with_prefix(log_dir.as_os_str().as_encoded_bytes()));
    Lock::acquire(&root.join(name)).map(Some).map_err(|error| match error.kind() {
        Kind::Conflict => {
            let message = "another job is writing to this log directory: wait for its end, or \
                           choose another with --log_dir";
            Error::new(Kind::Conflict, message).with("log_dir", log_dir.display())
        }
        _ => error,
    })
}

/// The same path however it is written, whether it is there already or not.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    let Some((known, mut real)) = found else { return path.to_owned() };
    // By components, since `a/./b/` is `a/b`.
    real.extend(path.strip_prefix(known).unwrap_or(Path::new("")).components());
    real
}

/// Joins requests of this process with those that lie in the job's directory.
fn with_requests(
    mut own: mpsc::Receiver<Stop>,
    directory: JobDirectory,
) -> mpsc::Receiver<Request> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let (mut seen, mut scaled): (Option<Stop>, Option<ScaleRequest>) = (None, None);
        let mut is_open = true;
        loop {
            tokio::select! {
                stop = own.recv(), if is_open => match stop {
                    None => is_open = false,
                    Some(stop) => {
                        if sender.send(Request::Stop(stop)).await.is_err() {
                            return;
                        }
                    }
                },
                () = tokio::time::sleep(LOOK) => {
                    let found = directory.stop_request().ok().flatten();
                    if let Some(stop) = found.filter(|stop| seen.as_ref() != Some(stop)) {
                        seen = Some(stop.clone());
                        if sender.send(Request::Stop(stop)).await.is_err() {
                            return;
                        }
                    }
                    let found = directory.scale_request().ok().flatten();
                    if let Some(request) = found.filter(|_| found != scaled) {
                        scaled = found;
                        if sender.send(Request::Scale(request.trainers)).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    });
    receiver
}

/// What a job has been through.
#[derive(Clone, Copy)]
struct Past {
    began_ms: u64,
    /// Whether it had machines, or another conductor that may have had some.
    is_again: bool,
    /// Whether replicas may have been started.
    has_run: bool,
}

impl Past {
    fn of(record: &JobRecord) -> Past {
        let has_started =
            |replica: &ReplicaRecord| replica.started_ms.is_some() || replica.attempt > 0;
        Past {
            began_ms: record.began_ms,
            is_again: record.rounds > 0 || record.conductors > 1,
            has_run: record.rounds > 0 || record.replicas.iter().any(has_started),
        }
    }
}

struct Job<'a> {
    submission: &'a Submission,
    paddle: &'a Paddle,
    directory: &'a JobDirectory,
    /// The machines, once they have been reached.
    site: Option<Site>,
    /// Whether machines that were given to the job are given back.
    has_given_back: bool,
}

impl Job<'_> {
    async fn run(
        &mut self,
        record: &mut JobRecord,
        requests: &mut mpsc::Receiver<Request>,
        files: &mut Files,
    ) -> Result<Verdict> {
        loop {
            let past = Past::of(record);
            let (progress, mut waited) = watch::channel(Progress::default());
            let too_late = self.time_limit(record);
            tokio::pin!(too_late);
            let opened = {
                let opening = self.open(past, true, &progress);
                tokio::pin!(opening);
                loop {
                    tokio::select! {
                        opened = &mut opening => break opened,
                        Ok(()) = waited.changed() => {
                            record.reason.clone_from(&waited.borrow_and_update().waiting);
                            files.changed(record);
                        }
                        Some(request) = requests.recv() => match request {
                            Request::Stop(stop) => return Ok(Verdict::killed(stop)),
                            Request::Scale(trainers) => record.trainers = trainers,
                        },
                        verdict = &mut too_late => return Ok(verdict),
                    }
                }
            };
            let Progress { granted_ms, fate, .. } = waited.borrow_and_update().clone();
            record.granted_ms = record.granted_ms.or(granted_ms);
            let (plan, hosts) = match (opened, fate) {
                (Err(_), Some(verdict)) => return Ok(verdict),
                (opened, _) => opened?,
            };
            if self.submission.spec.restarts_max() == 0 && !self.directory.is_leashed() {
                self.directory.note_begun()?;
            }
            let outcome = conductor::run(&plan, hosts, record, requests, files).await?;
            let is_failure =
                !matches!(&outcome, Outcome::Over(verdict) if verdict.state != JobState::Failed);
            if is_failure && let Some(verdict) = self.fate(record, outcome == Outcome::Again).await
            {
                return Ok(verdict);
            }
            match outcome {
                Outcome::Over(verdict) => return Ok(verdict),
                Outcome::Again => {
                    if let Some(site) = self.site.take() {
                        site.close().await;
                    }
                }
            }
        }
    }

    /// How the job ends when its time is over before its machines are reached. While it waits for
    /// those of Slurm its time has not begun.
    fn time_limit(&self, record: &JobRecord) -> impl Future<Output = Verdict> + use<> {
        let limit_ms =
            self.submission.spec.time_limit_seconds.map(|limit| limit.saturating_mul(1000));
        let limit_ms = limit_ms.filter(|_| !matches!(self.submission.place, Place::Slurm(_)));
        let began_ms = record.began_ms;
        async move {
            let Some(limit_ms) = limit_ms else { return std::future::pending().await };
            let left_ms = began_ms.saturating_add(limit_ms).saturating_sub(now_ms());
            tokio::time::sleep(Duration::from_millis(left_ms)).await;
            decide::out_of_time(limit_ms)
        }
    }

    /// What whoever gave the machines did to them, if that is why replicas were lost or failed.
    async fn fate(&mut self, record: &JobRecord, may_repeat: bool) -> Option<Verdict> {
        let is_lost = record.replicas.iter().any(|one| one.state == ReplicaState::Lost);
        let doubt = Doubt { is_lost, may_repeat };
        self.site.as_mut()?.fate(self.submission, self.directory, doubt).await
    }

    /// Reaches the machines once more, which waits for the end of what another conductor ran, so
    /// that its results can be brought.
    async fn find_gone(
        &mut self,
        verdict: Verdict,
        record: &mut JobRecord,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Verdict {
        let progress = watch::channel(Progress::default()).0;
        let past = Past { is_again: true, has_run: true, ..Past::of(record) };
        let opened = tokio::select! {
            opened = self.open(past, false, &progress) => opened,
            () = forced(requests) => Err(hurried()),
        };
        match opened {
            Ok((_, hosts)) => {
                Hosts::new(hosts).close().await;
                verdict
            }
            Err(error) if self.has_results_elsewhere() => undelivered(verdict, &error, record),
            // All results are where they should be.
            Err(error) => {
                record.notes.push(error.chain());
                verdict
            }
        }
    }

    /// Reaches the machines. After a failure they get time to come back: whatever took one of them
    /// may have been a restart. A job that may be started again also bears that one of them is lost
    /// while it is reached.
    async fn open(
        &mut self,
        past: Past,
        may_allocate: bool,
        progress: &watch::Sender<Progress>,
    ) -> Result<(JobPlan, Vec<Host>)> {
        let (submission, directory, paddle) = (self.submission, self.directory, self.paddle);
        let Past { began_ms, is_again, has_run } = past;
        let mut opening = Opening {
            submission,
            directory,
            paddle,
            began_ms,
            is_again,
            is_retry: false,
            has_run,
            may_allocate,
            progress,
        };
        let spec = &self.submission.spec;
        let deadline = Instant::now() + Duration::from_secs(spec.ready_seconds);
        let mut attempts_left = spec.restarts_max().min(ATTEMPTS_MAX);
        loop {
            let error = match Site::open(&opening).await {
                Ok((site, nodes, mut hosts)) => {
                    let plan = plan::plan(self.submission, nodes)?;
                    let shared = shared::check(&plan, &spec.checkpoint.dir, &mut hosts).await;
                    match shared {
                        Ok(()) => {
                            self.site = Some(site);
                            return Ok((plan, hosts));
                        }
                        Err(error) => {
                            drop(hosts);
                            site.close().await;
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            let may_wait = is_again && Instant::now() + PAUSE < deadline;
            if error.kind() != Kind::Unavailable || (!may_wait && attempts_left == 0) {
                return Err(error);
            }
            attempts_left = attempts_left.saturating_sub(1);
            opening.is_retry = true;
            tracing::warn!(error = error.chain(), "cannot reach the machines yet");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reaches those machines again that still have results, where a round ended because others did
    /// not come back. What is not brought is said.
    async fn find_results(
        &mut self,
        record: &mut JobRecord,
        requests: &mut mpsc::Receiver<Request>,
    ) {
        let has_begun = record.replicas.iter().any(|replica| replica.started_ms.is_some());
        if self.site.is_some() || !has_begun || !self.has_results_elsewhere() {
            return;
        }
        let Place::Ssh(place) = &self.submission.place else {
            record
                .note("the results stay on the nodes: they could not be reached again".to_owned());
            return;
        };
        let (submission, package) = (self.submission, self.directory.package());
        let job = ssh::Job { place, submission, package, began_ms: record.began_ms };
        let found = tokio::select! {
            found = ssh::Site::open_reachable(&job, self.paddle) => found,
            () = forced(requests) => Err(hurried()),
        };
        let failed = match found {
            Ok((site, failed)) => {
                self.site = Some(Site::Ssh(site));
                failed
            }
            Err(error) => vec![error],
        };
        for error in failed {
            let directory = job.directory();
            record.note(format!("results stay in {directory} of a host: {}", error.chain()));
        }
    }

    /// Brings results to where they were asked for, before anybody is told that the job is over. A
    /// job that succeeded fails if its results cannot be brought.
    async fn deliver(
        &mut self,
        verdict: Verdict,
        record: &mut JobRecord,
        files: &mut Files,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Verdict {
        let Some(mut site) = self.site.take() else { return verdict };
        let delivered = tokio::select! {
            delivered = site.deliver(self.submission) => delivered,
            () = forced(requests) => Err(hurried()),
        };
        self.has_given_back = site.end().await;
        match delivered {
            Ok(notes) => {
                record.notes.extend(notes);
                verdict
            }
            Err(error) => {
                let verdict = undelivered(verdict, &error, record);
                files.changed(record);
                verdict
            }
        }
    }
}

impl Job<'_> {
    /// Whether results lie where only the machines of the job lead to.
    fn has_results_elsewhere(&self) -> bool {
        match (&self.submission.place, &self.submission.package) {
            (Place::Ssh(_), _) | (Place::Slurm(_), Package::Dispatch(_)) => true,
            (_, Package::Present(_) | Package::Dispatch(_)) => false,
        }
    }

    /// Gives back machines that the job still has, or waits for.
    async fn give_back(&mut self, record: &mut JobRecord) {
        let Place::Slurm(place) = &self.submission.place else { return };
        let directory = self.directory.path();
        if let Err(error) =
            slurm::release(place, self.submission, directory, self.has_given_back).await
        {
            let what = "its nodes could not be given back; they are when they find no conductor";
            record.notes.push(format!("{what}: {}", error.chain()));
        }
    }
}

/// Waits until somebody asks to end the job by force.
async fn forced(requests: &mut mpsc::Receiver<Request>) {
    loop {
        match requests.recv().await {
            Some(Request::Stop(stop)) if stop.is_forced => return,
            Some(_) => {}
            None => return std::future::pending().await,
        }
    }
}

fn hurried() -> Error {
    Error::new(Kind::Unavailable, "the results were not waited for, since the job was killed")
}

fn undelivered(verdict: Verdict, error: &Error, record: &mut JobRecord) -> Verdict {
    if verdict.state == JobState::Succeeded {
        let reason = format!("the results could not be brought here: {}", error.chain());
        return Verdict::failed(reason);
    }
    // A job that failed, often with its machine, is the more important news.
    record.notes.push(error.chain());
    verdict
}

/// What is kept of a job in its directory.
struct Files {
    directory: JobDirectory,
    logs: BTreeMap<ReplicaId, Segments>,
    /// Bytes that a replica printed and that could not be written, as on a full disk.
    lost: BTreeMap<ReplicaId, u64>,
    metrics: Option<Segments>,
    /// Whether the job ends with its submitter, so that nothing need survive a power failure.
    is_leashed: bool,
    /// Whether keeping failed once, which was said.
    has_failed: bool,
    news: watch::Sender<()>,
}

impl Files {
    fn new(directory: &JobDirectory, news: watch::Sender<()>) -> Self {
        Files {
            directory: directory.clone(),
            logs: BTreeMap::new(),
            lost: BTreeMap::new(),
            metrics: None,
            is_leashed: directory.is_leashed(),
            has_failed: false,
            news,
        }
    }

    /// Adds to a log. Where bytes before these could not be written, it says so first.
    fn append_log(&mut self, replica: ReplicaId, bytes: &[u8]) -> Result<()> {
        let lost = self.lost.get(&replica).copied().unwrap_or(0);
        if lost > 0 {
            let gap = format!("\n[{lost} bytes could not be written here: was the disk full?]\n");
            if let Err(error) = self.append_raw(replica, gap.as_bytes()).1 {
                *self.lost.entry(replica).or_default() += bytes.len() as u64;
                return Err(error);
            }
            self.lost.remove(&replica);
        }
        let (written, outcome) = self.append_raw(replica, bytes);
        let missing = (bytes.len() as u64).saturating_sub(written);
        if missing > 0 {
            *self.lost.entry(replica).or_default() += missing;
        }
        outcome
    }

    /// Adds to a log; how many bytes were written.
    fn append_raw(&mut self, replica: ReplicaId, bytes: &[u8]) -> (u64, Result<()>) {
        let log = match self.logs.entry(replica) {
            std::collections::btree_map::Entry::Occupied(log) => log.into_mut(),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                match Segments::open(&self.directory.log(replica), LOG_LIMITS) {
                    Ok(log) => vacant.insert(log),
                    Err(error) => return (0, Err(error)),
                }
            }
        };
        let before = log.end();
        let outcome = log.append(bytes);
        (log.end() - before, outcome)
    }

    /// Says at the end of each log what is missing there; where there is still no room, in the
    /// record.
    fn tell_lost(&mut self, record: &mut JobRecord) {
        let replicas: Vec<ReplicaId> = self.lost.keys().copied().collect();
        for replica in replicas {
            if self.append_log(replica, b"").is_err() {
                let bytes = self.lost.remove(&replica).unwrap_or(0);
                record.notes.push(format!("{bytes} bytes of the log of {replica} were lost"));
            }
        }
    }

    fn append_metrics(&mut self, replica: ReplicaId, lines: &[serde_json::Value]) -> Result<()> {
        let metrics = match &mut self.metrics {
            Some(metrics) => metrics,
            None => self.metrics.insert(Segments::open(&self.directory.metrics(), METRICS_LIMITS)?),
        };
        for figures in lines {
            let line = MetricsLine { replica, figures: figures.clone() };
            let mut json = serde_json::to_vec(&line)
                .map_err(|source| Error::invalid("cannot render figures").because(source))?;
            json.push(b'\n');
            metrics.append(&json)?;
        }
        Ok(())
    }

    fn write(&mut self, record: &mut JobRecord) -> Result<()> {
        record.revision += 1;
        record.changed_ms = now_ms();
        record.write(&self.directory.state(), !self.is_leashed)?;
        self.news.send_replace(());
        Ok(())
    }

    /// Writes down how the job ended, which everybody waits for. On a full disk that is worth more
    /// than what it printed, which its own logs have too.
    async fn write_down(&mut self, record: &mut JobRecord) -> Result<()> {
        let deadline = Instant::now() + FULL_DISK;
        self.tell_lost(record);
        loop {
            let error = match self.write(record) {
                Err(error) if Instant::now() < deadline => error,
                outcome => return outcome,
            };
            let is_full = error.kind() == Kind::LimitExceeded;
            self.note(Err(error));
            if !is_full {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            if self.logs.len() + self.lost.len() > 0 {
                let note = "the disk was full: what its replicas printed was removed to make room";
                record.notes.push(note.to_owned());
                self.lost.clear();
            }
            // Files that are still open would keep their room.
            self.logs.clear();
            self.metrics = None;
            for kept in [self.directory.logs(), self.directory.metrics()] {
                // There may be none.
                let _ = disk::remove_tree(&kept);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The job goes on when its directory cannot be written, and it is said once.
    fn note(&mut self, kept: Result<()>) {
        if let Err(error) = kept
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::error!(error = error.chain(), "what the job tells cannot be kept");
        }
    }
}

impl Watch for Files {
    fn log(&mut self, replica: ReplicaId, bytes: &[u8]) {
        let kept = self.append_log(replica, bytes);
        self.note(kept);
        self.news.send_replace(());
    }

    fn metrics(&mut self, replica: ReplicaId, lines: &[serde_json::Value]) {
        let kept = self.append_metrics(replica, lines);
        self.note(kept);
    }

    fn decided(&mut self, reason: &str) {
        // A submitter that conducts its job shows it already.
        if !reason.is_empty() && !self.is_leashed {
            tracing::info!(reason, "decided");
        }
    }

    fn changed(&mut self, record: &mut JobRecord) {
        let kept = self.write(record);
        self.note(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::{SshPlace, sample};

    #[test]
    fn one_log_directory_has_one_job_wherever_the_jobs_run() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink(&workspace, folder.path().join("link")).unwrap();
        let claimed = |directory: &Path, log_dir: &str, is_ssh: bool| {
            let mut submission = sample(contract::job::JobSpec::default());
            submission.spec.log_dir = log_dir.to_owned();
            submission.package = Package::Present(directory.to_str().unwrap().to_owned());
            if is_ssh {
                submission.place = Place::Ssh(SshPlace {
                    hosts: Vec::new(),
                    root_dir: String::new(),
                    nic: String::new(),
                    ld_library_path: String::new(),
                    paddle: String::new(),
                    ssh_config: None,
                    shard_train_list: false,
                    may_ask: false,
                    results: directory.to_owned(),
                });
            }
            claim(&submission, &folder.path().join("jobs/one")).map_err(|error| error.kind())
        };
        let first = claimed(&workspace, "log", false).unwrap();
        let link = folder.path().join("link");
        for (directory, log_dir) in [(&workspace, "./log"), (&link, "log"), (&link, "./log/")] {
            for is_ssh in [false, true] {
                assert_eq!(claimed(directory, log_dir, is_ssh).err(), Some(Kind::Conflict));
            }
        }
        // The job makes it.
        std::fs::create_dir(workspace.join("log")).unwrap();
        assert_eq!(claimed(&workspace, "log/", false).err(), Some(Kind::Conflict));
        assert!(claimed(&workspace, "other/log", true).is_ok());
        drop(first);
        assert!(claimed(&link, "log", true).is_ok());
    }
}
