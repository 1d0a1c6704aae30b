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
//! (`link`), which part of the model is where (`layout`, `split`, `unique`), requests (`plan`), and the calls (`step`, `life`).

mod blocking;
mod config;
mod layout;
mod life;
mod link;
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
pub use wire::blocking::Interrupt;
/// How to speak TLS, for [`ClientConfig::tls`].
pub use wire::tls;
pub use wire::{Retry, fresh_incarnation};

use contract::Result;
use layout::Layout;
use link::{Link, Shared};
use split::Shelf;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use table::gradient::Gradient;
use table::model::ModelIndex;
use wire::{Connector, Endpoint};

/// A trainer's connection to all parameter servers of its job. Needs a tokio runtime with time and
/// I/O; a multi-threaded one lets replies be read while requests are written.
pub struct Client {
    shared: Arc<Shared>,
    layout: Layout,
    links: Vec<Arc<Link>>,
    /// Whose turn it is to push; true while a step is on its way, and for ever if it got stuck.
    is_stepping: tokio::sync::Mutex<bool>,
    /// How often the trainers were synchronized.
    synchronized: AtomicU64,
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
    /// Passes so far.
    pub pass: u64,
    /// The newest checkpoint that a shard's values came from, if any.
    pub restored_cut: Option<u64>,
}

/// A checkpoint that a server began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restored {
    /// The number of the checkpoint.
    pub cut: u64,
    /// Which life of the server that was.
    pub server: u64,
}

/// How far a client is, and what it went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest version of any shard that was heard of.
    pub version: u64,
    /// The pass under way.
    pub pass: u64,
    /// The newest checkpoint cut that was announced, 0 for none.
    pub cut: u64,
    /// How often a server came back as another process.
    pub server_restarts: u64,
    /// Updates that were lost with servers, as far as they said, the most of any shard.
    pub lost_steps: u64,
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
        let connector = Connector::new(endpoint, config.tls.clone())?;
        let layout = Layout::new(&config.model, servers, config.ports);
        let cut = Mutex::default();
        let addresses = Box::new(addresses);
        let shared = Arc::new(Shared { config, addresses, connector, servers, cut });
        let link = |(server, port)| Arc::new(Link::new(Arc::clone(&shared), server, port));
        let mut client = Client {
            links: layout.links().map(link).collect(),
            shared: Arc::clone(&shared),
            layout,
            is_stepping: tokio::sync::Mutex::new(false),
            synchronized: AtomicU64::new(0),
            shelf: Shelf::default(),
            heartbeats: Vec::new(),
        };
        futures_util::future::try_join_all(client.links.iter().map(|link| link.join())).await?;
        let synchronized = |link: &Arc<Link>| link.progress().joined.as_ref()?.synchronized.into();
        let reached = client.links.iter().filter_map(synchronized).max();
        client.synchronized = AtomicU64::new(reached.unwrap_or(0));
        let beat = |link: &Arc<Link>| tokio::spawn(Arc::clone(link).keep_alive()).abort_handle();
        client.heartbeats = client.links.iter().map(beat).collect();
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
        let mut start = Start { needs_values: false, version: 0, pass: 0, restored_cut: None };
        for link in &self.links {
            let Some(joined) = link.progress().joined.clone() else { continue };
            start.needs_values |= joined.needs_values;
            start.version = start.version.max(joined.version);
            start.pass = start.pass.max(joined.pass);
            start.restored_cut = start.restored_cut.max(joined.restored_cut);
        }
        start
    }

    /// The checkpoints that servers began with, each life of a server once.
    pub fn restored(&self) -> Vec<Restored> {
        let mut restored: Vec<Restored> =
            self.links.iter().filter_map(|link| link.progress().restored).collect();
        restored.sort_unstable();
        restored.dedup();
        restored
    }

    /// How far the client is.
    pub fn position(&self) -> Position {
        let mut position = Position { cut: self.shared.cut().0, ..Position::default() };
        for link in &self.links {
            let progress = link.progress();
            position.version = position.version.max(progress.version);
            position.pass = position.pass.max(progress.pass);
            position.server_restarts = position.server_restarts.max(progress.restarts);
            position.lost_steps = position.lost_steps.max(progress.lost_steps);
        }
        position
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
