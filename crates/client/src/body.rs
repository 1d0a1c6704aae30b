//! What is in the bodies of answers. Pure.

use contract::api::error::ErrorBody;
use contract::api::status;
use contract::{Error, Kind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as the bytes of a body.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|source| Error::new(Kind::Io, "cannot write JSON").because(source))
}

/// The value that an answer has.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|source| {
        let message = format!(
            "cannot {what}: the server's answer is not understood: is `endpoint` that of a cloud, \
             and of this release?"
        );
        Error::new(Kind::Damaged, message).because(source)
    })
}

/// The error that a status and its body tell.
pub(crate) fn refusal(status: u16, bytes: &[u8], location: Option<&str>, what: &str) -> Error {
    let told = serde_json::from_slice::<ErrorBody>(bytes).ok();
    match (told, status) {
        (Some(body), 404 | 405 | 501) if is_unknown_call(&body) => older(what),
        (Some(body), _) => body.into_error(status),
        (None, 404 | 405 | 501) => older(what),
        (None, 300..=399) => {
            let target = location.unwrap_or("another address");
            Error::new(
                Kind::Invalid,
                format!("cannot {what}: the server sends us elsewhere: correct `endpoint`"),
            )
            .with("to", target)
        }
        (None, _) => {
            let kind = status::kind(status).unwrap_or(Kind::Io);
            let words = match kind {
                Kind::Unauthenticated => "the server wants a valid login",
                Kind::Forbidden => "the server, or a proxy before it, forbids this",
                Kind::LimitExceeded => "this is too large for the server, or for a proxy before it",
                Kind::Unavailable => "the server is not ready, or has too much to do",
                Kind::Timeout => "the server, or a proxy before it, gave up waiting",
                _ => "the server failed without saying why: its log may know",
            };
            Error::new(kind, format!("cannot {what}: {words}")).with("status", status)
        }
    }
}

/// Whether the call itself is not known; see `contract::api::path`.
fn is_unknown_call(body: &ErrorBody) -> bool {
    let path = body.context.get("path");
    path.is_some_and(|path| path.starts_with("/api/")) || body.context.contains_key("method")
}

fn older(what: &str) -> Error {
    let message = format!("this server is older and cannot {what}: ask for a newer one");
    Error::new(Kind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_server_said() {
        let body = br#"{"kind": "conflict", "message": "the job runs", "context": {"job": "ctr"}}"#;
        let error = refusal(409, body, None, "submit a job");
        assert_eq!(
            (error.kind(), error.to_string()),
            (Kind::Conflict, "the job runs (job: ctr)".into())
        );
        let body = br#"{"kind": "unsupported", "message": "this job has a fixed size"}"#;
        assert_eq!(refusal(501, body, None, "scale").to_string(), "this job has a fixed size");
    }

    #[test]
    fn a_server_without_the_call_is_an_older_one() {
        let path = br#"{"kind": "not_found", "message": "x", "context": {"path": "/api/v2/x"}}"#;
        let method = br#"{"kind": "unsupported", "message": "x", "context": {"method": "PUT"}}"#;
        let bodies =
            [(404, &path[..]), (405, &method[..]), (404, b"<h1>Not Found</h1>"), (405, b"")];
        for (status, body) in bodies {
            let error = refusal(status, body, None, "scale a job");
            assert_eq!(error.kind(), Kind::Unsupported);
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"this server is older and cannot scale a job: ask for a newer one");
            }
        }
    }

    #[test]
    fn proxies_are_translated() {
        let check =
            |status, kind: Kind| assert_eq!(refusal(status, b"<html>", None, "x").kind(), kind);
        check(502, Kind::Unavailable);
        check(504, Kind::Timeout);
        check(413, Kind::LimitExceeded);
        check(500, Kind::Io);
        insta::assert_snapshot!(refusal(301, b"", Some("https://cloud/"), "log in"), @"cannot log in: the server sends us elsewhere: correct `endpoint` (to: https://cloud/)");
    }

    #[test]
    fn an_answer_of_something_else_is_told_so() {
        let error = decode::<Vec<u32>>(b"<html>", "list jobs").unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        insta::assert_snapshot!(error, @"cannot list jobs: the server's answer is not understood: is `endpoint` that of a cloud, and of this release?");
    }
}
