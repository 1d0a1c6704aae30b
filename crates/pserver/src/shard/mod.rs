//! One shard: the part of the model behind one port, as a state machine without sockets or clock.
//!
//! A request goes in with a token; replies come out with the tokens of the requests they answer,
//! perhaps much later: a pull that must wait for other trainers is parked here, so that waiting
//! blocks nothing else. The parts: `table` holds values and what has arrived for the step under
//! way, `push` and `pull` are the hot paths, `life` is joining, passes and leaving, `cut` is the
//! checkpoint that goes on beside them. Who waits for whom is decided in [`crate::policy`].

mod cut;
mod life;
mod pull;
mod push;
mod table;

pub use cut::{CutFacts, Saved, TableFacts};

use crate::message::{Head, Join, Message, Payload, Statistics, Verb, decode_json, encode_json};
use crate::metrics::Metrics;
use crate::policy::Membership;
use ::table::model::Model;
use ::table::optimizer::Now;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};
use table::Table;

/// Replies whose memory is kept, and the most values of one of them.
const SPARE_REPLIES_MAX: usize = 32;
const SPARE_VALUES_MAX: usize = 1 << 20;

/// Ticks that are further apart mean that the server itself stood still.
const STANDSTILL: Duration = Duration::from_secs(1);

/// What a shard is told when it starts; the rest it learns from the trainers.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Which life of the server this is.
    pub incarnation: u64,
    /// The number of trainers.
    pub trainers: u32,
    /// A trainer that is silent for longer has vanished.
    pub trainer_timeout: Duration,
    /// Most bytes that the tables may hold.
    pub table_bytes_max: usize,
    /// Whether checkpoints can be written at all.
    pub can_cut: bool,
    /// How often shard 0 announces a checkpoint; `None` is never.
    pub cut_interval: Option<Duration>,
    /// Which server this is and of how many, where the command line says so.
    pub preset: Option<(u32, u32)>,
}

/// A request with the token of its answer. `B` is the received body.
pub struct Request<T, B> {
    /// Comes back with the answer.
    pub token: T,
    /// What is asked.
    pub verb: Verb,
    /// The process that asks.
    pub incarnation: u64,
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
    /// Set when the job cannot go on; every later request gets it.
    failure: Option<(Kind, String)>,
}

/// What is known once the first trainer has joined.
struct Job<B> {
    join: Join,
    tables: Vec<Option<Table<B>>>,
    phase: Phase,
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
    has_sync: bool,
    restored_cut: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Trainer 0 has still to bring or order the first values.
    NeedsValues,
    /// Restored from a checkpoint: where to go on is known when all trainers are back.
    NeedsTrainers,
    Ready,
}

struct Parked<T, B> {
    token: T,
    since: Instant,
    waiting: Waiting<B>,
}

enum Waiting<B> {
    Push(Rc<Payload<B>>),
    Pull(Payload<B>),
    FinishPass { pass: u64, rank: u32 },
    Synchronize { number: u64 },
}

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    /// A shard that knows nothing yet.
    pub fn new(config: ShardConfig, metrics: Metrics, now: Instant) -> Self {
        Shard {
            members: Membership::new(config.trainers),
            cut: cut::Progress::new(now),
            config,
            job: None,
            parked: Vec::new(),
            outbox: Vec::new(),
            spare: Vec::new(),
            metrics,
            last_tick: now,
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
        if self.failure.is_none()
            && let Some(rank) = self.members.overdue(now, self.config.trainer_timeout)
        {
            let message = format!(
                "trainer {rank} has not been heard of for {} s; the job cannot go on without it",
                self.config.trainer_timeout.as_secs_f32()
            );
            self.fail(Kind::Unavailable, message);
        }
        self.announce_cut(now);
        let tables = || self.job.iter().flat_map(|job| job.tables.iter().flatten());
        self.metrics.held(tables().map(Table::rows).sum(), tables().map(Table::bytes).sum());
    }

    /// Why the job cannot go on, if so.
    pub fn failure(&self) -> Option<Error> {
        self.failure.as_ref().map(|(kind, message)| Error::new(*kind, message.clone()))
    }

    /// What the first trainer said: the model and the shard's place.
    pub fn joined(&self) -> Option<&Join> {
        self.job.as_ref().map(|job| &job.join)
    }

    /// How many trainers have joined since this server started.
    pub fn trainers_joined(&self) -> usize {
        self.members.joined()
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
        let Request { token, verb, incarnation, body } = request;
        match verb {
            Verb::Join => {
                let join: Join = decode_json(&body)?;
                return self.join(now, join, incarnation, restore).map(Some);
            }
            Verb::Statistics => return self.statistics().map(Some),
            _ => {}
        }
        let payload = Payload::decode(body)?;
        self.members.hear(now, payload.head.rank, incarnation)?;
        self.hear_cut(&payload.head);
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
            Verb::Wake => self.wake(&payload.head).map(Some),
            Verb::Heartbeat => Ok(Some(self.acknowledgement(0))),
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
        let (version, pass) = self.job.as_ref().map_or((0, 0), |job| (job.version, job.pass));
        Head { version, base: pass, cut, cut_version, flags, ..Head::default() }
    }

    fn park(&mut self, now: Instant, token: T, waiting: Waiting<B>) {
        self.parked.push(Parked { token, since: now, waiting });
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

fn not_joined() -> Error {
    Error::new(Kind::Conflict, "no trainer has joined this shard yet")
}
