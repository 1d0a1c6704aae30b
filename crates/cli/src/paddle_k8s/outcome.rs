//! How the program ended, told to the log, and to whoever looks at the pod: its termination log is
//! shown by `kubectl describe pod`, and is the message of `paddlecloud get workers`.

use crate::program::Ended;
use contract::exit;
use contract::exit::from_signal;
use contract::role::Role;
use std::io::Write;

/// As the conductor of other places says it.
const STOPPED: &str = "a signal ended it before the job was over";
/// Made by the kubelet in every container.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// The kubelet shows no more.
const NOTE_BYTES_MAX: usize = 4096;

/// Tells how a program ended, and returns the exit code of the pod: the program's own, but for a
/// server that a signal has ended in order. Its job is not over, which the cluster has to learn.
pub(crate) fn tell(ended: &Ended, role: Role) -> i32 {
    let was_stopped = ended.code == 0 && role != Role::Trainer && ended.was_stopped;
    let (code, reason) = if was_stopped {
        (ended.signal.map_or(1, |signal| from_signal(signal.as_raw())), STOPPED.to_owned())
    } else {
        let why = ended.message.clone().unwrap_or_else(|| exit::reason(ended.code));
        (ended.code, format!("exit code {}: {why}", ended.code))
    };
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
