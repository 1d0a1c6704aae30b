//! How the gradients of several trainers meet on the parameter servers.
//!
//! This is the default of a job, `PADDLE_MODE`; a program's own arguments win over it, and on the
//! wire the mode is per parameter. What each mode does to an update is `pserver`'s policy.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// `sync`, `async`, `stale:K` or `hybrid`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mode {
    /// An update waits for the gradients of all trainers.
    #[default]
    Sync,
    /// Every gradient is applied as it arrives.
    Async,
    /// As async, but the fastest trainer is at most this many steps ahead of the slowest.
    Stale(u32),
    /// Dense parameters in sync, sparse rows async.
    Hybrid,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Sync => f.write_str("sync"),
            Mode::Async => f.write_str("async"),
            Mode::Stale(steps) => write!(f, "stale:{steps}"),
            Mode::Hybrid => f.write_str("hybrid"),
        }
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let stale = || text.strip_prefix("stale:")?.parse().ok().map(Mode::Stale);
        match text {
            "sync" => Ok(Mode::Sync),
            "async" => Ok(Mode::Async),
            "hybrid" => Ok(Mode::Hybrid),
            _ => stale().ok_or_else(|| {
                Error::invalid("not a mode: use sync, async, stale:K (K steps) or hybrid")
                    .with("mode", text)
            }),
        }
    }
}

impl TryFrom<String> for Mode {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_reads_back_from_text_and_json() {
        for mode in [Mode::Sync, Mode::Async, Mode::Stale(0), Mode::Stale(u32::MAX), Mode::Hybrid] {
            assert_eq!(mode.to_string().parse::<Mode>().unwrap(), mode);
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(serde_json::from_str::<Mode>(&json).unwrap(), mode);
        }
    }

    #[test]
    fn an_unknown_mode_is_refused_with_the_known_ones() {
        for text in ["", "Sync", "stale", "stale:", "stale:-1", "stale:4294967296"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
        insta::assert_snapshot!(
            "stale:x".parse::<Mode>().unwrap_err(),
            @"not a mode: use sync, async, stale:K (K steps) or hybrid (mode: stale:x)"
        );
    }
}
