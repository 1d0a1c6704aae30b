//! How the program ended, told to the log, and to whoever looks at the pod: its termination log is
//! shown by `kubectl describe pod`, and is the message of `paddlecloud get workers`.

use contract::exit;
use rustix::process::WaitStatus;
use std::io::Write;

/// Made by the kubelet in every container.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// The kubelet shows no more.
const NOTE_BYTES_MAX: usize = 4096;

/// Tells how a program ended, and returns its exit code, 128 + signal.
pub(crate) fn tell(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(exit::from_signal);
    let code = status.exit_status().or(signal).unwrap_or(1);
    let reason = format!("exit code {code}: {}", exit::reason(code));
    // Where not even standard error can be written, the exit code has to say it all.
    let _ = writeln!(std::io::stderr(), "{}: the program ended, {reason}", crate::COMMAND);
    note(&reason);
    code
}

/// Writes to the termination log, where there is one: outside of a pod there is none.
pub(crate) fn note(reason: &str) {
    let mut end = reason.len().min(NOTE_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    if std::path::Path::new(TERMINATION_LOG).is_file() {
        // The reason is in the log too.
        let _ = std::fs::write(TERMINATION_LOG, &reason[..end]);
    }
}
