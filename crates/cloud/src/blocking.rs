//! Work that waits for a disk or computes for long, where it keeps no other request waiting.

use contract::{Error, Kind, Result};

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(lost(error)),
    }
}

/// Work that has panicked, or was dropped because the server stops.
pub(crate) fn lost(error: tokio::task::JoinError) -> Error {
    Error::new(Kind::Io, "the server gave this up in the middle: try again, and see its log")
        .because(error)
}
