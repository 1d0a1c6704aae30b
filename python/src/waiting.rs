//! What calls that wait have in common: how long, and that Ctrl-C ends them.

use contract::{Error, Kind};
use pserver::client::Interrupt;
use pyo3::prelude::*;
use std::time::Duration;

/// Asks Python whether a signal came; only its main thread hears of them.
pub(crate) fn interrupt() -> Interrupt {
    Box::new(|| {
        Python::attach(|py| py.check_signals())
            .map_err(|_| Error::new(Kind::Interrupted, "interrupted"))
    })
}

/// A duration that Python gives in seconds, under this name.
pub(crate) fn seconds(name: &'static str, value: f64) -> contract::Result<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| Error::invalid("not a number of seconds").with(name, value))
}
