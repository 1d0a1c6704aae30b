//! The table kind → Python exception. The classes are Python's, in `paddle/errors.py`, so that each
//! can be both ours (`except paddle.errors.Error`) and the built-in that callers expect.

use contract::{Error, Kind};
use pyo3::prelude::*;

/// The name of the class in `paddle.errors` for this kind.
fn class_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "InvalidError",
        Kind::NotFound => "NotFoundError",
        Kind::AlreadyExists => "AlreadyExistsError",
        Kind::Unauthenticated => "UnauthenticatedError",
        Kind::Forbidden => "ForbiddenError",
        Kind::Conflict => "ConflictError",
        Kind::LimitExceeded => "LimitExceededError",
        Kind::Damaged => "DamagedError",
        Kind::Unsupported => "UnsupportedError",
        Kind::Unavailable => "UnavailableError",
        Kind::Timeout => "DeadlineError",
        Kind::Interrupted => "InterruptedByUserError",
        // `Kind` may grow; what has no class of its own is an operating-system error.
        _ => "SystemError",
    }
}

/// Our error as a Python exception with the same text, and the user's line where it is known.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn raise(error: Error) -> PyErr {
    Python::attach(|py| {
        let exception = py
            .import("paddle.errors")
            .and_then(|module| module.getattr(class_name(error.kind())))
            .and_then(|class| class.call1((error.chain(),)))
            .and_then(|exception| {
                if let Some((_, line)) = error.context().find(|(key, _)| *key == "at") {
                    exception.setattr("at", line)?;
                }
                Ok(exception)
            });
        match exception {
            Ok(exception) => PyErr::from_value(exception),
            Err(failure) => failure,
        }
    })
}
