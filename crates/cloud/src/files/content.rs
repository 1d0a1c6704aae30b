//! A file as an answer: the whole or a range of it, if the caller does not have it already
//! (RFC 9110, sections 13 and 14).

use super::stores::Opened;
use crate::http::Refusal;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::api::file::Entry;
use contract::checksum::{CHECKSUM_BYTES, Summing};
use contract::{Error, Kind};
use futures_util::stream::{self, StreamExt};
use std::ops::Range;

/// How to answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// The checksum follows the bytes.
    pub(crate) is_checked: bool,
    /// It is a download of somebody's browser, to be saved under the file's name.
    pub(crate) is_attachment: bool,
}

/// Answers with a file.
pub(crate) fn answer(
    opened: Opened,
    asked: &HeaderMap,
    manner: Manner,
) -> Result<Response, Refusal> {
    let entry = &opened.entry;
    let etag = format!("\"{}\"", entry.etag);
    let text = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
    let has = |list: &str| list.split(',').any(|one| one.trim() == etag || one.trim() == "*");
    if text(header::IF_MATCH).is_some_and(|list| !has(list)) {
        let message = "the file was changed: look at it again";
        let error = Error::new(Kind::Conflict, message).with("path", &entry.path);
        let mut response = Refusal::from(error).into_response();
        *response.status_mut() = StatusCode::PRECONDITION_FAILED;
        return Ok(response);
    }
    let mut response = Response::new(Body::empty());
    describe(response.headers_mut(), entry, &etag, manner);
    if text(header::IF_NONE_MATCH).is_some_and(has) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let is_current = text(header::IF_RANGE).is_none_or(|one| one.trim() == etag);
    let wanted = match text(header::RANGE).filter(|_| is_current) {
        None => Wanted::All,
        Some(range) => parse(range, entry.bytes),
    };
    let range = match wanted {
        Wanted::All => 0..entry.bytes,
        Wanted::Part(range) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let text = format!("bytes {}-{}/{}", range.start, range.end - 1, entry.bytes);
            insert(response.headers_mut(), header::CONTENT_RANGE, &text);
            range
        }
        Wanted::Nothing => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            let text = format!("bytes */{}", entry.bytes);
            insert(response.headers_mut(), header::CONTENT_RANGE, &text);
            return Ok(response);
        }
    };
    let sum_bytes = if manner.is_checked { CHECKSUM_BYTES as u64 } else { 0 };
    let length = range.end - range.start + sum_bytes;
    insert(response.headers_mut(), header::CONTENT_LENGTH, &length.to_string());
    *response.body_mut() = body(opened, range, manner);
    Ok(response)
}

/// A range of a file.
pub(crate) fn body(opened: Opened, range: Range<u64>, manner: Manner) -> Body {
    let pieces = opened.source.pieces(range);
    let broken = |error: Error| {
        tracing::warn!(error = error.chain(), "a download broke off");
        std::io::Error::other("broken off")
    };
    if !manner.is_checked {
        return Body::from_stream(pieces.map(move |piece| piece.map_err(broken)));
    }
    let state = Some((pieces, Summing::new()));
    Body::from_stream(stream::unfold(state, move |state| async move {
        let (mut pieces, mut sum) = state?;
        match pieces.next().await {
            Some(Ok(piece)) => {
                sum.add(&piece);
                Some((Ok(piece), Some((pieces, sum))))
            }
            Some(Err(error)) => Some((Err(broken(error)), None)),
            None => Some((Ok(Bytes::copy_from_slice(&sum.checksum().0)), None)),
        }
    }))
}

fn describe(headers: &mut HeaderMap, entry: &Entry, etag: &str, manner: Manner) {
    insert(headers, header::ETAG, etag);
    insert(headers, header::ACCEPT_RANGES, "bytes");
    insert(headers, header::CONTENT_TYPE, "application/octet-stream");
    // Nothing that users upload is ever run in somebody's browser.
    insert(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(headers, header::CACHE_CONTROL, "no-cache");
    if let Some(date) = http_date(entry.modified_ms) {
        insert(headers, header::LAST_MODIFIED, &date);
    }
    if manner.is_attachment {
        let name = contract::api::path::encode(entry.name());
        let text = format!("attachment; filename*=UTF-8''{name}");
        insert(headers, header::CONTENT_DISPOSITION, &text);
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn http_date(ms: u64) -> Option<String> {
    let seconds = i64::try_from(ms / 1000).ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part(Range<u64>),
    Nothing,
}

/// Reads `bytes=…`. More than one range, and what is not understood, means the whole, as the
/// standard lets us.
fn parse(text: &str, bytes: u64) -> Wanted {
    let Some(range) = text.trim().strip_prefix("bytes=") else { return Wanted::All };
    let Some((first, last)) = range.trim().split_once('-') else { return Wanted::All };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (number(first), number(last), first, last) {
        (Some(first), Some(last), ..) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None, _, "") => first..bytes,
        (None, Some(count), "", _) => bytes.saturating_sub(count)..bytes,
        _ => return Wanted::All,
    };
    match range.start < range.end {
        true => Wanted::Part(range),
        false => Wanted::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_what_the_standard_says() {
        assert_eq!(parse("bytes=0-9", 100), Wanted::Part(0..10));
        assert_eq!(parse("bytes=90-", 100), Wanted::Part(90..100));
        assert_eq!(parse("bytes=-10", 100), Wanted::Part(90..100));
        assert_eq!(parse("bytes=-200", 100), Wanted::Part(0..100));
        assert_eq!(parse("bytes=50-500", 100), Wanted::Part(50..100));
        assert_eq!(parse("bytes=100-", 100), Wanted::Nothing);
        assert_eq!(parse("bytes=-0", 100), Wanted::Nothing);
        assert_eq!(parse("bytes=0-", 0), Wanted::Nothing);
        for whole in ["bytes=5-2", "bytes=1-2,4-5", "lines=1-2", "bytes=", "bytes=-", "bytes=a-b"] {
            assert_eq!(parse(whole, 100), Wanted::All, "{whole}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_range_leaves_the_file(text in "bytes=[0-9]{0,22}-[0-9]{0,22}|.*", bytes in any::<u64>()) {
            if let Wanted::Part(range) = parse(&text, bytes) {
                prop_assert!(range.start < range.end && range.end <= bytes);
            }
        }
    }
}
