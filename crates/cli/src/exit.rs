//! The table kind → exit code, and the one place that prints an error.

use contract::{Error, Kind, Result};
use std::io::Write;
use std::process::ExitCode;

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
        Kind::Invalid => 2,
        // A new kind is a failure until this table says otherwise.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_request_is_a_usage_error() {
        for kind in Kind::ALL {
            assert_eq!(code(kind), if kind == Kind::Invalid { 2 } else { 1 }, "{kind:?}");
        }
    }
}
