//! What ends a node early: SIGTERM or SIGINT, when its job is killed, has reached its time limit, or
//! has lost another node. From when it is listened for, they set a flag and end nothing: results are
//! still to be sent. The flag is for the whole life of the process, because a program in it that has
//! once listened for a signal is not ended by that signal any more.

use super::say;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Whether the node is to end.
#[derive(Debug, Clone)]
pub(super) struct Ending(pub(super) Arc<AtomicBool>);

/// How often the flag is looked at by who waits for it.
const LOOK: Duration = Duration::from_millis(50);

impl Ending {
    /// Listens until the process ends.
    pub(super) fn listen(flag: Arc<AtomicBool>) -> Result<Ending> {
        let failed = |source| Error::io("cannot listen for signals", source);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (mut terminate, mut interrupt) = {
            let _inside = runtime.enter();
            let terminate = signal(SignalKind::terminate()).map_err(failed)?;
            (terminate, signal(SignalKind::interrupt()).map_err(failed)?)
        };
        let heard = Arc::clone(&flag);
        std::thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = interrupt.recv() => {}
                    }
                    if !heard.swap(true, Ordering::Relaxed) {
                        say("asked to end");
                    }
                }
            });
        });
        Ok(Ending(flag))
    }

    /// Whether the node was asked to end.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same, for a while in which it may still be asked.
    pub(super) fn is_asked_within(&self, patience: Duration) -> bool {
        let began = Instant::now();
        while !self.is_asked() && began.elapsed() < patience {
            std::thread::sleep(LOOK);
        }
        self.is_asked()
    }

    /// Ends what the node does if it was asked to end.
    ///
    /// # Errors
    /// [`Kind::Interrupted`]: it was.
    pub(super) fn check(&self, when: &str) -> Result<()> {
        match self.is_asked() {
            true => Err(Error::new(Kind::Interrupted, format!("asked to end {when}"))),
            false => Ok(()),
        }
    }
}
