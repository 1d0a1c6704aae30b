//! Signals to a launcher as requests to end its job.

use contract::exit::from_signal;
use contract::{Error, Result};
use scheduler::conductor::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The first signal asks, the second does not, the third ends this process: its supervisors notice
/// and end everything. Must be called on a runtime.
pub(crate) fn listen() -> Result<mpsc::Receiver<Stop>> {
    let open = |kind: SignalKind| {
        signal(kind).map_err(|source| Error::io("cannot wait for signals", source))
    };
    let (mut interrupt, mut terminate, mut hang_up, mut passed_on) = (
        open(SignalKind::interrupt())?,
        open(SignalKind::terminate())?,
        open(SignalKind::hangup())?,
        // What `mpirun` passes on to its ranks at once; at SIGTERM it takes its time.
        open(SignalKind::user_defined1())?,
    );
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        for count in 1.. {
            let kind = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                _ = passed_on.recv() => SignalKind::terminate(),
                _ = hang_up.recv() => SignalKind::hangup(),
            };
            let exit_code = from_signal(kind.as_raw_value());
            // Nobody listens any more when the job has just ended by itself.
            let _ = sender.try_send(Stop { exit_code, is_forced: count > 1 });
            if count > 2 {
                #[expect(clippy::exit, reason = "asked three times: the supervisors do the rest")]
                std::process::exit(exit_code);
            }
        }
    });
    Ok(receiver)
}
