//! What a client is told.

use crate::message::NAME_BYTES_MAX;
use contract::secret::Secret;
use contract::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use wire::{Dial, Limits, Retry, tls};

/// Everything a client is told but the address.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// What people call this trainer, in the master's log and status. Default empty.
    pub name: String,
    /// Which process this is; [`wire::fresh_incarnation`] draws one. Leases belong to it.
    pub incarnation: u64,
    /// The job's token.
    pub token: Option<Secret>,
    /// Speak TLS.
    pub tls: Option<tls::ClientConfig>,
    /// What a connection may cost.
    pub limits: Limits,
    /// What to do when the master cannot be reached. Its deadline is 10 minutes by default: a
    /// master that died comes back, and its trainers wait for it.
    pub retry: Retry,
    /// How long the first connection may take; `None` for the deadline of `retry`. A master that
    /// never answered is more likely not there than coming back.
    pub connect_deadline: Option<Duration>,
    /// A master that owes an answer for so long is taken for dead and dialled again. Default 30 s.
    pub silence_max: Duration,
    /// How long the master may look at the files of a dataset. Default 1 hour.
    pub dataset_deadline: Duration,
    /// Another way to the master than TCP. Default `None`.
    pub dial: Option<Arc<dyn Dial>>,
}

impl ClientConfig {
    /// Defaults for a process.
    pub fn new(incarnation: u64) -> Self {
        ClientConfig {
            name: String::new(),
            incarnation,
            token: None,
            tls: None,
            limits: Limits::default(),
            retry: Retry { deadline: Duration::from_secs(600), ..Retry::default() },
            connect_deadline: None,
            silence_max: Duration::from_secs(30),
            dataset_deadline: Duration::from_secs(3600),
            dial: None,
        }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.name.len() > NAME_BYTES_MAX {
            return Err(Error::invalid("name of a trainer is too long")
                .with("bytes", self.name.len())
                .with("bytes_max", NAME_BYTES_MAX));
        }
        if self.silence_max < Duration::from_millis(1) {
            return Err(Error::invalid("silence_max must be at least a millisecond"));
        }
        self.retry.check()
    }
}
