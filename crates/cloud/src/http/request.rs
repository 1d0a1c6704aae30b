//! What was sent, read into the types of the contract; what cannot be read is refused with the
//! field and the reason.

use super::Refusal;
use axum::body::BodyDataStream;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request;
use contract::api::{PAGE_ROWS, PAGE_ROWS_MAX};
use contract::{Error, Kind};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A JSON body. An empty one is an empty object, and the content type is not looked at: the
/// original's clients send it with everything.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let limit = request.extensions().get::<BodyLimit>().copied().unwrap_or_default();
        let bytes = read(request.into_body().into_data_stream(), limit.0).await?;
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        serde_json::from_slice(bytes)
            .map(Body)
            .map_err(|error| Error::invalid(format!("the body cannot be read: {error}")).into())
    }
}

/// The largest JSON body of a call; a layer of its route, where it is not the usual one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

impl Default for BodyLimit {
    fn default() -> Self {
        BodyLimit(2 << 20)
    }
}

async fn read(mut content: BodyDataStream, bytes_max: usize) -> contract::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let next = tokio::time::timeout(STILL, content.next()).await;
        let next = next.map_err(|_| Error::new(Kind::Timeout, "the body stopped arriving"))?;
        let Some(piece) = next else { return Ok(bytes) };
        let piece = piece.map_err(|source| {
            Error::invalid("the body did not arrive whole: send it again").because(source)
        })?;
        if bytes.len() + piece.len() > bytes_max {
            drain(content, DRAIN_BYTES_MAX).await;
            return Err(Error::new(Kind::LimitExceeded, "the body is too large")
                .with("bytes_max", bytes_max));
        }
        bytes.extend_from_slice(&piece);
    }
}

/// Reads the rest of a body that is refused, within limits: its sender would see a broken
/// connection instead of the reason.
pub(crate) async fn drain(mut content: BodyDataStream, bytes_max: u64) {
    let mut bytes = 0;
    let all = async {
        while let Some(Ok(piece)) = content.next().await {
            bytes += piece.len() as u64;
            if bytes > bytes_max {
                break;
            }
        }
    };
    // Who is slower than this does not hear the reason.
    let _ = tokio::time::timeout(DRAIN, all).await;
}

/// How long the next piece of a body may take.
const STILL: Duration = Duration::from_secs(60);
const DRAIN: Duration = Duration::from_secs(60);
const DRAIN_BYTES_MAX: u64 = 64 << 20;

/// The query of a request.
pub(crate) struct Question<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Question<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Refusal> {
        Query::try_from_uri(&parts.uri).map(|Query(query)| Question(query)).map_err(|error| {
            Error::invalid(format!("the query cannot be read: {}", error.body_text())).into()
        })
    }
}

/// The parts of a path that the router has in braces.
pub(crate) struct Parts<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Parts<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Refusal> {
        Path::from_request_parts(parts, state).await.map(|Path(values)| Parts(values)).map_err(
            |error| {
                Error::invalid(format!("the path cannot be read: {}", error.body_text())).into()
            },
        )
    }
}

/// How many rows a page has.
pub(crate) fn page_rows(limit: Option<u32>) -> contract::Result<u32> {
    match limit.unwrap_or(PAGE_ROWS) {
        rows @ 1..=PAGE_ROWS_MAX => Ok(rows),
        rows => {
            let message = format!("limit: use 1 to {PAGE_ROWS_MAX}");
            Err(Error::invalid(message).with("limit", rows))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_is_not_waited_for() {
        let begun = futures_util::stream::iter([Ok::<_, std::io::Error>("{")]);
        let stalled = begun.chain(futures_util::stream::pending());
        let content = axum::body::Body::from_stream(stalled).into_data_stream();
        let error = read(content, 100).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Timeout);
    }
}
