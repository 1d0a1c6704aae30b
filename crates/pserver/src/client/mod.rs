//! Push and pull as a trainer sees them.
//!
//! A [`Client`] has one link to every port of every server. A call is checked, cut into requests of
//! bounded size for each shard, sent over all links at once and, when a connection breaks, sent
//! again; the answers are merged where the caller wants them. Nothing is copied on the way out with
//! a single shard, and once on the way in. All calls take `&self` and may overlap: pulls run beside
//! a push, pushes wait for each other, as each is one step of the training.
//!
//! [`Blocking`] is the same for callers that have no runtime of their own.
//!
//! Reading order: what a client is told (`config`), what outlives a connection (`progress`), one port
//! (`link`), which part of the model is where (`layout`, `split`, `unique`), requests (`plan`), and the calls (`step`, `life`); `members` is for
//! elastic jobs.

mod blocking;
mod config;
mod layout;
mod life;
mod link;
mod members;
mod plan;
mod progress;
mod split;
mod step;
#[cfg(test)]
mod testing;
mod unique;

pub use blocking::Blocking;
pub use config::{Addresses, ClientConfig};
pub use unique::deduplicate;
pub use wire::blocking::{Interrupt, Started};
/// How to speak TLS, for [`ClientConfig::tls`].
pub use wire::tls;
pub use wire::{Retry, fresh_incarnation};

use crate::message::Joined;
pub use crate::message::ValueType;
use contract::{Error, Kind, Result};
use layout::Layout;
use link::{Link, Shared};
use split::Shelf;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
pub use step::Part;
use step::Stepping;
use table::gradient::Gradient;
use table::model::ModelIndex;
use wire::{Connector, Endpoint};

/// A trainer's connection to all parameter servers of its job. Needs a tokio runtime with time and
/// I/O; a multi-threaded one lets replies be read while requests are written.
pub struct Client {
    shared: Arc<Shared>,
    layout: Layout,
    links: Vec<Arc<Link>>,
    stepping: Stepping,
    /// How often the trainers were synchronized.
    synchronized: AtomicU64,
    /// The pass under way.
    pass: AtomicU64,
    is_resting: AtomicBool,
    /// Values were set that the servers could not make again.
    has_set: AtomicBool,
    /// Whether values that are set are no first ones any more. Only trainer 0 brings first ones.
    has_begun: AtomicBool,
    shelf: Shelf,
    heartbeats: Vec<tokio::task::AbortHandle>,
}

/// Values to be set have the form of gradients.
pub type Value<'a> = Gradient<'a>;

/// Values of one parameter that are wanted, and where.
#[derive(Debug, PartialEq)]
pub enum Pull<'a> {
    /// All elements.
    Dense {
        /// Its index in the model.
        parameter: ModelIndex,
        /// As long as the parameter has elements.
        out: &'a mut [f32],
    },
    /// Some rows; keys may repeat.
    Sparse {
        /// Its index in the model.
        parameter: ModelIndex,
        /// The rows.
        keys: &'a [u64],
        /// A row for each key.
        out: &'a mut [f32],
    },
}

impl Pull<'_> {
    fn parameter(&self) -> ModelIndex {
        match self {
            Pull::Dense { parameter, .. } | Pull::Sparse { parameter, .. } => *parameter,
        }
    }
}

/// Takes a page of a scan: keys, and a row for each.
pub type Page<'a> = &'a mut (dyn FnMut(&[u64], &[f32]) -> Result<()> + Send);

/// How values are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullStyle {
    /// Rows that do not exist are answered with their first values and not created.
    pub is_read_only: bool,
    /// The averaged values, where the optimizer averages; of rows only together with
    /// `is_read_only`.
    pub is_averaged: bool,
}

/// What became of a push, in frames: a shard gets at least one of each push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Had been applied before: their first answer was lost with a connection.
    pub duplicates: u64,
    /// Were too old and thrown away (async only).
    pub dropped: u64,
}

/// What the servers said when the client joined them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Whether trainer 0 has still to bring or order the first values.
    pub needs_values: bool,
    /// Updates so far, of the shard that is furthest.
    pub version: u64,
    /// Passes that this rank has finished.
    pub pass: u64,
    /// Batches of the pass under way that this rank has delivered: a process that goes on for
    /// another skips as many.
    pub batches: u64,
    /// Whether this rank had no data when its last process was heard of; it has to wake first.
    pub is_resting: bool,
    /// Whether an earlier process of this rank has ended its training: there is nothing left to do
    /// but to leave.
    pub has_left: bool,
    /// Whether trainers may come and go while others train: nobody can count on having a fixed part
    /// of the data.
    pub is_elastic: bool,
    /// The epoch, and the checkpoint it began with.
    pub restored: Restored,
}

/// An epoch and what it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restored {
    /// The number of the checkpoint; 0 for first values.
    pub cut: u64,
    /// The epoch.
    pub epoch: u32,
}

/// How far a client is, and what it went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest version of any shard that was heard of.
    pub version: u64,
    /// The pass under way.
    pub pass: u64,
    /// The highest number of a checkpoint cut that is in use, 0 for none.
    pub cut: u64,
}

impl Client {
    /// Connects to every port of every server and joins the job there.
    ///
    /// Servers that cannot be reached are tried again within [`ClientConfig::retry`]. `Conflict`
    /// when a server knows another model, mode or number of trainers; `Unauthenticated` without
    /// the right token.
    pub async fn connect(
        config: ClientConfig,
        addresses: impl Addresses + 'static,
    ) -> Result<Client> {
        config.check()?;
        let servers = addresses.addresses().len() as u32;
        config.check_servers(servers)?;
        let endpoint = Endpoint {
            token: config.token.clone(),
            limits: config.limits,
            ..Endpoint::new(crate::message::SERVICE, config.incarnation)
        };
        let connector = Connector::new(endpoint, config.tls.clone())?.over(config.dial.clone());
        let layout = Layout::new(&config.model, servers, config.ports);
        let layout = layout.with_values(config.value_type);
        let (cut, epoch) = (Mutex::default(), OnceLock::new());
        let addresses = Box::new(addresses);
        let shared = Arc::new(Shared { config, addresses, connector, servers, cut, epoch });
        let link = |(server, port)| Arc::new(Link::new(Arc::clone(&shared), server, port));
        let mut client = Client {
            links: layout.links().map(link).collect(),
            shared: Arc::clone(&shared),
            layout,
            stepping: Stepping::default(),
            synchronized: AtomicU64::new(0),
            pass: AtomicU64::new(0),
            is_resting: AtomicBool::new(false),
            has_set: AtomicBool::new(false),
            has_begun: AtomicBool::new(shared.config.rank != 0),
            shelf: Shelf::default(),
            heartbeats: Vec::new(),
        };
        // Shard 0 decides about the epoch: what it says is told to the others.
        let (first, others) = client.links.split_at(1);
        for link in first {
            link.join().await?;
        }
        if !client.start().has_left {
            futures_util::future::try_join_all(others.iter().map(|link| link.join())).await?;
            client.settle().await?;
        }
        let synchronized = |link: &Arc<Link>| link.progress().joined.as_ref()?.synchronized.into();
        let reached = client.links.iter().filter_map(synchronized).max();
        client.synchronized = AtomicU64::new(reached.unwrap_or(0));
        let beat = |link: &Arc<Link>| tokio::spawn(Arc::clone(link).keep_alive()).abort_handle();
        client.heartbeats = client.links.iter().map(beat).collect();
        let start = client.start();
        if start.is_elastic && !start.has_left {
            let pause = shared.config.heartbeat_interval;
            let carry = tokio::spawn(members::carry(client.links.clone(), pause));
            client.heartbeats.push(carry.abort_handle());
        }
        Ok(client)
    }

    /// The index of a parameter in the model.
    pub fn parameter(&self, name: &str) -> Result<ModelIndex> {
        self.layout.find(name)
    }

    /// What was agreed on.
    pub fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.shared.servers
    }

    /// What the servers said when the client joined.
    pub fn start(&self) -> Start {
        let all = self.joined();
        // Where shards differ, this rank's predecessor was cut off between them: what is behind in
        // the position of the last one is not lost, what is ahead is not done again there.
        let position = all.iter().map(|joined| (joined.pass, joined.batches)).min();
        let (pass, batches) = position.unwrap_or_default();
        Start {
            needs_values: all.iter().any(|joined| joined.needs_values),
            version: all.iter().map(|joined| joined.version).max().unwrap_or(0),
            pass,
            batches,
            is_resting: all.iter().any(|joined| joined.is_resting),
            has_left: all.first().is_some_and(|joined| joined.has_left),
            is_elastic: all.first().is_some_and(|joined| joined.is_elastic),
            restored: self.restored(),
        }
    }

    /// The epoch, and the checkpoint that all servers began it with.
    pub fn restored(&self) -> Restored {
        let epoch = self.shared.epoch.get();
        let (cut, epoch) = epoch.map_or((0, 0), |epoch| (epoch.cut, epoch.number));
        Restored { cut, epoch }
    }

    fn joined(&self) -> Vec<Joined> {
        self.links.iter().filter_map(|link| link.progress().joined.clone()).collect()
    }

    /// Goes on for an earlier process of this rank, if there was one.
    ///
    /// A step that some shards in step have and others lack can be neither completed nor undone:
    /// the servers are told, and the job ends, to go on from a checkpoint.
    async fn settle(&self) -> Result<()> {
        let start = self.start();
        self.pass.store(start.pass, Ordering::Relaxed);
        if start.is_resting {
            // Perhaps not everywhere: it may have died on the way to rest, or to wake.
            return self.rest().await;
        }
        let all = self.joined();
        let in_step = all.iter().filter(|joined| joined.is_in_step && joined.pass == start.pass);
        let steps = in_step.map(|joined| joined.steps);
        if steps.clone().min() == steps.max() {
            return Ok(());
        }
        let told = self.abandon().await;
        let message = "an earlier process of this trainer died within a step that some servers \
                       have applied and others have not; all servers and trainers have to start \
                       again from the newest checkpoint";
        Err(Error::new(Kind::Conflict, message)
            .with("rank", self.shared.config.rank)
            .because(told.map_or_else(|error| error.chain(), |()| "servers were told".to_owned())))
    }

    /// How far the client is.
    pub fn position(&self) -> Position {
        let numbered = self.joined().iter().map(|joined| joined.cut).max().unwrap_or(0);
        let versions = self.links.iter().map(|link| link.progress().version);
        Position {
            version: versions.max().unwrap_or(0),
            pass: self.pass.load(Ordering::Relaxed),
            cut: self.shared.cut().0.max(numbered),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.heartbeats.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("rank", &self.shared.config.rank)
            .field("servers", &self.shared.servers)
            .finish_non_exhaustive()
    }
}
