//! A client's runtime for callers that have none: Python, and programs that just wait.

use contract::{Error, Kind, Result};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinHandle};

/// Asked a few times a second while a call waits; an error ends the call with it. Python puts its
/// check for signals here.
pub type Interrupt = Box<dyn Fn() -> Result<()> + Send + Sync>;

const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);
/// One reads while another writes; the caller's thread does the rest.
const WORKERS: usize = 2;

/// Runs the calls of an async client to their end, on the caller's thread.
///
/// After a `fork` the child's copy refuses to work, and is forgotten when dropped.
pub struct Blocking {
    /// Always there, but to be dropped in its own way.
    runtime: Option<Runtime>,
    interrupt: Option<Interrupt>,
    process: u32,
}

impl Blocking {
    /// Starts the runtime; `name` is that of its threads.
    pub fn start(name: &str, interrupt: Option<Interrupt>) -> Result<Self> {
        refuse_nesting()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(|source| Error::io("cannot start the client's runtime", source))?;
        Ok(Blocking { runtime: Some(runtime), interrupt, process: std::process::id() })
    }

    /// Waits for a call, which is dropped when the interrupt says so. `Unsupported` from async
    /// code, and in a child process.
    pub fn wait<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        refuse_nesting()?;
        match &self.runtime {
            Some(runtime) if !self.is_forked() => {
                runtime.block_on(interruptible(self.interrupt.as_ref(), call))
            }
            _ => Err(forked()),
        }
    }

    /// Starts a call on the runtime's threads, to be waited for by [`Blocking::wait`].
    pub fn start_call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Started<T>> {
        match &self.runtime {
            Some(runtime) if !self.is_forked() => Ok(Started(runtime.spawn(call))),
            _ => Err(forked()),
        }
    }

    /// Whether this is a child process's copy: it has no worker threads, and locks that they held
    /// are held for ever.
    pub fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.is_forked() {
            std::mem::forget(runtime);
        } else {
            // Does not wait, so that it may happen anywhere.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("process", &self.process).finish_non_exhaustive()
    }
}

/// A call that goes on by itself. Dropping this does not end it.
pub struct Started<T>(JoinHandle<Result<T>>);

impl<T> Future for Started<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let ended = |outcome: std::result::Result<Result<T>, JoinError>| {
            let lost = |source| Error::new(Kind::Conflict, "a call has panicked").because(source);
            outcome.unwrap_or_else(|source| Err(lost(source)))
        };
        Pin::new(&mut self.0).poll(context).map(ended)
    }
}

fn forked() -> Error {
    Error::new(
        Kind::Unsupported,
        "this client was connected before a fork; connect in the child process, as another rank",
    )
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
