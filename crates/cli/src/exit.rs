//! The table kind → exit code, and the one place that prints an error.

use contract::{Error, Kind, Result};
use std::io::Write;
use std::process::ExitCode;

/// The exit code of what was asked for wrongly.
pub const ASKED_WRONGLY: u8 = 2;

/// Runs a command to its exit code: 0 done, 1 failed, 2 asked for wrongly.
pub fn run(command: &str, work: impl FnOnce() -> Result<ExitCode>) -> ExitCode {
    match work() {
        Ok(code) => code,
        Err(error) => {
            report(command, &error);
            ExitCode::from(code(error.kind()))
        }
    }
}

/// Prints an error with its causes, on one line.
pub fn report(command: &str, error: &Error) {
    // Where not even standard error can be written, the exit code has to say it all.
    let _ = writeln!(std::io::stderr(), "{command}: {}", error.chain());
}

fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Invalid => ASKED_WRONGLY,
        // A new kind is a failure until this table says otherwise.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_code_that_the_documents_promise() {
        let codes = Kind::ALL.map(|kind| (kind, code(kind)));
        // Written out, so that a new kind has to be decided about here.
        let expected = [
            (Kind::Invalid, 2),
            (Kind::NotFound, 1),
            (Kind::AlreadyExists, 1),
            (Kind::Unauthenticated, 1),
            (Kind::Forbidden, 1),
            (Kind::Conflict, 1),
            (Kind::LimitExceeded, 1),
            (Kind::Damaged, 1),
            (Kind::Unsupported, 1),
            (Kind::Unavailable, 1),
            (Kind::Timeout, 1),
            (Kind::Interrupted, 1),
            (Kind::Io, 1),
        ];
        assert_eq!(codes, expected);
    }
}
