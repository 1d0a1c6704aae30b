//! What carries requests to a store. Failures for which nobody answered are marked by a type of
//! ours: after its last attempt OpenDAL's own error no longer says that another one might help.

use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};
use opendal_http_transport_reqwest::ReqwestTransport;
use std::fmt;
use std::time::Duration;

/// How long a store may take until it begins to answer.
const ANSWER: Duration = Duration::from_secs(60);

/// A carrier over TLS or without it.
pub(super) fn carrier() -> HttpTransporter {
    // Whoever was first has the same one.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    HttpTransporter::new(Carrier(ReqwestTransport::default()))
}

/// Whether nobody answered at all.
pub(super) fn is_unreachable(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<Unreachable>())
}

struct Carrier(ReqwestTransport);

impl HttpTransport for Carrier {
    async fn fetch(&self, request: http::Request<Buffer>) -> Result<http::Response<HttpBody>> {
        let url = request.uri().to_string();
        let unreachable = |why: String| {
            Error::new(ErrorKind::Unexpected, "nobody answers")
                .with_context("url", &url)
                .set_temporary()
                .set_source(Unreachable(why))
        };
        match tokio::time::timeout(ANSWER, self.0.fetch(request)).await {
            Ok(Err(error)) if error.is_temporary() => Err(unreachable(error.to_string())),
            Ok(answer) => answer,
            Err(_) => Err(unreachable(format!("nothing came within {} s", ANSWER.as_secs()))),
        }
    }
}

/// Why nobody answered.
#[derive(Debug)]
struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}
