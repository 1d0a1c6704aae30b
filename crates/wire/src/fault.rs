//! An error as it travels: the body of a frame with [`crate::Header::ERROR`], JSON.

use contract::{Error, Kind};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Fault {
    kind: String,
    message: String,
    context: Vec<(String, String)>,
}

/// The body that says why a request failed.
pub fn encode(error: &Error) -> Vec<u8> {
    let fault = Fault {
        kind: format!("{:?}", error.kind()),
        message: error.message().to_owned(),
        context: error.context().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    };
    serde_json::to_vec(&fault).unwrap_or_default()
}

/// The error that a peer sent; one of our own if the body is not one.
pub fn decode(body: &[u8]) -> Error {
    let Ok(fault) = serde_json::from_slice::<Fault>(body) else {
        return Error::new(Kind::Damaged, "the peer failed and did not say why");
    };
    let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == fault.kind);
    let context: Vec<String> =
        fault.context.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let message = match context.is_empty() {
        true => fault.message,
        false => format!("{} ({})", fault.message, context.join(", ")),
    };
    Error::new(kind.unwrap_or(Kind::Io), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_its_context() {
        let error = Error::new(Kind::Conflict, "no").with("rank", 1).with("of", "two");
        let received = decode(&encode(&error));
        assert_eq!((received.kind(), received.to_string()), (Kind::Conflict, error.to_string()));
    }

    #[test]
    fn a_body_that_is_no_error_is_damage() {
        for body in [&b""[..], b"{}", b"\xff", b"[1]"] {
            assert_eq!(decode(body).kind(), Kind::Damaged);
        }
    }
}
