//! The signals that are passed on to the program.

use contract::{Error, Result};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const FORWARDED: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2];
/// Signals that wait to be passed on; more than that say nothing new.
const QUEUE_MAX: usize = 16;

/// Listens for signals from now on. Must be called on a runtime.
pub(crate) fn listen() -> Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    for forwarded in FORWARDED {
        let mut stream = signal(SignalKind::from_raw(forwarded.as_raw()))
            .map_err(|source| Error::io("cannot wait for signals", source))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                // A full queue has the same signals waiting.
                let _ = sender.try_send(forwarded);
            }
        });
    }
    Ok(receiver)
}
