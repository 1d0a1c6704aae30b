//! The client for callers without a runtime: Python, and programs that just wait.

use super::{
    Addresses, Client, ClientConfig, Page, Position, Pull, PullStyle, PushReport, Restored, Start,
    Value,
};
use crate::message::Statistics;
use contract::Result;
use std::sync::Arc;
use table::gradient::Gradient;
use table::model::ModelIndex;
use wire::blocking::{self, Interrupt, Started};

/// A [`Client`] with a runtime of its own, whose calls block. Errors as of the client's.
///
/// Dropping it says nothing to the servers: call [`Blocking::goodbye`] when the job is done. After
/// a `fork` the child's copy refuses to work, and is forgotten when dropped.
pub struct Blocking {
    client: Arc<Client>,
    runtime: blocking::Blocking,
}

impl Blocking {
    /// As [`Client::connect`]. A push that the interrupt ends cannot be made up for, see
    /// [`Client::push`].
    pub fn connect(
        config: ClientConfig,
        addresses: impl Addresses + 'static,
        interrupt: Option<Interrupt>,
    ) -> Result<Self> {
        let runtime = blocking::Blocking::start("pserver-client", interrupt)?;
        let client = Arc::new(runtime.wait(Client::connect(config, addresses))?);
        Ok(Blocking { client, runtime })
    }

    /// Starts a call of the client, which goes on beside others; [`Blocking::finish`] waits for it.
    pub fn begin_call<T, F>(&self, call: impl FnOnce(Arc<Client>) -> F) -> Result<Started<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.runtime.start_call(call(Arc::clone(&self.client)))
    }

    /// Waits for a call that was started. One that is interrupted can be waited for again.
    pub fn finish<T>(&self, started: &mut Started<T>) -> Result<T> {
        self.wait(started)
    }

    /// Makes a call here that could be started as well.
    pub fn make_call<T, F>(&self, call: impl FnOnce(Arc<Client>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.wait(call(Arc::clone(&self.client)))
    }

    /// The client behind it, for what does not wait.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As [`Client::parameter`].
    pub fn parameter(&self, name: &str) -> Result<ModelIndex> {
        self.client().parameter(name)
    }

    /// As [`Client::start`].
    pub fn start(&self) -> Start {
        self.client().start()
    }

    /// As [`Client::position`].
    pub fn position(&self) -> Position {
        self.client().position()
    }

    /// As [`Client::begin`].
    pub fn begin(&self) -> Result<()> {
        self.wait(self.client().begin())
    }

    /// As [`Client::set`].
    pub fn set(&self, values: &[Value<'_>]) -> Result<()> {
        self.wait(self.client().set(values))
    }

    /// As [`Client::push`].
    pub fn push(&self, gradients: &[Gradient<'_>], samples: u64) -> Result<PushReport> {
        self.wait(self.client().push(gradients, samples))
    }

    /// As [`Client::pull`].
    pub fn pull(&self, pulls: &mut [Pull<'_>]) -> Result<()> {
        self.wait(self.client().pull(pulls))
    }

    /// As [`Client::pull_with`].
    pub fn pull_with(&self, pulls: &mut [Pull<'_>], style: PullStyle) -> Result<()> {
        self.wait(self.client().pull_with(pulls, style))
    }

    /// As [`Client::push_pull`].
    pub fn push_pull(
        &self,
        gradients: &[Gradient<'_>],
        samples: u64,
        pulls: &mut [Pull<'_>],
    ) -> Result<PushReport> {
        self.wait(self.client().push_pull(gradients, samples, pulls))
    }

    /// As [`Client::finish_pass`].
    pub fn finish_pass(&self) -> Result<()> {
        self.wait(self.client().finish_pass())
    }

    /// As [`Client::rest`].
    pub fn rest(&self) -> Result<()> {
        self.wait(self.client().rest())
    }

    /// As [`Client::wake`].
    pub fn wake(&self) -> Result<()> {
        self.wait(self.client().wake())
    }

    /// As [`Client::restored`].
    pub fn restored(&self) -> Restored {
        self.client().restored()
    }

    /// As [`Client::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.wait(self.client().synchronize())
    }

    /// As [`Client::checkpoint`].
    pub fn checkpoint(&self) -> Result<u64> {
        self.wait(self.client().checkpoint())
    }

    /// As [`Client::scan`].
    pub fn scan(&self, parameter: ModelIndex, is_averaged: bool, page: Page<'_>) -> Result<()> {
        self.wait(self.client().scan(parameter, is_averaged, page))
    }

    /// As [`Client::statistics`].
    pub fn statistics(&self) -> Result<Vec<Statistics>> {
        self.wait(self.client().statistics())
    }

    /// As [`Client::goodbye`].
    pub fn goodbye(&self) -> Result<()> {
        self.wait(self.client().goodbye())
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.wait(call)
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
