//! The allocation of a job: asked for once, found again by whoever conducts the job next, watched,
//! and given back.
//!
//! What is asked for carries a random mark, which is on disk before. So a conductor that dies
//! between `sbatch` and its answer leaves neither a job that nobody knows nor a second one: the next
//! conductor looks for the mark first, and so does whoever asks again because `sbatch` gave no
//! answer; what Slurm carries out later than it is looked for is cancelled when it is seen. That Slurm
//! does not answer says nothing of an allocation.

use super::Job;
use super::command::{Slurm, is_too_long};
use super::plan::{self, Batch, NO_CONDUCTOR, NO_PADDLE};
use super::state::{End, Phase, Told};
use crate::conductor::{Stop, now_ms};
use crate::jobs::Progress;
use crate::meeting::{self, CONDUCTOR, KEY};
use crate::record::Verdict;
use crate::submission::{SlurmPlace, Submission};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use disk::Access;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// How a job asks for its allocation, and keeps it.
pub(super) struct Desk<'a> {
    place: &'a SlurmPlace,
    submission: &'a Submission,
    pub(super) slurm: Slurm<'a>,
    /// In the job's directory.
    folder: PathBuf,
}

/// By what the nodes of an allocation and the conductor know each other.
#[derive(Serialize, Deserialize)]
pub(super) struct Ticket {
    /// In the allocation's comment.
    mark: String,
    key: String,
    port: u16,
    /// Whether nothing was asked for with it yet.
    #[serde(skip)]
    is_fresh: bool,
}

/// An allocation that was asked for.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Allocation {
    /// Its number in Slurm.
    pub(super) id: u64,
    /// When it was asked for, in milliseconds since 1970.
    asked_ms: u64,
    /// Whether it was asked for more than once, because an answer was lost.
    #[serde(default)]
    is_repeated: bool,
}

const TICKET: &str = "ticket.json";
const ALLOCATION: &str = "allocation.json";
/// Between two questions to Slurm, the first and the longest. Nodes report by themselves.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// When it is looked for an allocation whose `sbatch` gave no answer, before it is asked for again.
const ARRIVALS: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2)];
/// SIGTERM.
const TERMINATE: i32 = 15;

impl<'a> Desk<'a> {
    pub(super) fn new(place: &'a SlurmPlace, submission: &'a Submission, job: &Path) -> Self {
        let slurm = Slurm { environment: &place.environment };
        Desk { place, submission, slurm, folder: job.join("slurm") }
    }

    /// Listens where the nodes look for the conductor: where the last one did, if there was one. If
    /// somebody else is there by now, its allocation is given back.
    pub(super) async fn listen(&self) -> Result<(TcpListener, Ticket)> {
        let refused = |source: std::io::Error, port: u16| {
            let message = "the conductor cannot listen for the nodes: choose another --slurm_port";
            Error::io(message, source).with("port", port)
        };
        if let Some(ticket) = self.read::<Ticket>(TICKET)? {
            if let Ok(listener) = bind(ticket.port).await {
                return Ok((listener, ticket));
            }
            self.release().await?;
        }
        let port = self.place.port;
        let listener = bind(port).await.map_err(|source| refused(source, port))?;
        let port = listener.local_addr().map_err(|source| refused(source, port))?.port();
        let mark = format!("{:016x}", wire::fresh_incarnation());
        let ticket =
            Ticket { mark, key: meeting::fresh_key()?.expose().to_owned(), port, is_fresh: true };
        std::fs::create_dir_all(&self.folder).map_err(|source| {
            Error::io("cannot make a directory", source).with("path", self.folder.display())
        })?;
        self.write(TICKET, &ticket)?;
        Ok((listener, ticket))
    }

    /// The allocation: the one there is, or else a new one.
    pub(super) async fn allocate(&self, ticket: &Ticket, job: &Job<'_>) -> Result<Allocation> {
        let known = match ticket.is_fresh {
            true => None,
            false => self.patiently(job, || self.known(ticket)).await?,
        };
        if let Some(known) = known {
            let told = self.patiently(job, || self.slurm.told(known.id)).await?;
            let Phase::Ended(end) = told.phase else { return Ok(known) };
            let is_final = matches!(end, End::Cancelled | End::TimedOut);
            if is_final || !job.is_again || !job.may_allocate {
                return Err(self.ended(&known, end, &told, job.progress));
            }
            // Its nodes were lost, or waited in vain for a conductor: the job may go on on others.
            tracing::info!(slurm_job = known.id, state = told.state, "asking for other nodes");
            self.remove(ALLOCATION)?;
        }
        if !job.may_allocate {
            return Err(Error::new(Kind::NotFound, "the job has no nodes any more"));
        }
        let attempts = AtomicU32::new(0);
        let ask = || async {
            if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                return self.submit(ticket, job).await;
            }
            // What gave no answer may be there by now.
            if let Some(known) = self.known(ticket).await? {
                return Ok(known.id);
            }
            let id = self.submit(ticket, job).await?;
            // And may have come while it was asked for again.
            self.cancel_others(ticket, id).await?;
            Ok(id)
        };
        let id = self.patiently(job, ask).await?;
        let is_repeated = attempts.into_inner() > 1;
        let allocation = Allocation { id, asked_ms: now_ms(), is_repeated };
        self.write(ALLOCATION, &allocation)?;
        Ok(allocation)
    }

    /// Tries again while the controller does not answer, for as long as servers may take.
    async fn patiently<T, F: Future<Output = Result<T>>>(
        &self,
        job: &Job<'_>,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let patience = Duration::from_secs(self.submission.spec.ready_seconds);
        let (deadline, mut pause) = (Instant::now() + patience, PAUSE);
        loop {
            match attempt().await {
                Err(error) if error.kind() == Kind::Unavailable && Instant::now() < deadline => {
                    wait(job.progress, error.to_string());
                }
                outcome => return outcome,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The allocation that was asked for before; also where nobody heard the answer.
    async fn known(&self, ticket: &Ticket) -> Result<Option<Allocation>> {
        if let Some(known) = self.read(ALLOCATION)? {
            return Ok(Some(known));
        }
        let marked = self.marked(ticket).await?;
        let Some(id) = marked.first().copied() else { return Ok(None) };
        let allocation = Allocation { id, asked_ms: now_ms(), is_repeated: marked.len() > 1 };
        self.write(ALLOCATION, &allocation)?;
        Ok(Some(allocation))
    }

    /// The allocations of this ticket that have not ended. There may be two if an answer of `sbatch`
    /// was lost, and Slurm had not heard of it when it was asked.
    async fn marked(&self, ticket: &Ticket) -> Result<Vec<u64>> {
        let mark = format!("mark={}", ticket.mark);
        let found = self.slurm.named(&self.submission.id).await?;
        let is_ours = |comment: &str| comment.split_whitespace().any(|word| word == mark);
        let alive = |told: &Told| !matches!(told.phase, Phase::Ended(_));
        let found = found.into_iter().filter(|(_, told, comment)| alive(told) && is_ours(comment));
        Ok(found.map(|(id, ..)| id).collect())
    }

    /// Cancels the allocations of this ticket but one.
    async fn cancel_others(&self, ticket: &Ticket, own: u64) -> Result<()> {
        for id in self.marked(ticket).await?.into_iter().filter(|id| *id != own) {
            tracing::info!(slurm_job = id, "cancelling a second allocation");
            self.slurm.cancel(id).await.map_err(|error| error.with("slurm_job", id))?;
        }
        Ok(())
    }

    /// Asks for an allocation, with time for `--grace` if that is allowed.
    async fn submit(&self, ticket: &Ticket, job: &Job<'_>) -> Result<u64> {
        match self.submit_with(ticket, job, true).await {
            Err(error) if is_too_long(&error) => self.submit_with(ticket, job, false).await,
            outcome => outcome,
        }
    }

    async fn submit_with(
        &self,
        ticket: &Ticket,
        job: &Job<'_>,
        asks_for_grace: bool,
    ) -> Result<u64> {
        let script = plan::script(&Batch {
            place: self.place,
            submission: self.submission,
            mark: &ticket.mark,
            paddle: job.paddle_there(),
            is_leashed: job.is_leashed,
            asks_for_grace,
        })?;
        let variables =
            [(KEY, ticket.key.clone()), (CONDUCTOR, meeting::addresses(ticket.port)?.join(","))];
        match self.slurm.submit(&script, &self.place.sbatch_arguments, &variables).await {
            // It may have arrived, and only the answer was lost.
            Err(error) if error.kind() == Kind::Unavailable => {
                for pause in ARRIVALS {
                    tokio::time::sleep(pause).await;
                    if let Ok(Some(known)) = self.known(ticket).await {
                        return Ok(known.id);
                    }
                }
                Err(error)
            }
            outcome => outcome,
        }
    }

    /// Watches the allocation until it is of no use, and says why. `begun` hears of its nodes.
    pub(super) async fn watch(
        &self,
        allocation: &Allocation,
        begun: oneshot::Sender<()>,
        job: &Job<'_>,
    ) -> Error {
        let (mut begun, mut pause) = (Some(begun), PAUSE);
        let mut minutes = plan::minutes(&self.submission.spec);
        loop {
            match self.slurm.told(allocation.id).await {
                Ok(told) => match told.phase {
                    Phase::Waiting if !job.may_allocate => {
                        return Error::new(Kind::NotFound, "the job has no nodes any more");
                    }
                    Phase::Waiting => {
                        if told.is_too_long()
                            && let Some(least) = minutes.map(|minutes| minutes.least)
                        {
                            // The grace is too much for its partition or QOS. `--time-min` would
                            // say so at once, but then Slurm often gives no more than that. If it is
                            // not the grace the job goes on to say why it waits.
                            if self.slurm.limit(allocation.id, least).await.is_ok() {
                                minutes = None;
                            }
                        }
                        wait(job.progress, told.waiting(allocation.id));
                    }
                    Phase::Running => {
                        let granted_ms = now_ms().saturating_sub(told.ran_seconds * 1000);
                        job.progress.send_modify(|progress| {
                            progress.waiting.clear();
                            progress.granted_ms = Some(granted_ms);
                        });
                        if let Some(begun) = begun.take() {
                            // Nobody listens who has heard it already.
                            let _ = begun.send(());
                        }
                    }
                    Phase::Ending => {}
                    Phase::Ended(end) => return self.ended(allocation, end, &told, job.progress),
                },
                Err(error) if error.kind() == Kind::Unavailable => {
                    wait(job.progress, format!("{error}; job {} keeps its place", allocation.id));
                }
                Err(error) => return error,
            }
            let waited_ms = now_ms().saturating_sub(allocation.asked_ms);
            if let Some(seconds) = self.place.queue_seconds_max
                && begun.is_some()
                && waited_ms >= seconds.saturating_mul(1000)
            {
                let message =
                    "Slurm gave the job no nodes in time: allow more with --queue_timeout";
                return Error::new(Kind::Timeout, message)
                    .with("seconds", seconds)
                    .with("slurm_job", allocation.id);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(PAUSE_MAX);
        }
    }

    /// Why an allocation that has ended is of no use.
    fn ended(
        &self,
        allocation: &Allocation,
        end: End,
        told: &Told,
        progress: &watch::Sender<Progress>,
    ) -> Error {
        let id = allocation.id;
        if let Some(verdict) = self.verdict(id, end) {
            let reason = verdict.reason.clone();
            progress.send_modify(|progress| progress.fate = Some(verdict));
            return Error::new(Kind::Conflict, reason);
        }
        let (kind, message) = match told.exit_code {
            _ if told.is_mute => (
                Kind::Unsupported,
                "the workspace is not there on the nodes, or cannot be written to: use a directory \
                 of a file system that all nodes share, or send the program with \
                 --job_dispatch_package",
            ),
            Some(NO_PADDLE) => (
                Kind::NotFound,
                "paddle is not on the nodes: install it there, or name it with --remote_paddle",
            ),
            Some(code) if code == i32::from(NO_CONDUCTOR) => (
                Kind::Unavailable,
                "the nodes do not reach this machine: open the port to them, or choose one with \
                 --slurm_port",
            ),
            _ => (Kind::Unavailable, "the job's allocation ended before its nodes were reached"),
        };
        let code = told.exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
        Error::new(kind, message)
            .with("slurm_job", id)
            .with("state", &told.state)
            .with("exit_code", code)
            .with("log", plan::output_of(self.submission, id))
    }

    /// What becomes of a job whose allocation ended like this, where that is for nobody to repair.
    pub(super) fn verdict(&self, id: u64, end: End) -> Option<Verdict> {
        let reason = match end {
            End::Cancelled => {
                let reason = Some(format!("job {id} was cancelled in Slurm"));
                let exit_code = contract::exit::from_signal(TERMINATE);
                return Some(Verdict::killed(Stop { exit_code, reason, is_forced: false }));
            }
            End::TimedOut => match self.submission.spec.time_limit_seconds {
                Some(seconds) => {
                    format!(
                        "ended after its time limit of {seconds} s (time_limit_seconds), by Slurm"
                    )
                }
                None => {
                    "Slurm ended it after the time limit of its partition: give one of its own \
                         with --time_limit"
                        .to_owned()
                }
            },
            _ => return None,
        };
        Some(Verdict::failed(format!("{reason} (job {id})")))
    }

    /// Gives the allocation back, whether it has nodes or waits for some. Nothing of it is known
    /// afterwards.
    ///
    /// # Errors
    /// Slurm does not answer. The allocation ends by itself then, when its nodes find no conductor.
    pub(super) async fn release(&self) -> Result<()> {
        let Some(ticket) = self.read::<Ticket>(TICKET)? else { return Ok(()) };
        let known = self.read::<Allocation>(ALLOCATION)?.map(|known| known.id);
        let marked = self.marked(&ticket).await?;
        for id in known.into_iter().filter(|id| !marked.contains(id)).chain(marked.iter().copied())
        {
            self.slurm.cancel(id).await.map_err(|error| error.with("slurm_job", id))?;
        }
        self.forget()
    }

    /// The same for an allocation that has ended by itself: a second one, of which nobody heard, may
    /// wait in the queue. If it cannot be cancelled it ends when its nodes find no conductor.
    pub(super) async fn end(&self) -> Result<()> {
        let ticket = self.read::<Ticket>(TICKET)?;
        let known = self.read::<Allocation>(ALLOCATION)?.filter(|known| known.is_repeated);
        if let (Some(ticket), Some(known)) = (ticket, known)
            && let Err(error) = self.cancel_others(&ticket, known.id).await
        {
            tracing::warn!(error = error.chain(), "cannot look for a second allocation");
        }
        self.forget()
    }

    /// The allocation is over, and what was known of it is of no use.
    fn forget(&self) -> Result<()> {
        self.remove(ALLOCATION)?;
        self.remove(TICKET)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot remove a file", source).with("file", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(value)
            .map_err(|source| Error::invalid("cannot render JSON").because(source))?;
        disk::publish(&self.folder.join(name), Access::Private, &json)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.folder.join(name);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(Error::io("cannot read a file", source).with("file", path.display()));
            }
        };
        serde_json::from_slice(&text).map(Some).map_err(|_| {
            Error::new(Kind::Damaged, "what is known of the allocation cannot be read")
                .with("file", path.display())
        })
    }
}

impl Ticket {
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    pub(super) fn key(&self) -> Secret {
        Secret::new(self.key.clone())
    }
}

async fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
}

fn wait(progress: &watch::Sender<Progress>, why: String) {
    progress.send_if_modified(|progress| {
        let is_new = progress.waiting != why;
        progress.waiting = why;
        is_new
    });
}
