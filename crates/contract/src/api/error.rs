//! A refusal as a body: what every call answers when it fails.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::status;
use crate::{Error, Kind};

/// Why a call failed. The status tells the same to those who do not read bodies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The kind of failure, such as `not_found`.
    pub kind: String,
    /// What failed and what to do.
    pub message: String,
    /// Values that help to find the place.
    #[serde(default)]
    pub context: BTreeMap<String, String>,
}

impl ErrorBody {
    /// What a client may know of an error: not its causes, which speak of the server's own files.
    pub fn of(error: &Error) -> Self {
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        ErrorBody {
            kind: error.kind().word().to_owned(),
            message: error.message().to_owned(),
            context: error.context().map(own).collect(),
        }
    }

    /// The error again, on the client's side.
    pub fn into_error(self, status: u16) -> Error {
        let known = Kind::ALL.into_iter().find(|kind| kind.word() == self.kind);
        let kind = known.or_else(|| status::kind(status)).unwrap_or(Kind::Io);
        let mut message = self.message;
        let mut separator = " (";
        for (key, value) in &self.context {
            message.push_str(&format!("{separator}{key}: {value}"));
            separator = ", ";
        }
        if !self.context.is_empty() {
            message.push(')');
        }
        Error::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_the_same_on_both_sides_but_for_its_causes() {
        let cause = std::io::Error::other("/var/lib/secret");
        let error = Error::new(Kind::Conflict, "the job runs").with("job", "ctr").because(cause);
        let body = ErrorBody::of(&error);
        assert!(!serde_json::to_string(&body).unwrap().contains("secret"));
        let again = body.into_error(409);
        assert_eq!((again.kind(), again.to_string()), (Kind::Conflict, error.to_string()));
    }
}
