//! The server: sockets and a clock around the queue.
//!
//! Takes bound listeners and a signal to stop; binding, flags and signals are `cli`'s. Connections
//! read requests and write replies; one loop decides (`desk`). It takes all requests that have come,
//! decides them, writes the decisions to the journal with one sync, and only then answers: the more
//! trainers, the more share a sync.

mod connection;
mod desk;

use crate::dataset::{Dataset, Split};
use crate::journal::{Journal, Recovered};
use crate::message::SERVICE;
use crate::queue::{Queue, Rules};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use desk::{Desk, Event};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use wire::{Acceptor, Endpoint, Limits, Listener};

/// Everything a master is told.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Which life of this master it is.
    pub incarnation: u64,
    /// The job's token; peers must prove that they have it.
    pub token: Option<Secret>,
    /// Speak TLS.
    pub tls: Option<wire::tls::ServerConfig>,
    /// What a connection may cost.
    pub limits: Limits,
    /// Most connections.
    pub connections_max: usize,
    /// By what rules tasks are dealt out.
    pub rules: Rules,
    /// How files are cut into tasks.
    pub split: Split,
    /// Paths and globs; if there are none, the first trainer that says what the data is decides.
    pub dataset: Vec<String>,
    /// Keep the state in this folder, and begin with what it has.
    pub state_dir: Option<PathBuf>,
}

/// A master that has its state and can serve.
pub struct Master {
    config: ServerConfig,
    queue: Queue,
    journal: Option<Journal>,
}

/// Requests that wait for the loop; more wait in their sockets.
const EVENTS_MAX: usize = 1024;
/// The longest the loop sleeps; it bounds how long a request of a peer that went is kept.
const SLEEP_MAX: Duration = Duration::from_secs(10);

impl ServerConfig {
    /// Defaults, without data and in memory only.
    pub fn new(incarnation: u64) -> Self {
        ServerConfig {
            incarnation,
            token: None,
            tls: None,
            limits: Limits {
                frame_bytes_max: 32 << 20,
                read_buffer_bytes: 16 << 10,
                write_buffer_bytes: 16 << 10,
                pooled_bytes_max: 1 << 20,
                ..Limits::default()
            },
            connections_max: 16_384,
            rules: Rules::default(),
            split: Split::default(),
            dataset: Vec::new(),
            state_dir: None,
        }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        self.split.check()?;
        self.rules.check()
    }
}

impl Master {
    /// Recovers the state, if any is kept, and cuts the dataset into tasks, if one is named.
    ///
    /// `Conflict` if the state is of another dataset; errors of the dataset as of
    /// [`Dataset::build`], of the state as of [`Journal::open`].
    pub fn open(config: ServerConfig) -> Result<Master> {
        config.check()?;
        let (journal, recovered) = match &config.state_dir {
            None => (None, Recovered::default()),
            Some(folder) => {
                let (journal, recovered) = Journal::open(folder)?;
                (Some(journal), recovered)
            }
        };
        let Recovered { facts, changes } = recovered;
        let queue = Queue::recover(config.rules.clone(), facts, &changes, now());
        let queue = queue.map_err(|error| match &config.state_dir {
            Some(folder) => error.with("state_dir", folder.display()),
            None => error,
        })?;
        let mut master = Master { config, queue, journal };
        master.load()?;
        if master.queue.is_over() {
            let passes = master.queue.pass();
            tracing::info!(passes, "all passes were finished: there is nothing left to deal out");
        }
        Ok(master)
    }

    fn load(&mut self) -> Result<()> {
        let wanted = &self.config.dataset;
        match self.queue.dataset() {
            Some(dataset) if !wanted.is_empty() && dataset.patterns() != wanted => Err(Error::new(
                Kind::Conflict,
                "the state is of another dataset; name that, or give another --state_dir",
            )
            .with("dataset", wanted.join(" "))
            .with("of_state", dataset.patterns().join(" "))),
            Some(dataset) => {
                tracing::info!(
                    tasks = dataset.tasks(),
                    pass = self.queue.pass(),
                    "going on from the state"
                );
                Ok(())
            }
            None if wanted.is_empty() => Ok(()),
            None => {
                let dataset = Dataset::build(wanted, &self.config.split)?;
                tracing::info!(tasks = dataset.tasks(), "dataset is set");
                self.queue.fill(now(), dataset);
                let changes = self.queue.take_changes();
                self.journal.as_mut().map_or(Ok(()), |journal| journal.append(&changes))
            }
        }
    }

    /// Serves until `stop` turns true or the state cannot be kept any more. `listeners` are those of
    /// one port, one per address. Blocks. Returns how many trainers have asked for tasks.
    pub fn run(self, listeners: Vec<TcpListener>, stop: &watch::Receiver<bool>) -> Result<u32> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::io("cannot start the master's runtime", source))?;
        let outcome = runtime.block_on(async {
            let refused = |source| Error::io("cannot listen", source);
            let mut open = Vec::new();
            for listener in listeners {
                listener.set_nonblocking(true).map_err(refused)?;
                let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
                open.push(Listener::Tcp(listener));
            }
            self.serve(open, stop.clone()).await
        });
        // Files of a dataset that are being looked at are not waited for.
        runtime.shutdown_background();
        outcome
    }

    /// The same as a future, over any listeners. Whatever it started ends when it is dropped.
    pub async fn serve(
        self,
        listeners: Vec<Listener>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<u32> {
        let Master { config, queue, journal } = self;
        let endpoint = Endpoint {
            token: config.token.clone(),
            limits: config.limits,
            ..Endpoint::new(SERVICE, config.incarnation)
        };
        let acceptor = Acceptor::new(endpoint, config.tls.clone())?;
        let (events, mut incoming) = mpsc::channel::<Event>(EVENTS_MAX);
        let connections = Arc::new(Semaphore::new(config.connections_max));
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let (acceptor, connections) = (acceptor.clone(), Arc::clone(&connections));
            accepting.spawn(connection::accept(listener, acceptor, events.clone(), connections));
        }
        let mut desk = Desk::new(queue, journal, config.split, events);
        loop {
            let wake = desk.next_wake().unwrap_or_else(|| now() + SLEEP_MAX);
            tokio::select! {
                // In this order, so that equal runs are equal.
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(desk.trainers()),
                Some(event) = incoming.recv() => {
                    desk.handle(now(), event);
                    while let Ok(event) = incoming.try_recv() {
                        desk.handle(now(), event);
                    }
                }
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            desk.conclude(now())?;
        }
    }
}

/// The time by the runtime's clock, which stands still between the events of a simulation.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
