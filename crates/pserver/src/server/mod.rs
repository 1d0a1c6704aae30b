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
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use wire::{Acceptor, Endpoint, Limits};

/// Everything a server is told; what is missing it learns from the trainers.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The number of trainers.
    pub trainers: u32,
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
    /// Where to keep checkpoints, and how often to write one.
    pub checkpoint: Option<Checkpointing>,
    /// Begin with a checkpoint.
    pub restore: Option<checkpoint::Directory>,
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
}

impl ServerConfig {
    /// Defaults for a job of so many trainers.
    pub fn new(trainers: u32, incarnation: u64) -> Self {
        ServerConfig {
            trainers,
            preset: None,
            incarnation,
            token: None,
            tls: None,
            limits: Limits::default(),
            connections_max: 4096,
            table_bytes_max: usize::MAX,
            trainer_timeout: Duration::from_secs(60),
            checkpoint: None,
            restore: None,
        }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.trainers == 0 {
            return Err(Error::invalid("a job has at least one trainer: --num_gradient_servers=1"));
        }
        if self.trainer_timeout < Duration::from_millis(100) {
            return Err(Error::invalid("the time after which a trainer has vanished is too short")
                .with("trainer_timeout_ms", self.trainer_timeout.as_millis())
                .with("least", 100));
        }
        Ok(())
    }

    fn shard(&self) -> ShardConfig {
        ShardConfig {
            incarnation: self.incarnation,
            trainers: self.trainers,
            trainer_timeout: self.trainer_timeout,
            table_bytes_max: self.table_bytes_max,
            can_cut: self.checkpoint.is_some(),
            cut_interval: self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.interval),
            preset: self.preset,
        }
    }
}

/// Serves until all trainers have left, `stop` turns true, or the job cannot go on. Returns how many
/// trainers have joined.
///
/// `ports` are the ports in their order, the dense ones first, each with a listener per address.
/// Blocks.
pub fn run(
    ports: Vec<Vec<TcpListener>>,
    config: &ServerConfig,
    stop: &watch::Receiver<bool>,
) -> Result<u32> {
    config.check()?;
    let endpoint = Endpoint {
        token: config.token.clone(),
        limits: config.limits,
        ..Endpoint::new(SERVICE, config.incarnation)
    };
    let acceptor = Acceptor::new(endpoint, config.tls.clone())?;
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
        let mut outcome = Ok(0);
        for thread in threads {
            let thread =
                thread.map_err(|source| Error::io("cannot start the thread of a port", source))?;
            let served = thread
                .join()
                .unwrap_or_else(|_| Err(Error::new(Kind::Io, "the thread of a port failed")));
            // The first reason is the one that the others followed.
            if let Ok(joined) = outcome {
                outcome = served.map(|others| joined.max(others));
            }
        }
        outcome
    })
}
