//! The client for callers without a runtime: Python, and programs that just wait.

use super::{Client, ClientConfig, Interrupt, Next, Reopened, Status};
use crate::task::Lease;
use contract::Result;
use contract::port::Endpoint;
use std::sync::Arc;
use std::time::Duration;
use wire::blocking;

/// A [`Client`] with a runtime of its own, whose calls block. Errors as of the client's. A call that
/// the interrupt ends may be made again.
///
/// After a `fork` the child's copy refuses to work, and is forgotten when dropped.
pub struct Blocking {
    client: Arc<Client>,
    runtime: blocking::Blocking,
}

impl Blocking {
    /// As [`Client::connect`].
    pub fn connect(
        config: ClientConfig,
        address: &Endpoint,
        interrupt: Option<Interrupt>,
    ) -> Result<Self> {
        let runtime = blocking::Blocking::start("master-client", interrupt)?;
        let client = Arc::new(runtime.wait(Client::connect(config, address))?);
        Ok(Blocking { client, runtime })
    }

    /// As [`Client::next_task`].
    pub fn next_task(&self, timeout: Duration) -> Result<Next> {
        self.runtime.wait(self.client.next_task(timeout))
    }

    /// As [`Client::finish`].
    pub fn finish(&self, lease: Lease, cut: Option<u64>) -> Result<bool> {
        self.runtime.wait(self.client.finish(lease, cut))
    }

    /// As [`Client::fail`].
    pub fn fail(&self, lease: Lease, reason: &str) -> Result<bool> {
        self.runtime.wait(self.client.fail(lease, reason))
    }

    /// As [`Client::give_back`].
    pub fn give_back(&self, lease: Lease) -> Result<bool> {
        self.runtime.wait(self.client.give_back(lease))
    }

    /// As [`Client::has`].
    pub fn has(&self, lease: Lease) -> bool {
        self.client.has(lease)
    }

    /// As [`Client::begin_pass`].
    pub fn begin_pass(&self, pass: u64) {
        self.client.begin_pass(pass);
    }

    /// As [`Client::pass`].
    pub fn pass(&self) -> Option<u64> {
        self.client.pass()
    }

    /// As [`Client::set_dataset`].
    pub fn set_dataset(&self, patterns: &[String]) -> Result<()> {
        self.runtime.wait(self.client.set_dataset(patterns))
    }

    /// As [`Client::request_save_model`].
    pub fn request_save_model(&self, trainer: &str, duration: Duration) -> Result<bool> {
        self.runtime.wait(self.client.request_save_model(trainer, duration))
    }

    /// As [`Client::reopen`].
    pub fn reopen(&self, cut: u64, restore: u64) -> Result<Reopened> {
        self.runtime.wait(self.client.reopen(cut, restore))
    }

    /// As [`Client::status`].
    pub fn status(&self) -> Result<Status> {
        self.runtime.wait(self.client.status())
    }

    /// As [`Client::leave`].
    pub fn leave(&self) -> Result<()> {
        self.runtime.wait(self.client.leave())
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if self.runtime.is_forked() {
            // What the client's own end would do needs locks that may be held for ever.
            std::mem::forget(Arc::clone(&self.client));
        }
    }
}
