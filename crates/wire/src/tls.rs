//! TLS 1.3 for both sides, from PEM texts. Reads no files: which ones is the command's business.

use crate::transfer::failure;
use contract::{Error, Kind, Result};
use std::fmt;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// A certificate and its key, as PEM texts.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The certificate, followed by those between it and the authority, if any.
    pub certificates_pem: &'a [u8],
    /// The private key: PKCS#8, PKCS#1 or SEC1.
    pub key_pem: &'a [u8],
}

/// How a server speaks TLS.
#[derive(Clone)]
pub struct ServerConfig(Arc<rustls::ServerConfig>);

/// How a client speaks TLS.
#[derive(Clone)]
pub struct ClientConfig {
    config: Arc<rustls::ClientConfig>,
    server_name: ServerName<'static>,
}

impl ServerConfig {
    /// A server that shows `identity`. With `client_authorities_pem` it serves only clients whose
    /// certificate one of these authorities signed.
    pub fn new(identity: Identity<'_>, client_authorities_pem: Option<&[u8]>) -> Result<Self> {
        let (certificates, key) = identity.parse("server")?;
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|source| refused("TLS 1.3 is not available", source))?;
        let builder = match client_authorities_pem {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(authorities(pem, "client authority")?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(|source| refused("client authorities cannot be used", source))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(certificates, key)
            .map_err(|source| unfit("server", source))?;
        Ok(ServerConfig(Arc::new(config)))
    }

    pub(crate) async fn accept<S>(&self, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let outcome = TlsAcceptor::from(self.0.clone()).accept(stream).await;
        outcome.map(TlsStream::from).map_err(|source| failure("TLS handshake failed", source))
    }
}

impl ClientConfig {
    /// A client that accepts servers whose certificate is made out to `server_name` (a DNS name or
    /// an address) and signed by one of the authorities. With `identity` it shows a certificate of
    /// its own.
    pub fn new(
        authorities_pem: &[u8],
        server_name: &str,
        identity: Option<Identity<'_>>,
    ) -> Result<Self> {
        let server_name = ServerName::try_from(server_name.to_owned()).map_err(|source| {
            Error::invalid("TLS server name is neither a DNS name nor an address")
                .with("server_name", server_name)
                .because(source)
        })?;
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|source| refused("TLS 1.3 is not available", source))?
            .with_root_certificates(authorities(authorities_pem, "authority")?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.parse("client")?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|source| unfit("client", source))?
            }
        };
        Ok(ClientConfig { config: Arc::new(config), server_name })
    }

    pub(crate) async fn connect<S>(&self, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = TlsConnector::from(self.config.clone());
        let outcome = connector.connect(self.server_name.clone(), stream).await;
        outcome.map(TlsStream::from).map_err(|source| {
            failure("TLS handshake failed", source).with("server_name", self.server_name.to_str())
        })
    }
}

impl Identity<'_> {
    fn parse(&self, whose: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let certificates = certificates(self.certificates_pem, whose)?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem).map_err(|source| match source {
            pem::Error::NoItemsFound => {
                Error::invalid(format!("no unencrypted private key in the PEM of the {whose} key"))
            }
            source => unreadable(&format!("{whose} key"), source),
        })?;
        Ok((certificates, key))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn authorities(pem: &[u8], what: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, what)? {
        roots.add(certificate).map_err(|source| {
            Error::invalid(format!("{what} certificate cannot be used")).because(source)
        })?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<std::result::Result<_, _>>()
        .map_err(|source| unreadable(&format!("{what} certificate"), source))?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("no certificate in the PEM of the {what} certificate")));
    }
    Ok(certificates)
}

fn unreadable(what: &str, source: pem::Error) -> Error {
    Error::invalid(format!("PEM of the {what} cannot be read")).because(source)
}

fn unfit(whose: &str, source: rustls::Error) -> Error {
    let message = match source {
        rustls::Error::InconsistentKeys(_) => {
            format!("{whose} key does not belong to the {whose} certificate")
        }
        _ => format!("{whose} certificate or key cannot be used"),
    };
    Error::invalid(message).because(source)
}

fn refused(message: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Invalid, message).because(source)
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(***)")
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tls::ServerConfig")
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls::ClientConfig({})", self.server_name.to_str())
    }
}
