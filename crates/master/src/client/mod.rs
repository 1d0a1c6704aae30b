//! The master as a trainer sees it: tasks come, are finished or failed, and passes end.
//!
//! While a client has tasks it renews their leases in the background, so that a slow trainer keeps
//! them and a dead one loses them. A broken connection, or a master that is away, is waited for:
//! every request may be sent twice. All calls take `&self` and may overlap.
//!
//! [`Blocking`] is the same for callers that have no runtime of their own.

mod blocking;
mod config;
mod leases;
mod link;

pub use blocking::Blocking;
pub use config::ClientConfig;
pub use wire::blocking::Interrupt;
/// How to speak TLS, for [`ClientConfig::tls`].
pub use wire::tls;
pub use wire::{Retry, fresh_incarnation};

pub use crate::message::{Next, PassOver, Reopened, Status};

use crate::message::{Accepted, Get, Granted, IsSet, NAME_BYTES_MAX, Renewed, Request};
use crate::task::Lease;
use contract::port::Endpoint;
use contract::{Error, Kind, Result};
use leases::Leases;
use link::Link;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest that one request asks the master to wait; longer waits are several requests.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// As long as anybody will wait; longer times do not fit a clock.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// A trainer's connection to the master of its job. Needs a tokio runtime with time and I/O.
///
/// Dropping it says nothing to the master: its tasks come free when their leases run out, or at
/// once with [`Client::leave`].
pub struct Client {
    link: Arc<Link>,
    leases: Arc<Leases>,
    pass: Mutex<Option<u64>>,
    /// One asks for a task at a time, so that the master can tell which of its answers were lost.
    turn: tokio::sync::Mutex<()>,
    heartbeat: tokio::task::AbortHandle,
}

impl Client {
    /// Connects to the master at `address`, whose port is [`crate::PORT`] unless it names one.
    ///
    /// A master that cannot be reached is tried again within [`ClientConfig::retry`], here and in
    /// all calls; then it is `Unavailable`. `Unauthenticated` without the right token.
    pub async fn connect(config: ClientConfig, address: &Endpoint) -> Result<Client> {
        config.check()?;
        let link = Arc::new(Link::new(config, address)?);
        link.join().await?;
        let leases = Arc::new(Leases::default());
        let heartbeat = tokio::spawn(keep(Arc::clone(&link), Arc::clone(&leases)));
        Ok(Client {
            link,
            leases,
            pass: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            heartbeat: heartbeat.abort_handle(),
        })
    }

    /// The next task of the client's pass, waiting for one at most for `timeout`.
    ///
    /// [`Next::Wait`] when the time is over: others have the pass's last tasks, and if they fail
    /// this client gets them; or no dataset is set. [`Next::PassOver`] once when the pass has ended;
    /// the next call asks for a task of the pass it names. After [`Client::reopen`] by any trainer
    /// a task may belong to an earlier pass ([`crate::task::Task::pass`] tells); the client's pass
    /// ends when the master is past it again.
    pub async fn next_task(&self, timeout: Duration) -> Result<Next> {
        let _turn = self.turn.lock().await;
        let until = Instant::now() + timeout.min(FOR_EVER);
        loop {
            let wait = until.saturating_duration_since(Instant::now()).min(WAIT_MAX);
            let get = Get {
                pass: *self.current_pass(),
                leases: self.leases.all(),
                wait_ms: wait.as_millis() as u64,
                name: self.link.config().name.clone(),
            };
            let next = self.link.ask(&Request::Get(get), wait).await?;
            match &next {
                Next::Task(task) => {
                    let mut pass = self.current_pass();
                    *pass = Some(pass.map_or(task.pass, |pass| pass.max(task.pass)));
                    drop(pass);
                    self.leases.add(task.lease(), Duration::from_millis(task.lease_ms));
                }
                Next::PassOver(over) => *self.current_pass() = Some(over.pass),
                Next::AllOver => {}
                Next::Wait if Instant::now() < until => continue,
                Next::Wait => {}
            }
            return Ok(next);
        }
    }

    /// Says that the records of a task are consumed. False: it is no longer this client's, was
    /// given to another and will be finished there.
    ///
    /// `cut` is the first parameter checkpoint that will contain the task's gradients: the newest
    /// one that was announced, plus one; `None` in a job without checkpoints.
    pub async fn finish(&self, lease: Lease, cut: Option<u64>) -> Result<bool> {
        self.end(lease, &Request::Finish { lease, cut }).await
    }

    /// Says that a task cannot be worked on, and why: it is tried elsewhere and, after too many
    /// failures, set aside. False: it is no longer this client's.
    pub async fn fail(&self, lease: Lease, reason: &str) -> Result<bool> {
        self.end(lease, &Request::Fail { lease, reason: Some(reason.to_owned()) }).await
    }

    /// Gives a task back for others, or for later, without blame. False: it is no longer this
    /// client's.
    pub async fn give_back(&self, lease: Lease) -> Result<bool> {
        self.end(lease, &Request::Fail { lease, reason: None }).await
    }

    /// Whether a task is still this client's, as far as it has heard: leases are renewed in the
    /// background, three times before they would run out. Does not wait.
    pub fn has(&self, lease: Lease) -> bool {
        self.leases.has(lease)
    }

    /// Enters a pass: one that the master has behind it is over at once, and tasks of earlier ones,
    /// which were opened again, belong to it. Does not wait.
    pub fn begin_pass(&self, pass: u64) {
        *self.current_pass() = Some(pass);
    }

    /// The pass that the client is in; `None` before its first task. Does not wait.
    pub fn pass(&self) -> Option<u64> {
        *self.current_pass()
    }

    /// Says which files the data is in: paths and globs, as the master sees them. The first such
    /// call counts, the same once more is fine, another one is `Conflict`. [`Kind::Timeout`] if the
    /// master has not looked at all files within [`ClientConfig::dataset_deadline`].
    pub async fn set_dataset(&self, patterns: &[String]) -> Result<()> {
        let wait_ms = WAIT_MAX.as_millis() as u64;
        let request = Request::SetDataset { patterns: patterns.to_vec(), wait_ms };
        let deadline = self.link.config().dataset_deadline;
        let until = Instant::now() + deadline.min(FOR_EVER);
        loop {
            let IsSet { is_set } = self.link.ask(&request, WAIT_MAX).await?;
            if is_set {
                return Ok(());
            }
            if Instant::now() >= until {
                let message = "the master has not looked at all files of the dataset in time: \
                               their file system does not answer, or there are very many";
                return Err(Error::new(Kind::Timeout, message)
                    .with("dataset", patterns.join(" "))
                    .with("dataset_deadline_s", deadline.as_secs()));
            }
        }
    }

    /// Asks to be the one trainer that saves the model, for so long. The first who asks is; it may
    /// ask again.
    pub async fn request_save_model(&self, trainer: &str, duration: Duration) -> Result<bool> {
        if trainer.len() > NAME_BYTES_MAX {
            return Err(Error::invalid("trainer id is too long")
                .with("bytes", trainer.len())
                .with("bytes_max", NAME_BYTES_MAX));
        }
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let request = Request::RequestSave { trainer: trainer.to_owned(), duration_ms };
        let Granted { is_granted } = self.link.ask(&request, Duration::ZERO).await?;
        Ok(is_granted)
    }

    /// Reports that parameter servers went back to checkpoint `cut`: what was finished later is
    /// open again, and all tasks that trainers have are taken from them, this client's included.
    ///
    /// `restore` tells this restore from others, for example a restarted server's incarnation:
    /// trainers report the same one, and it counts once.
    pub async fn reopen(&self, cut: u64, restore: u64) -> Result<Reopened> {
        let reopened = self.link.ask(&Request::Reopen { cut, restore }, Duration::ZERO).await?;
        renew(&self.link, &self.leases).await?;
        Ok(reopened)
    }

    /// What the master knows of itself.
    pub async fn status(&self) -> Result<Status> {
        self.link.ask(&Request::Status {}, Duration::ZERO).await
    }

    /// Gives all tasks back. A master that is away is not waited for: it takes them when their
    /// leases run out.
    pub async fn leave(&self) -> Result<()> {
        self.leases.clear();
        self.link.ask_once(&Request::Leave {}).await
    }

    /// The lease stays known until the master has answered, so that a request for a task in
    /// between does not make the master think it was lost.
    async fn end(&self, lease: Lease, request: &Request) -> Result<bool> {
        self.leases.begin_end(lease);
        let outcome = self.link.ask(request, Duration::ZERO).await;
        self.leases.remove(&[lease]);
        let Accepted { is_accepted } = outcome?;
        Ok(is_accepted)
    }

    fn current_pass(&self) -> MutexGuard<'_, Option<u64>> {
        // Nothing panics while it is locked.
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

/// Renews leases for as long as there are any.
async fn keep(link: Arc<Link>, leases: Arc<Leases>) {
    loop {
        let interval = leases.interval().await;
        tokio::time::sleep(interval).await;
        if let Err(error) = renew(&link, &leases).await {
            // The next call meets the same, and tells.
            tracing::debug!(error = %error.chain(), "leases are not renewed");
        }
    }
}

async fn renew(link: &Link, leases: &Leases) -> Result<()> {
    let all = leases.all();
    if all.is_empty() {
        return Ok(());
    }
    let Renewed { lost } = link.ask(&Request::Renew { leases: all }, Duration::ZERO).await?;
    for lease in leases.remove_lost(&lost) {
        tracing::warn!(task = lease.task, epoch = lease.epoch, "task is no longer ours");
    }
    Ok(())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("master", &self.link.address()).finish_non_exhaustive()
    }
}
