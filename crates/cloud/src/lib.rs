//! The shared service: many users, one or more datacenters, jobs that outlive the server.
//!
//! Over HTTP, people log in, send programs, submit jobs, and read their states and logs. Behind it,
//! one loop per datacenter lets waiting jobs start, and a task per job brings what the database
//! wants and what the backend says together. Everything that was acknowledged is in the database or
//! in the file store before, and the next step always follows from facts on disk ([`jobs`]), so the
//! server may die at any time; jobs run on, and are taken up again.
//!
//! It never talks to a replica, does not read the environment and prints nothing; `cli` does.
//!
//! From the outside in: [`router`] is the table of calls; each noun has a folder with its calls
//! (`mod.rs`), its rules (`service.rs`) and its rows (`store.rs`); [`files`] is everything that
//! touches files; [`legacy`] translates the original's REST interface.

pub mod config;

mod audit;
mod blocking;
mod clock;
mod cluster_train;
mod database;
mod datacenters;
mod files;
mod health;
mod http;
mod jobs;
mod lease;
mod legacy;
mod links;
mod logs;
mod once;
mod openapi;
mod packages;
mod quotas;
mod random;
mod registries;
mod router;
mod server;
mod users;

pub use config::Config;
pub use datacenters::Outside;
pub use server::{Server, Started};

use config::Config as Settings;
use database::Database;
use datacenters::Datacenter;
use files::blobs::Blobs;
use files::operation::Operations;
use files::usage::Usages;
use http::followers::Followers;
use http::rate::Rate;
use registries::vault::Vault;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Semaphore, watch};
use users::throttle::Throttle;

/// Everything that calls and loops share.
pub(crate) struct Cloud {
    pub(crate) config: Settings,
    pub(crate) outside: Outside,
    pub(crate) database: Database,
    pub(crate) datacenters: BTreeMap<String, Arc<Datacenter>>,
    pub(crate) blobs: Blobs,
    /// How much disk users have.
    pub(crate) usages: Usages,
    /// Work on files that may outlive the requests for it.
    pub(crate) operations: Operations,
    pub(crate) vault: Vault,
    pub(crate) throttle: Throttle,
    pub(crate) rate: Rate,
    pub(crate) connections: http::connection::Limited,
    /// Those who follow logs and watch lists.
    pub(crate) followers: Arc<Followers>,
    /// Counts what ended rights of callers, so that answers that go on look whether theirs did.
    pub(crate) revocations: watch::Sender<u64>,
    /// Jobs that are being started.
    pub(crate) starts: Semaphore,
    /// Configurations that are being evaluated.
    pub(crate) evaluations: cluster_train::evaluate::Turns,
    /// What is remembered of trainings whose nodes ask.
    pub(crate) nodes: cluster_train::node::Nodes,
    /// Stores of trainings.
    pub(crate) opened: cluster_train::source::OpenedStores,
    /// Whether programs of users can be kept apart on this machine.
    pub(crate) is_isolated: bool,
    /// Turns true when the server ends.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Where it listens, once it does.
    pub(crate) address: OnceLock<SocketAddr>,
    /// This life of this server.
    pub(crate) identity: String,
    /// Whether no other server can use the same data.
    pub(crate) is_alone: bool,
    pub(crate) metrics: metrics_exporter_prometheus::PrometheusHandle,
}
