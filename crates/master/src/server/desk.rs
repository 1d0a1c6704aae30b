//! Where requests are decided: the queue, the journal, and those who wait.
//!
//! [`Desk::handle`] decides and keeps the answers back; [`Desk::conclude`] looks what the decisions
//! mean for those who wait, makes everything durable, and lets the answers go.

use crate::dataset::{Dataset, Split, check_patterns};
use crate::journal::Journal;
use crate::message::{
    Accepted, Get, Granted, IsSet, KIND, LEASES_MAX, NAME_BYTES_MAX, Next, Renewed, Reopened,
    Request, decode, encode,
};
use crate::metrics::Metrics;
use crate::queue::{Change, Queue, Stalled};
use contract::{Error, Kind, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use wire::{Body, Header};

/// The longest that a request is kept waiting, whatever it asks for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often it is said what trainers wait for, and how long they have then waited at least.
const WORD_EVERY: Duration = Duration::from_secs(30);
/// How much of a dataset's patterns an error shows.
const SHOWN_CHARS: usize = 200;

pub(super) enum Event {
    Request {
        ticket: Ticket,
        /// The peer's incarnation.
        owner: u64,
        body: Body,
    },
    /// The files of a dataset have been looked at.
    Built { patterns: Vec<String>, outcome: Result<Dataset> },
}

/// Where an answer goes.
pub(super) struct Ticket {
    pub(super) header: Header,
    pub(super) replies: mpsc::UnboundedSender<Reply>,
    /// Held until the answer is written: it bounds what one peer can ask at a time.
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) struct Reply {
    pub(super) header: Header,
    pub(super) outcome: Result<Vec<u8>>,
    _permit: OwnedSemaphorePermit,
}

/// A request that cannot be answered yet.
struct Parked {
    ticket: Ticket,
    until: Instant,
    wish: Wish,
}

enum Wish {
    Task { owner: u64, get: Get },
    Dataset { patterns: Vec<String> },
}

pub(super) struct Desk {
    queue: Queue,
    journal: Option<Journal>,
    split: Split,
    /// In the order they came.
    parked: Vec<Parked>,
    /// Answers that wait for the journal.
    answers: Vec<(Ticket, Result<Vec<u8>>)>,
    /// What the dataset may become, and since when its files are being looked at.
    building: Option<(Instant, Vec<String>)>,
    /// When it was said last what trainers wait for.
    last_word: Option<Instant>,
    events: mpsc::Sender<Event>,
    metrics: Metrics,
    /// Those who have asked for tasks, by their incarnations.
    trainers: BTreeSet<u64>,
}

impl Desk {
    pub(super) fn new(
        queue: Queue,
        journal: Option<Journal>,
        split: Split,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (parked, answers, building, last_word, trainers) = Default::default();
        let metrics = Metrics::new();
        metrics.position(&queue);
        Desk {
            queue,
            journal,
            split,
            parked,
            answers,
            building,
            last_word,
            events,
            metrics,
            trainers,
        }
    }

    /// How many trainers have asked for tasks.
    pub(super) fn trainers(&self) -> u32 {
        u32::try_from(self.trainers.len()).unwrap_or(u32::MAX)
    }

    /// When something is to be done though nobody asks.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let parked = self.parked.iter().map(|parked| parked.until);
        parked.chain(self.queue.next_deadline()).min()
    }

    pub(super) fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Built { patterns, outcome } => self.take_dataset(now, &patterns, outcome),
            Event::Request { ticket, owner, body } => {
                let request =
                    match ticket.header.kind {
                        KIND => decode::<Request>(&body),
                        kind => Err(Error::new(Kind::Unsupported, "unknown kind of request")
                            .with("kind", kind)),
                    };
                match request {
                    Ok(request) => self.decide(now, ticket, owner, request),
                    Err(error) => self.answers.push((ticket, Err(error))),
                }
            }
        }
    }

    /// Serves those who wait, makes what was decided durable, and answers.
    pub(super) fn conclude(&mut self, now: Instant) -> Result<()> {
        let pass = self.queue.pass();
        for (task, trainer) in self.queue.expire(now) {
            tracing::warn!(task, trainer, "trainer was not heard of; another gets its task");
        }
        self.attend_all(now);
        if self.look_after_waits(now) {
            self.attend_all(now);
        }
        let changes = self.queue.take_changes();
        self.report(&changes, pass);
        if let Some(journal) = &mut self.journal
            && !changes.is_empty()
        {
            journal.append(&changes)?;
            if journal.is_long() {
                journal.compact(self.queue.facts())?;
            }
        }
        for (Ticket { header, replies, permit }, outcome) in self.answers.drain(..) {
            // Whoever asked may be gone.
            let _ = replies.send(Reply { header, outcome, _permit: permit });
        }
        Ok(())
    }

    fn attend_all(&mut self, now: Instant) {
        for parked in std::mem::take(&mut self.parked) {
            // A peer that went must not get a task.
            if !parked.ticket.replies.is_closed() {
                self.attend(now, parked);
            }
        }
    }

    /// Says what trainers wait for, and takes away what they have waited for too long. Whether there
    /// is something for them now.
    fn look_after_waits(&mut self, now: Instant) -> bool {
        if self.parked.is_empty() {
            return false;
        }
        let is_due = self.last_word.is_none_or(|last| now.duration_since(last) >= WORD_EVERY);
        if let Some((since, patterns)) = &self.building {
            let time = now.duration_since(*since);
            if is_due && time >= WORD_EVERY {
                self.last_word = Some(now);
                let (dataset, seconds) = (shown(patterns), time.as_secs());
                tracing::warn!(dataset, seconds, "trainers wait: its files are being looked at");
            }
            return false;
        }
        let is_waiting = |parked: &Parked| matches!(parked.wish, Wish::Task { .. });
        if !self.parked.iter().any(is_waiting) {
            return false;
        }
        let taken = self.queue.take_stalled(now);
        for Stalled { task, trainer, time } in &taken {
            let seconds = time.as_secs();
            tracing::warn!(task, trainer, seconds, "had a task for too long; another gets it");
        }
        if is_due {
            for Stalled { task, trainer, time } in self.queue.stalled(now, WORD_EVERY) {
                self.last_word = Some(now);
                let seconds = time.as_secs();
                tracing::warn!(task, trainer, seconds, "others wait for a task of this trainer");
            }
        }
        !taken.is_empty()
    }

    fn decide(&mut self, now: Instant, ticket: Ticket, owner: u64, request: Request) {
        let outcome = match request {
            Request::Get(get) => match check_get(&get) {
                Ok(()) => {
                    let until = now + Duration::from_millis(get.wait_ms).min(WAIT_MAX);
                    self.trainers.insert(owner);
                    let wish = Wish::Task { owner, get };
                    return self.attend(now, Parked { ticket, until, wish });
                }
                Err(error) => Err(error),
            },
            Request::SetDataset { patterns, wait_ms } => match check_patterns(&patterns) {
                Ok(()) => {
                    let until = now + Duration::from_millis(wait_ms).min(WAIT_MAX);
                    let wish = Wish::Dataset { patterns };
                    return self.attend(now, Parked { ticket, until, wish });
                }
                Err(error) => Err(error),
            },
            Request::Finish { lease, cut } => {
                let is_accepted = self.queue.finish(now, owner, lease, cut);
                self.metrics.stale(usize::from(!is_accepted));
                encode(&Accepted { is_accepted })
            }
            Request::Fail { lease, reason } => {
                let is_accepted = self.queue.fail(now, owner, lease, reason.as_deref());
                if let Some(reason) = reason.filter(|_| is_accepted) {
                    tracing::warn!(task = lease.task, reason, "a trainer has failed at a task");
                }
                self.metrics.stale(usize::from(!is_accepted));
                encode(&Accepted { is_accepted })
            }
            Request::Renew { leases } => {
                let lost = self.queue.renew(now, owner, &leases);
                self.metrics.stale(lost.len());
                encode(&Renewed { lost })
            }
            Request::RequestSave { trainer, duration_ms } => {
                let granted = check_name(&trainer)
                    .and_then(|()| self.queue.request_save(now, unix_ms(), &trainer, duration_ms));
                granted.and_then(|is_granted| encode(&Granted { is_granted }))
            }
            Request::Reopen { cut, restore } => {
                let reopened = self.queue.reopen(now, cut, restore);
                reopened.and_then(|reopened| {
                    if let Reopened { reopened: tasks @ 1.., .. } = reopened {
                        tracing::warn!(
                            cut,
                            restore,
                            tasks,
                            "parameters went back; later tasks are open again"
                        );
                    }
                    encode(&reopened)
                })
            }
            Request::Leave {} => {
                self.queue.leave(now, owner);
                encode(&serde_json::Map::new())
            }
            Request::Status {} => encode(&self.queue.status()),
        };
        self.answers.push((ticket, outcome));
    }

    /// Answers a request that may have to wait, or parks it.
    fn attend(&mut self, now: Instant, parked: Parked) {
        let answer = match &parked.wish {
            Wish::Task { owner, get } => match self.queue.get(now, *owner, get) {
                Next::Wait => waited(now >= parked.until, &Next::Wait),
                next => Some(encode(&next)),
            },
            Wish::Dataset { patterns } => match self.set_dataset(now, patterns) {
                Ok(false) => waited(now >= parked.until, &IsSet { is_set: false }),
                Ok(true) => Some(encode(&IsSet { is_set: true })),
                Err(error) => Some(Err(error)),
            },
        };
        match answer {
            Some(answer) => self.answers.push((parked.ticket, answer)),
            None => self.parked.push(parked),
        }
    }

    /// Whether the dataset is this one. If there is none yet, looks at its files, unless another's
    /// are being looked at: then that is awaited.
    fn set_dataset(&mut self, now: Instant, patterns: &[String]) -> Result<bool> {
        if let Some(dataset) = self.queue.dataset() {
            if dataset.patterns() == patterns {
                return Ok(true);
            }
            return Err(Error::new(Kind::Conflict, "another dataset is set already")
                .with("dataset", shown(dataset.patterns()))
                .with("asked_for", shown(patterns)));
        }
        if self.building.is_none() {
            self.building = Some((now, patterns.to_vec()));
            let (patterns, split, events) = (patterns.to_vec(), self.split, self.events.clone());
            tokio::task::spawn_blocking(move || {
                let outcome = Dataset::build(&patterns, &split);
                // A server that has ended needs no dataset.
                let _ = events.blocking_send(Event::Built { patterns, outcome });
            });
        }
        Ok(false)
    }

    fn take_dataset(&mut self, now: Instant, patterns: &[String], outcome: Result<Dataset>) {
        self.building = None;
        match outcome {
            Ok(dataset) => self.queue.fill(now, dataset),
            Err(error) => {
                // Those who asked for it are told; others may have asked for a better one.
                tracing::warn!(error = %error.chain(), "dataset cannot be used");
                let is_asking = |parked: &mut Parked| matches!(&parked.wish, Wish::Dataset { patterns: asked } if asked == patterns);
                for parked in self.parked.extract_if(.., is_asking) {
                    let said = Error::new(error.kind(), error.chain());
                    self.answers.push((parked.ticket, Err(said)));
                }
            }
        }
    }

    fn report(&self, changes: &[Change], pass_before: u64) {
        for change in changes {
            self.metrics.change(change);
            match change {
                Change::Filled { dataset } => {
                    tracing::info!(tasks = dataset.tasks(), "dataset is set");
                }
                Change::SetAside { task, reason } => tracing::error!(
                    task,
                    reason,
                    "task failed too often and is set aside: its records are missing from this pass"
                ),
                Change::Granted { trainer, duration_ms, .. } => {
                    tracing::info!(trainer, duration_ms, "may save the model");
                }
                Change::Leased { .. }
                | Change::Finished { .. }
                | Change::Returned { .. }
                | Change::Reopened { .. } => {}
            }
        }
        let pass = self.queue.pass();
        if pass != pass_before {
            tracing::info!(pass, is_over = self.queue.is_over(), "next pass");
        }
        self.metrics.position(&self.queue);
    }
}

fn check_get(get: &Get) -> Result<()> {
    let too_large = |what, found: usize, max: usize| {
        Err(Error::new(Kind::LimitExceeded, what).with("found", found).with("max", max))
    };
    if get.leases.len() >= LEASES_MAX {
        return too_large("trainer has too many tasks; finish some", get.leases.len(), LEASES_MAX);
    }
    check_name(&get.name)
}

fn check_name(name: &str) -> Result<()> {
    match name.len() > NAME_BYTES_MAX {
        true => Err(Error::new(Kind::LimitExceeded, "name of a trainer is too long")
            .with("found", name.len())
            .with("max", NAME_BYTES_MAX)),
        false => Ok(()),
    }
}

/// The answer of who has waited in vain.
fn waited(is_over: bool, answer: &impl Serialize) -> Option<Result<Vec<u8>>> {
    is_over.then(|| encode(answer))
}

fn shown(patterns: &[String]) -> String {
    let all = patterns.join(" ");
    match all.chars().count() > SHOWN_CHARS {
        true => all.chars().take(SHOWN_CHARS).chain("…".chars()).collect(),
        false => all,
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
