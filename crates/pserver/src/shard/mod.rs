//! One shard: the part of the model behind one port, as a state machine without sockets or clock.
//!
//! A request goes in with a token; replies come out with the tokens of the requests they answer,
//! perhaps much later: a pull that must wait for other trainers is parked here, so that waiting
//! blocks nothing else. The parts: `table` holds values and what has arrived for the step under
//! way, `push` and `pull` are the hot paths, `life` is joining, passes and leaving, `elastic` is what
//! happens when trainers vanish and others go on, `cut` is the checkpoint that goes on beside them.
//! Who waits for whom is decided in [`crate::policy`].

mod cut;
mod elastic;
mod life;
mod pull;
mod pulled;
mod push;
mod table;

pub use cut::{CutFacts, Saved, TableFacts};
pub(crate) use life::epoch_of;

use crate::message::{
    Epoch, Head, Join, Message, Payload, Statistics, Verb, decode_json, encode_json,
};
use crate::metrics::Metrics;
use crate::policy::{Membership, Speaker};
use ::table::model::Model;
use ::table::optimizer::Now;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};
use table::Table;

/// What a request that waits costs beside its body.
const PARKED_BYTES: u64 = 16 << 10;

/// Replies whose memory is kept, and the most values of one of them.
const SPARE_REPLIES_MAX: usize = 32;
const SPARE_VALUES_MAX: usize = 1 << 20;

/// Waits that are longer are told in the log, again and again.
const WAIT_SAID_AFTER: Duration = Duration::from_secs(30);
/// Ranks that a message names.
const RANKS_SHOWN: usize = 16;

/// Ticks that are further apart mean that the server itself stood still.
const STANDSTILL: Duration = Duration::from_secs(1);

/// What a shard is told when it starts; the rest it learns from the trainers.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Which life of the server this is.
    pub incarnation: u64,
    /// The number of trainers; of an elastic job the most that it may have.
    pub trainers: u32,
    /// The least number of trainers of an elastic job; `None` for a job that needs all of them.
    pub min_trainers: Option<u32>,
    /// A trainer that is silent for longer has vanished.
    pub trainer_timeout: Duration,
    /// How long after the first trainer the last one may come.
    pub join_timeout: Duration,
    /// How long trainers may wait for others that are heard of but deliver nothing.
    pub stall_timeout: Duration,
    /// Most bytes that the tables may hold.
    pub table_bytes_max: usize,
    /// Most bytes that requests of one trainer may have while they wait here, beside twice what the
    /// tables hold: a trainer has two steps under way at most.
    pub parked_bytes_max: u64,
    /// Whether checkpoints can be written at all.
    pub can_cut: bool,
    /// How often shard 0 announces a checkpoint; `None` is never.
    pub cut_interval: Option<Duration>,
    /// Which server this is and of how many, where the command line says so.
    pub preset: Option<(u32, u32)>,
}

impl ShardConfig {
    /// The trainers of the job, none of which has come yet.
    fn members(&self) -> Membership {
        match self.min_trainers {
            Some(least) => Membership::elastic(self.trainers, least),
            None => Membership::new(self.trainers),
        }
    }
}

/// A request with the token of its answer. `B` is the received body.
pub struct Request<T, B> {
    /// Comes back with the answer.
    pub token: T,
    /// What is asked.
    pub verb: Verb,
    /// The process that asks.
    pub incarnation: u64,
    /// The connection that it came over; later ones have higher numbers.
    pub connection: u64,
    /// The bytes behind the frame's header.
    pub body: B,
}

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// Head, keys, values.
    Message(Message),
    /// JSON.
    Json(Vec<u8>),
    /// A refusal.
    Error(Error),
}

/// Where a shard that has just learned its place gets the values of a checkpoint from.
pub trait Restore {
    /// Gives every block and row that belongs to the shard to `put`, with its parameter's place in
    /// the model. The facts of the cut come back; `None` if there is nothing to restore.
    fn restore(
        &mut self,
        join: &Join,
        put: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
    ) -> Result<Option<CutFacts>>;
}

/// One block or row with all its columns: what checkpoints are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part<'a> {
    /// The number of the block, or the key of the row.
    pub key: u64,
    /// Its values.
    pub value: &'a [f32],
    /// What the optimizer keeps beside them, column after column.
    pub state: &'a [f32],
    /// What the optimizer counts.
    pub counters: &'a [u32],
}

/// The part of the model behind one port.
pub struct Shard<T, B> {
    config: ShardConfig,
    job: Option<Job<B>>,
    members: Membership,
    parked: Vec<Parked<T, B>>,
    outbox: Vec<(T, Reply)>,
    cut: cut::Progress,
    /// Memory of replies that were sent, for those to come.
    spare: Vec<Vec<f32>>,
    metrics: Metrics,
    last_tick: Instant,
    /// When the job began here, when a trainer last delivered anything, and when the log last said
    /// who is waited for.
    joined: Instant,
    moved: Instant,
    said: Instant,
    /// Elastic jobs: since when trainers are wanted without whom it does not go on.
    short: Option<Instant>,
    /// Set when the job cannot go on; every later request gets it.
    failure: Option<(Kind, String)>,
}

/// What is known once the first trainer has joined.
struct Job<B> {
    join: Join,
    tables: Vec<Option<Table<B>>>,
    epoch: Epoch,
    /// Updates so far: steps in sync mode, pushes otherwise.
    version: u64,
    pass: u64,
    /// Samples of all steps before this one.
    samples: u64,
    /// Samples of the step under way, by rank, known from a rank's first frame on. Without sync a
    /// step is one rank's alone.
    step_samples: BTreeMap<u32, u64>,
    /// The moment of reads: after the last update.
    now: Now,
    /// Updates wait for all trainers, so that versions count steps.
    has_sync: bool,
    /// Gradients of the step under way have arrived, and may be in some values already.
    is_mid_step: bool,
}

struct Parked<T, B> {
    token: T,
    rank: u32,
    since: Instant,
    waiting: Waiting<B>,
}

enum Waiting<B> {
    Push(Rc<Payload<B>>),
    Pull(Payload<B>),
    FinishPass {
        pass: u64,
        rank: u32,
    },
    Synchronize {
        number: u64,
    },
    /// A change of members after this one.
    Members {
        changes: u64,
    },
}

impl<B: Deref<Target = [u8]>> Waiting<B> {
    fn bytes(&self) -> u64 {
        let body = match self {
            Waiting::Push(payload) => payload.bytes(),
            Waiting::Pull(payload) => payload.bytes(),
            Waiting::FinishPass { .. } | Waiting::Synchronize { .. } | Waiting::Members { .. } => 0,
        };
        body as u64 + PARKED_BYTES
    }
}

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    /// A shard that knows nothing yet.
    pub fn new(config: ShardConfig, metrics: Metrics, now: Instant) -> Self {
        Shard {
            members: config.members(),
            cut: cut::Progress::new(now),
            config,
            job: None,
            parked: Vec::new(),
            outbox: Vec::new(),
            spare: Vec::new(),
            metrics,
            last_tick: now,
            joined: now,
            moved: now,
            said: now,
            short: None,
            failure: None,
        }
    }

    /// Handles one request; answers, to it and to others, are in [`Shard::take_replies`].
    pub fn handle(&mut self, now: Instant, request: Request<T, B>, restore: &mut dyn Restore) {
        let token = request.token.clone();
        let outcome = match &self.failure {
            Some((kind, message)) => Err(Error::new(*kind, message.clone())),
            None => self.dispatch(now, request, restore),
        };
        match outcome {
            Ok(Some(reply)) => self.outbox.push((token, reply)),
            Ok(None) => {}
            Err(error) => self.outbox.push((token, Reply::Error(error))),
        }
    }

    /// The answers that are due.
    pub fn take_replies(&mut self) -> Vec<(T, Reply)> {
        std::mem::take(&mut self.outbox)
    }

    /// Takes back the memory of a reply that was sent: fresh memory would cost as much as filling it.
    pub fn recycle(&mut self, values: Vec<f32>) {
        if self.spare.len() < SPARE_REPLIES_MAX && values.capacity() <= SPARE_VALUES_MAX {
            self.spare.push(values);
        }
    }

    /// Forgets requests whose connection is gone: nobody waits for their answers.
    pub fn forget(&mut self, is_gone: impl Fn(&T) -> bool) {
        self.parked.retain(|parked| !is_gone(&parked.token));
    }

    /// Notices trainers that have vanished, and the time of the next checkpoint; to be called a few
    /// times a second.
    pub fn tick(&mut self, now: Instant) {
        let pause = now.saturating_duration_since(self.last_tick);
        self.last_tick = now;
        if pause > STANDSTILL {
            self.members.excuse(pause);
        }
        self.release_vanished(now);
        if self.failure.is_none()
            && let Some(message) = self.waits_too_long(now)
        {
            self.fail(Kind::Unavailable, message);
        }
        self.announce_cut(now);
        let tables = || self.job.iter().flat_map(|job| job.tables.iter().flatten());
        self.metrics.held(tables().map(Table::rows).sum(), tables().map(Table::bytes).sum());
    }

    /// For whom the job has waited too long, in words. Says in the log for whom it waits.
    fn waits_too_long(&mut self, now: Instant) -> Option<String> {
        let ShardConfig { trainer_timeout, join_timeout, stall_timeout, .. } = self.config;
        let seconds = |time: Duration| time.as_secs_f32();
        if self.members.is_elastic() {
            if let Some(message) = self.lacks_trainers(now) {
                return Some(message);
            }
        } else if let Some(rank) = self.members.overdue(now, trainer_timeout) {
            return Some(format!(
                "trainer {rank} has not been heard of for {} s; the job cannot go on without it",
                seconds(trainer_timeout)
            ));
        }
        let job = self.job.as_ref()?;
        let awaited = self.members.awaited();
        let needs_all = !self.members.is_elastic();
        if needs_all
            && !awaited.is_empty()
            && now.saturating_duration_since(self.joined) > join_timeout
        {
            return Some(format!(
                "{} did not come within {} s of the first; start as many trainers as the servers \
                 were told of",
                trainers(&awaited),
                seconds(join_timeout)
            ));
        }
        let waits = |parked: &&Parked<T, B>| !matches!(parked.waiting, Waiting::Members { .. });
        let since = self.parked.iter().filter(waits).map(|parked| parked.since).min()?;
        let since = since.max(self.moved);
        let waited = now.saturating_duration_since(since);
        let missing = trainers(&self.members.missing(job.version));
        if waited > stall_timeout {
            return Some(format!(
                "the others have waited for {missing} for {} s",
                seconds(stall_timeout)
            ));
        }
        if waited > WAIT_SAID_AFTER && now.saturating_duration_since(self.said) > WAIT_SAID_AFTER {
            self.said = now;
            let seconds = waited.as_secs();
            tracing::warn!(seconds, step = job.version, "waiting for {missing}");
        }
        None
    }

    /// Why the job cannot go on, if so.
    pub fn failure(&self) -> Option<Error> {
        self.failure.as_ref().map(|(kind, message)| Error::new(*kind, message.clone()))
    }

    /// What the first trainer said: the model and the shard's place.
    pub fn joined(&self) -> Option<&Join> {
        self.job.as_ref().map(|job| &job.join)
    }

    /// How many trainers have joined.
    pub fn trainers_joined(&self) -> u32 {
        self.members.joined()
    }

    /// Which attempts of trainers have left, see [`contract::ready::Farewell::goodbyes`].
    pub fn goodbyes(&self) -> Vec<(u32, u32)> {
        self.members.goodbyes()
    }

    /// Whether all trainers have left.
    pub fn is_over(&self) -> bool {
        self.members.is_over()
    }

    fn dispatch(
        &mut self,
        now: Instant,
        request: Request<T, B>,
        restore: &mut dyn Restore,
    ) -> Result<Option<Reply>> {
        let Request { token, verb, incarnation, connection, body } = request;
        match verb {
            Verb::Join => {
                let join: Join = decode_json(&body)?;
                let who = Speaker { rank: join.rank, incarnation, connection };
                return self.join(now, join, who, restore).map(Some);
            }
            Verb::Statistics => return self.statistics().map(Some),
            _ => {}
        }
        let payload = Payload::decode(body)?;
        let head = &payload.head;
        head.check(verb)?;
        self.members.hear(now, Speaker { rank: head.rank, incarnation, connection })?;
        let epoch = self.job.as_ref().map_or(0, |job| job.epoch.number);
        if head.epoch != epoch {
            return Err(Error::new(Kind::Conflict, "the request is of another epoch; join again")
                .with("epoch", epoch)
                .with("of_request", head.epoch));
        }
        self.hear_cut(&payload.head)?;
        match verb {
            Verb::Push => self.push(now, token, Rc::new(payload)),
            Verb::Pull => self.pull(now, token, payload),
            Verb::Set => self.set(&payload).map(Some),
            Verb::Begin => self.begin(now).map(Some),
            Verb::FinishPass => self.finish_pass(now, token, &payload.head),
            Verb::Synchronize => self.synchronize(now, token, &payload.head),
            Verb::Goodbye => self.goodbye(now, &payload.head).map(Some),
            Verb::Scan => self.scan(&payload).map(Some),
            Verb::Cut => self.order_cut(now).map(Some),
            Verb::Rest => self.rest(now, &payload.head).map(Some),
            Verb::Wake => self.wake(now, &payload.head).map(Some),
            Verb::Heartbeat => Ok(Some(self.acknowledgement(0))),
            Verb::Members => self.exchange_members(now, token, &payload),
            Verb::Abandon => self.abandon(&payload.head).map(Some),
            Verb::Join | Verb::Statistics => unreachable!("answered above"),
        }
    }

    fn statistics(&self) -> Result<Reply> {
        let job = self.job.as_ref();
        let tables = || job.into_iter().flat_map(|job| job.tables.iter().flatten());
        let statistics = Statistics {
            version: job.map_or(0, |job| job.version),
            pass: job.map_or(0, |job| job.pass),
            samples: job.map_or(0, |job| job.samples),
            rows: tables().map(Table::rows).sum(),
            bytes: tables().map(Table::bytes).sum(),
            last_cut: self.cut.completed(),
        };
        encode_json(&statistics).map(Reply::Json)
    }

    /// A reply that says no more than where the shard is.
    fn acknowledgement(&self, flags: u32) -> Reply {
        Reply::Message(Message::of(self.reply_head(flags)))
    }

    fn reply_head(&self, flags: u32) -> Head {
        let (cut, cut_version) = self.cut.announced();
        let Some(job) = &self.job else { return Head { flags, ..Head::default() } };
        let (version, base, epoch) = (job.version, job.pass, job.epoch.number);
        Head { version, base, epoch, cut, cut_version, flags, ..Head::default() }
    }

    fn park(&mut self, now: Instant, token: T, rank: u32, waiting: Waiting<B>) -> Result<()> {
        let own = self.parked.iter().filter(|parked| parked.rank == rank);
        let bytes = own.map(|parked| parked.waiting.bytes()).sum::<u64>() + waiting.bytes();
        let tables = self.job.iter().flat_map(|job| job.tables.iter().flatten());
        let limit = tables.map(Table::bytes).sum::<u64>() * 2 + self.config.parked_bytes_max;
        if bytes > limit {
            let message = "a trainer has more requests waiting than two steps of training need";
            return Err(Error::new(Kind::LimitExceeded, message)
                .with("rank", rank)
                .with("bytes", bytes)
                .with("limit", limit));
        }
        self.parked.push(Parked { token, rank, since: now, waiting });
        Ok(())
    }

    fn fail(&mut self, kind: Kind, message: String) {
        for parked in self.parked.drain(..) {
            self.outbox.push((parked.token, Reply::Error(Error::new(kind, message.clone()))));
        }
        self.failure = Some((kind, message));
    }
}

impl<B> Job<B> {
    fn model(&self) -> &Model {
        &self.join.model
    }
}

/// Ranks for people.
pub(crate) fn trainers(ranks: &[u32]) -> String {
    let shown: Vec<String> = ranks.iter().take(RANKS_SHOWN).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(RANKS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match ranks {
        [] => "nobody in particular".to_owned(),
        [rank] => format!("trainer {rank}"),
        _ => format!("trainers {}{more}", shown.join(", ")),
    }
}

fn not_joined() -> Error {
    Error::new(Kind::Conflict, "no trainer has joined this shard yet")
}
