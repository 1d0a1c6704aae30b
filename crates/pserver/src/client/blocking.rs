//! The client for callers without a runtime: Python, and programs that just wait.

use super::{
    Addresses, Client, ClientConfig, Gradient, Page, Position, Pull, PullStyle, PushReport,
    Restored, Start, Value,
};
use crate::message::Statistics;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Asked a few times a second while a call waits; an error ends the call with it. Python puts its
/// check for signals here. A push that is ended so cannot be made up for, see [`Client::push`].
pub type Interrupt = Box<dyn Fn() -> Result<()> + Send + Sync>;

const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);
/// One reads while another writes; the caller's thread does the rest.
const WORKERS: usize = 2;

/// A [`Client`] with a runtime of its own, whose calls block. Errors as of the client's.
///
/// Dropping it says nothing to the servers: call [`Blocking::goodbye`] when the job is done. After
/// a `fork` the child's copy refuses to work, and is forgotten when dropped.
pub struct Blocking {
    client: Arc<Client>,
    /// Always there, but to be dropped in its own way.
    runtime: Option<Runtime>,
    interrupt: Option<Interrupt>,
    process: u32,
}

impl Blocking {
    /// As [`Client::connect`].
    pub fn connect(
        config: ClientConfig,
        addresses: impl Addresses + 'static,
        interrupt: Option<Interrupt>,
    ) -> Result<Self> {
        refuse_nesting()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("pserver-client")
            .enable_all()
            .build()
            .map_err(|source| Error::io("cannot start the client's runtime", source))?;
        let connecting = interruptible(interrupt.as_ref(), Client::connect(config, addresses));
        let client = match runtime.block_on(connecting) {
            Ok(client) => client,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (client, runtime) = (Arc::new(client), Some(runtime));
        Ok(Blocking { client, runtime, interrupt, process: std::process::id() })
    }

    /// The client behind it, for what does not wait.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As [`Client::parameter`].
    pub fn parameter(&self, name: &str) -> Result<usize> {
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
    pub fn restored(&self) -> Vec<Restored> {
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
    pub fn scan(&self, parameter: usize, is_averaged: bool, page: Page<'_>) -> Result<()> {
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
        refuse_nesting()?;
        match &self.runtime {
            Some(runtime) if self.process == std::process::id() => {
                runtime.block_on(interruptible(self.interrupt.as_ref(), call))
            }
            _ => Err(Error::new(
                Kind::Unsupported,
                "this client was connected before a fork; connect in the child process, as another \
                 rank",
            )),
        }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.process == std::process::id() {
            // Does not wait, so that it may happen anywhere.
            runtime.shutdown_background();
        } else {
            // A child process has no worker threads, and locks that they held are held for ever.
            std::mem::forget((Arc::clone(&self.client), runtime));
        }
    }
}

async fn interruptible<T>(
    interrupt: Option<&Interrupt>,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(interrupt) = interrupt else { return call.await };
    let mut call = std::pin::pin!(call);
    loop {
        match tokio::time::timeout(INTERRUPT_INTERVAL, &mut call).await {
            Ok(outcome) => return outcome,
            Err(_) => interrupt()?,
        }
    }
}

fn refuse_nesting() -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Err(Error::new(
            Kind::Unsupported,
            "blocking calls cannot be made from async code; use the async client there",
        )),
        Err(_) => Ok(()),
    }
}
