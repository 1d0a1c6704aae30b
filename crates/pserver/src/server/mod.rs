//! The server: one thread per port, each with its own shard.
//!
//! Takes bound listeners and a signal to stop; binding, flags and signals are `cli`'s. A port's
//! thread does everything for its shard: it reads requests, computes and writes replies, so that
//! the data path has no locks and a core's cache holds one shard. Only a checkpoint's bytes leave
//! it, through a bounded channel, to a thread that may wait for the disk.

mod link;
mod port;
mod saver;

use crate::checkpoint;
use crate::message::SERVICE;
use crate::shard::ShardConfig;
use contract::ready::Farewell;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wire::{Acceptor, Endpoint, Limits, Listener};

const PARKED_BYTES_MAX: u64 = 1 << 30;

/// Everything a server is told; what is missing it learns from the trainers.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The number of trainers; of an elastic job the most that it may have.
    pub trainers: u32,
    /// The least number of trainers of an elastic job, which goes on when one dies; `None` for a job
    /// that needs all of them.
    pub min_trainers: Option<u32>,
    /// Which server this is and of how many, where it is known beforehand.
    pub preset: Option<(u32, u32)>,
    /// Which life of this server it is.
    pub incarnation: u64,
    /// The job's token; peers must prove that they have it.
    pub token: Option<Secret>,
    /// Speak TLS.
    pub tls: Option<wire::tls::ServerConfig>,
    /// What a connection may cost.
    pub limits: Limits,
    /// Most connections to one port.
    pub connections_max: usize,
    /// Most bytes that the tables of one parameter on one port may hold.
    pub table_bytes_max: usize,
    /// A trainer that is silent for longer has vanished.
    pub trainer_timeout: Duration,
    /// How long after the first trainer the last one may come.
    pub join_timeout: Duration,
    /// How long trainers may wait for others that are heard of but deliver nothing.
    pub stall_timeout: Duration,
    /// Where to keep checkpoints, and how often to write one.
    pub checkpoint: Option<Checkpointing>,
    /// Which checkpoint to begin with, of those in the folder of `checkpoint`; without one, first
    /// values. Shard 0 decides for all: other servers begin with what it says.
    pub restore: Option<checkpoint::Which>,
}

/// How checkpoints are written.
#[derive(Debug, Clone)]
pub struct Checkpointing {
    /// Where; all servers of the job share the folder.
    pub folder: PathBuf,
    /// How many are kept, at least 1.
    pub keep: u32,
    /// How often; `None` writes one only when a trainer orders it and when the server ends.
    pub interval: Option<Duration>,
    /// Stands for the disk in a simulation; otherwise a thread writes and may wait for the real one.
    pub disk: Option<Arc<dyn Disk>>,
}

/// How a disk takes what is written to it.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Waits as long as the disk takes for so many bytes, or fails as a full one does.
    fn write(&self, bytes: usize) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>;
}

impl ServerConfig {
    /// Defaults for a job of so many trainers.
    pub fn new(trainers: u32, incarnation: u64) -> Self {
        ServerConfig {
            trainers,
            min_trainers: None,
            preset: None,
            incarnation,
            token: None,
            tls: None,
            limits: Limits::default(),
            connections_max: 4096,
            table_bytes_max: usize::MAX,
            trainer_timeout: Duration::from_secs(60),
            join_timeout: Duration::from_secs(600),
            stall_timeout: Duration::from_secs(6 * 3600),
            checkpoint: None,
            restore: None,
        }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.trainers == 0 {
            return Err(Error::invalid("a job has at least one trainer: --num_gradient_servers=1"));
        }
        if self.min_trainers.is_some_and(|least| !(1..=self.trainers).contains(&least)) {
            return Err(Error::invalid(
                "the least number of trainers is not from 1 to their number",
            )
            .with("min_trainers", self.min_trainers.unwrap_or_default())
            .with("num_gradient_servers", self.trainers));
        }
        if self.trainer_timeout < Duration::from_millis(100) {
            return Err(Error::invalid("the time after which a trainer has vanished is too short")
                .with("trainer_timeout_ms", self.trainer_timeout.as_millis())
                .with("least", 100));
        }
        Ok(())
    }

    fn acceptor(&self) -> Result<Acceptor> {
        self.check()?;
        let endpoint = Endpoint {
            token: self.token.clone(),
            limits: self.limits,
            ..Endpoint::new(SERVICE, self.incarnation)
        };
        Acceptor::new(endpoint, self.tls.clone())
    }

    fn shard(&self) -> ShardConfig {
        ShardConfig {
            incarnation: self.incarnation,
            trainers: self.trainers,
            min_trainers: self.min_trainers,
            trainer_timeout: self.trainer_timeout,
            join_timeout: self.join_timeout,
            stall_timeout: self.stall_timeout,
            table_bytes_max: self.table_bytes_max,
            parked_bytes_max: PARKED_BYTES_MAX,
            can_cut: self.checkpoint.is_some(),
            cut_interval: self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.interval),
            preset: self.preset,
        }
    }
}

/// One port as a future, over any listeners, in a [`tokio::task::LocalSet`]: what [`run`] does on a
/// thread of its own. `stops` are the signal to stop, and that another port of the server has failed.
pub async fn serve_port(
    listeners: Vec<Listener>,
    config: &ServerConfig,
    stops: [watch::Receiver<bool>; 2],
) -> Result<()> {
    port::run(0, listeners, config.acceptor()?, config, stops).await.map(drop)
}

/// Serves until all trainers have left, `stop` turns true, or the job cannot go on.
///
/// `ports` are the ports in their order, the dense ones first, each with a listener per address.
/// Blocks.
pub fn run(
    ports: Vec<Vec<TcpListener>>,
    config: &ServerConfig,
    stop: &watch::Receiver<bool>,
) -> Result<Farewell> {
    let acceptor = config.acceptor()?;
    // A port that fails takes the others with it.
    let (failed, has_failed) = watch::channel(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = ports
            .into_iter()
            .map(|listeners| {
                let (acceptor, failed, has_failed) = (&acceptor, &failed, &has_failed);
                std::thread::Builder::new().name("pserver-port".to_owned()).spawn_scoped(
                    scope,
                    move || {
                        let stops = [stop.clone(), has_failed.clone()];
                        port::serve(listeners, acceptor.clone(), config, stops).inspect_err(|_| {
                            failed.send_replace(true);
                        })
                    },
                )
            })
            .collect();
        let mut outcome: Result<Option<Farewell>> = Ok(None);
        for thread in threads {
            let thread =
                thread.map_err(|source| Error::io("cannot start the thread of a port", source))?;
            let served = thread
                .join()
                .unwrap_or_else(|_| Err(Error::new(Kind::Io, "the thread of a port failed")));
            // The first reason is the one that the others followed.
            if let Ok(others) = outcome {
                outcome = served.map(|one| {
                    Some(match others {
                        Some(others) => joint(one, others),
                        None => one,
                    })
                });
            }
        }
        outcome.map(Option::unwrap_or_default)
    })
}

/// What two ports of a server say together.
fn joint(one: Farewell, other: Farewell) -> Farewell {
    // The first attempt of a rank that any port has heard goodbye from had finished.
    let goodbyes = one.goodbyes.zip(other.goodbyes).map(|(one, other)| {
        let attempt = |rank: u32| other.iter().find(|(its, _)| *its == rank).map(|(_, its)| *its);
        let both = one.iter().filter_map(|(rank, own)| Some((*rank, attempt(*rank)?.min(*own))));
        both.collect()
    });
    Farewell {
        trainers_joined: one.trainers_joined.max(other.trainers_joined),
        was_stopped: one.was_stopped || other.was_stopped,
        is_unsaved: one.is_unsaved || other.is_unsaved,
        goodbyes,
    }
}
