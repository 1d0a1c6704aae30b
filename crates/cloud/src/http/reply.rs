//! An error as an answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::api::error::ErrorBody;
use contract::api::status;
use contract::{Error, Kind};

/// What handlers return.
pub(crate) type Answer<T> = Result<T, Refusal>;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: Error,
    /// Whether it would be served a little later.
    is_too_fast: bool,
}

impl Refusal {
    /// The caller asks too often.
    pub(crate) fn too_fast(message: &str) -> Self {
        Refusal { error: Error::new(Kind::Unavailable, message), is_too_fast: true }
    }

    /// Whether it would be served a little later.
    pub(crate) fn is_too_fast(&self) -> bool {
        self.is_too_fast
    }

    /// The error behind it.
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { error, is_too_fast: false }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = self.error.kind();
        // What the caller did wrong is theirs to know; what went wrong here is for the log.
        if matches!(kind, Kind::Io | Kind::Damaged | Kind::LimitExceeded) {
            tracing::error!(error = self.error.chain(), "a request failed");
        }
        let status = match self.is_too_fast {
            true => StatusCode::TOO_MANY_REQUESTS,
            false => {
                StatusCode::from_u16(status::of(kind)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        };
        let mut response = (status, Json(ErrorBody::of(&self.error))).into_response();
        let headers = response.headers_mut();
        if self.is_too_fast {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if kind == Kind::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Token"));
        }
        response
    }
}
