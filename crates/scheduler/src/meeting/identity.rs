//! The certificate by which the conductor and the ranks of one start know each other: made from
//! the secret that they share, on each side by itself, so that nothing has to be exchanged first.
//!
//! Whoever could speak for the conductor could run programs as somebody else, so the link is TLS:
//! nobody in between can read or change what is said. That the other side has the secret too is
//! shown by the certificate on one side and by the handshake of `wire` on both.

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sha2::{Digest, Sha256};
use wire::tls::{ClientConfig, Identity, ServerConfig};

/// The name in the certificate. It is the same for every job: the key is what differs.
const NAME: &str = "paddle-conductor";
/// An Ed25519 private key of PKCS #8, up to its 32 bytes.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// How the conductor speaks TLS.
pub(super) fn server(secret: &Secret) -> Result<ServerConfig> {
    let (authority, authority_key) = authority(secret)?;
    let key = key(secret, "server")?;
    let params = CertificateParams::new(vec![NAME.to_owned()]).map_err(refused)?;
    let issuer = Issuer::from_params(&authority, &authority_key);
    let certificate = params.signed_by(&key, &issuer).map_err(refused)?;
    let (certificates, key) = (certificate.pem(), key.serialize_pem());
    let identity = Identity { certificates_pem: certificates.as_bytes(), key_pem: key.as_bytes() };
    ServerConfig::new(identity, None)
}

/// How a rank speaks TLS.
pub(super) fn client(secret: &Secret) -> Result<ClientConfig> {
    let (authority, key) = authority(secret)?;
    let certificate = authority.self_signed(&key).map_err(refused)?;
    ClientConfig::new(certificate.pem().as_bytes(), NAME, None)
}

fn authority(secret: &Secret) -> Result<(CertificateParams, KeyPair)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok((params, key(secret, "authority")?))
}

/// A key for one purpose.
fn key(secret: &Secret, purpose: &str) -> Result<KeyPair> {
    let mut hash = Sha256::new_with_prefix("paddle mpi link ");
    hash.update(purpose);
    hash.update([0]);
    hash.update(secret.expose());
    let mut der = PKCS8_PREFIX.to_vec();
    der.extend_from_slice(&hash.finalize());
    KeyPair::try_from(der.as_slice()).map_err(refused)
}

fn refused(source: rcgen::Error) -> Error {
    Error::new(Kind::Unsupported, "cannot make a certificate for the ranks").because(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Acceptor, Connector, Endpoint, Service};

    const SERVICE: Service = Service { name: "test", version: 1 };

    async fn meet(ours: &str, theirs: &str) -> bool {
        let endpoint = |secret: &str, incarnation| Endpoint {
            token: Some(Secret::new(secret)),
            ..Endpoint::new(SERVICE, incarnation)
        };
        let tls = (server(&Secret::new(ours)).unwrap(), client(&Secret::new(theirs)).unwrap());
        let acceptor = Acceptor::new(endpoint(ours, 1), Some(tls.0)).unwrap();
        let connector = Connector::new(endpoint(theirs, 2), Some(tls.1)).unwrap();
        let (near, far) = tokio::io::duplex(1 << 16);
        let (accepted, connected) = tokio::join!(
            acceptor.accept_over(far, "rank"),
            connector.connect_over(near, "conductor")
        );
        assert_eq!(accepted.is_ok(), connected.is_ok());
        accepted.is_ok()
    }

    #[tokio::test]
    async fn only_those_who_share_the_secret_meet() {
        assert!(meet("sesame", "sesame").await);
        assert!(!meet("sesame", "simsim").await);
    }
}
