//! The two things every read and write here needs: a deadline, and an error that says what it means
//! for a connection.

use contract::{Error, Kind, Result};
use std::io;
use std::time::Duration;
use tokio_rustls::rustls;

/// Waits for `work`, at most for `limit`; `expiry` is the message when that was too short.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    expiry: &'static str,
    work: impl Future<Output = T>,
) -> Result<T> {
    let Some(limit) = limit else { return Ok(work.await) };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        Error::new(Kind::Timeout, expiry).with("timeout", format_args!("{} ms", limit.as_millis()))
    })
}

/// An error of a socket or of the TLS over it. With TLS 1.3 a server's refusal of a client's
/// certificate arrives after the handshake, so any read can be the one that hears of it.
pub(crate) fn failure(message: &'static str, source: io::Error) -> Error {
    let tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let kind = match (tls, source.kind()) {
        (Some(tls), _) => tls_kind(tls),
        // TLS says so when a peer goes without a farewell.
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero) => Kind::Unavailable,
        (None, _) => return Error::io(message, source),
    };
    Error::new(kind, message).because(source)
}

fn tls_kind(error: &rustls::Error) -> Kind {
    use rustls::AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            Kind::Unauthenticated
        }
        rustls::Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateRequired
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            // What a signature by another authority of the same name comes to.
            | Alert::DecryptError,
        ) => Kind::Unauthenticated,
        rustls::Error::PeerIncompatible(_)
        | rustls::Error::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure) => {
            Kind::Unsupported
        }
        _ => Kind::Damaged,
    }
}
