//! Answers that go on: one JSON object per line, sent as they come to be.
//!
//! A slow reader holds nothing but its own task: the next line is made when it has taken the last.
//! The number of such answers is limited ([`super::followers`]). All end when the server does; those
//! of a caller whose token is revoked, or who is disabled, end then: at once if this server did it,
//! soon if another one did.

use super::followers::{Full, Seat};
use super::{Caller, Refusal};
use crate::Cloud;
use crate::users::service::is_still_let_in;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::{Error, Kind, Result};
use futures_util::stream;
use serde::Serialize;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// While nothing happens an empty line is sent this often, so that both ends, and proxies between
/// them, know that the other is there.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often it is looked whether another server has ended the caller's rights.
const LOOK: Duration = HEARTBEAT;

/// Makes the lines of an answer.
pub(crate) trait Lines: Send + 'static {
    /// The next lines; none if there are none within [`HEARTBEAT`]; `None` when all is said.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Bytes>>>> + Send;
}

/// A value as a line.
pub(crate) fn line(value: &impl Serialize) -> Result<Bytes> {
    let mut bytes = serde_json::to_vec(value)
        .map_err(|source| Error::new(Kind::Io, "cannot render JSON").because(source))?;
    bytes.push(b'\n');
    Ok(bytes.into())
}

/// An answer of all the lines.
pub(crate) fn answer<L: Lines>(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    lines: L,
) -> std::result::Result<Response, Refusal> {
    let seat = cloud.followers.sit(&caller.username).map_err(|full| {
        Refusal::too_fast(match full {
            Full::OfUser => "you follow too many logs and lists: end some first",
            Full::OfAll => "too many logs and lists are followed: try again later",
        })
    })?;
    let state = State {
        lines,
        pending: VecDeque::new(),
        right: Right {
            cloud: Arc::clone(cloud),
            caller: caller.clone(),
            revocations: cloud.revocations.subscribe(),
            stopping: cloud.stopping.clone(),
            looked: Instant::now(),
            is_due: false,
        },
        _seat: seat,
    };
    let stream = stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.next().await {
            Ok(line) => line.map(|line| (Ok::<_, std::io::Error>(line), Some(state))),
            // The connection breaks, so that nobody takes this for the end.
            Err(error) => {
                tracing::warn!(error = error.chain(), "an answer broke off");
                Some((Err(std::io::Error::other("broken off")), None))
            }
        }
    });
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::from_stream(stream)).into_response())
}

struct State<L> {
    lines: L,
    pending: VecDeque<Bytes>,
    right: Right,
    _seat: Seat,
}

impl<L: Lines> State<L> {
    /// The next line; `None` when all is said, or the server ends.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.pending.is_empty() {
            let next = tokio::select! {
                next = self.lines.next() => next?,
                end = self.right.end() => end.map(|()| None)?,
            };
            let Some(lines) = next else { return Ok(None) };
            self.pending = lines.into();
        }
        self.right.check().await?;
        Ok(Some(self.pending.pop_front().unwrap_or(Bytes::from_static(b"\n"))))
    }
}

/// That a caller may be answered.
struct Right {
    cloud: Arc<Cloud>,
    caller: Caller,
    revocations: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    looked: Instant,
    /// Whether it has to be looked, because something was revoked.
    is_due: bool,
}

impl Right {
    /// Waits until the server ends.
    ///
    /// # Errors
    /// The caller's rights ended before.
    async fn end(&mut self) -> Result<()> {
        loop {
            self.check().await?;
            tokio::select! {
                _ = self.stopping.wait_for(|stopping| *stopping) => return Ok(()),
                // Its sender lives as long as the server.
                _ = self.revocations.changed() => self.is_due = true,
                () = tokio::time::sleep_until(self.looked + LOOK) => {}
            }
        }
    }

    /// Looks whether the caller may still be answered, if there is a reason to.
    async fn check(&mut self) -> Result<()> {
        self.is_due |= self.looked.elapsed() >= LOOK;
        self.is_due |= self.revocations.has_changed().unwrap_or(true);
        if !self.is_due {
            return Ok(());
        }
        // Before the question: what is revoked meanwhile is asked about again.
        self.revocations.mark_unchanged();
        if !is_still_let_in(&self.cloud, &self.caller).await? {
            let message = "the caller's token was revoked, or has expired";
            return Err(
                Error::new(Kind::Unauthenticated, message).with("user", &self.caller.username)
            );
        }
        (self.looked, self.is_due) = (Instant::now(), false);
        Ok(())
    }
}
