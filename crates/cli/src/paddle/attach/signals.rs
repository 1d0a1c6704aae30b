//! Signals to a command that follows a job, as requests.

use contract::exit::from_signal;
use contract::{Error, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// A request to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// The exit code of a command that was ended by this signal.
    pub(crate) exit_code: i32,
    /// Whether it was asked before.
    pub(crate) is_repeated: bool,
}

async fn next(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether hang-ups were refused before this program began, as `nohup` does. That stays so, here and
/// in everything that is started: a handler of our own would take it back.
fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first of the signals.
    mask.is_some_and(|mask| mask & 1 != 0)
}

/// Listens for signals. The third one ends this process at once; a job on its leash then ends too.
/// Must be called on a runtime.
pub(crate) fn listen() -> Result<mpsc::Receiver<Stop>> {
    let open = |kind: SignalKind| {
        signal(kind).map_err(|source| Error::io("cannot wait for signals", source))
    };
    let mut hang_up = match ignores_hang_ups() {
        true => None,
        false => Some(open(SignalKind::hangup())?),
    };
    let (mut interrupt, mut terminate, mut passed_on) = (
        open(SignalKind::interrupt())?,
        open(SignalKind::terminate())?,
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
                Some(_) = next(&mut hang_up) => SignalKind::hangup(),
            };
            let exit_code = from_signal(kind.as_raw_value());
            // Nobody listens any more when the job has just ended by itself.
            let _ = sender.try_send(Stop { exit_code, is_repeated: count > 1 });
            if count > 2 {
                #[expect(clippy::exit, reason = "asked three times: the leash does the rest")]
                std::process::exit(exit_code);
            }
        }
    });
    Ok(receiver)
}
