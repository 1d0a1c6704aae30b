//! The same over TLS, with certificates made for the occasion.

use crate::{client_endpoint, endpoint, kind, server_endpoint};
use contract::{Kind, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use wire::tls::{ClientConfig, Identity, ServerConfig};
use wire::{Acceptor, Connection, Connector, Header};

/// Somebody who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Pair {
    fn identity(&self) -> Identity<'_> {
        Identity { certificates_pem: self.certificate.as_bytes(), key_pem: self.key.as_bytes() }
    }
}

async fn meet(
    client: ClientConfig,
    server: ServerConfig,
) -> (Result<Connection>, Result<Connection>) {
    let token = Some("secret");
    let connector = Connector::new(endpoint(7, token), Some(client)).unwrap();
    let acceptor = Acceptor::new(endpoint(3, token), Some(server)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::join!(connector.dial(&address), async {
        acceptor.accept(listener.accept().await.unwrap().0).await
    })
}

async fn check_talk(client: ClientConfig, server: ServerConfig) {
    let (client, server) = meet(client, server).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let body: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
    let asking = async {
        client.sender.feed(Header::new(1, 1), &[b"small"]).await.unwrap();
        client.sender.send(Header::new(1, 2), &[&body[..10], &body[10..]]).await.unwrap();
        let mut replies = Vec::new();
        while replies.len() < 2 {
            replies.push(client.receiver.next().await.unwrap().unwrap());
        }
        client.sender.close().await.unwrap();
        replies
    };
    let answering = async {
        while let Some(frame) = server.receiver.next().await.unwrap() {
            server.sender.send(frame.header.reply(), &[&frame.body]).await.unwrap();
        }
    };
    let (replies, ()) = tokio::join!(asking, answering);
    assert_eq!(*replies[0].body, *b"small");
    assert_eq!(*replies[1].body, body);
}

#[tokio::test]
async fn frames_travel_over_tls() {
    let authority = Authority::new();
    let server = ServerConfig::new(authority.sign("pserver").identity(), None).unwrap();
    let client = ClientConfig::new(authority.pem().as_bytes(), "pserver", None).unwrap();
    check_talk(client, server).await;
}

#[tokio::test]
async fn both_sides_can_ask_for_a_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let (pair, trainer) = (authority.sign("127.0.0.1"), clients.sign("trainer"));
    let server = || ServerConfig::new(pair.identity(), Some(clients.pem().as_bytes())).unwrap();
    let client =
        |identity| ClientConfig::new(authority.pem().as_bytes(), "127.0.0.1", identity).unwrap();
    check_talk(client(Some(trainer.identity())), server()).await;
    let stranger = Authority::new().sign("trainer");
    for identity in [None, Some(stranger.identity())] {
        let (client, server) = meet(client(identity), server()).await;
        assert_eq!(kind(server), Some(Kind::Unauthenticated));
        // The client may learn of it by the alert, or by the end of the connection.
        assert!(matches!(kind(client), Some(Kind::Unauthenticated | Kind::Unavailable)));
    }
}

#[tokio::test]
async fn a_server_of_another_authority_or_name_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let pair = authority.sign("pserver");
    for (trusted, name) in [(&other, "pserver"), (&authority, "master")] {
        let server = ServerConfig::new(pair.identity(), None).unwrap();
        let client = ClientConfig::new(trusted.pem().as_bytes(), name, None).unwrap();
        let (client, server) = meet(client, server).await;
        let error = client.unwrap_err();
        assert_eq!(error.kind(), Kind::Unauthenticated, "{error:?}");
        assert!(error.to_string().contains(&format!("server_name: {name}")), "{error}");
        assert_eq!(kind(server), Some(Kind::Unauthenticated));
    }
}

#[tokio::test]
async fn tls_on_one_side_only_is_an_error_on_both() {
    let authority = Authority::new();
    let server = ServerConfig::new(authority.sign("pserver").identity(), None).unwrap();
    let acceptor = Acceptor::new(server_endpoint(), Some(server)).unwrap();
    let connector = Connector::new(client_endpoint(), None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (client, server) = tokio::join!(connector.dial(&address), async {
        acceptor.accept(listener.accept().await.unwrap().0).await
    });
    assert!(client.unwrap_err().message().contains("peer speaks TLS"));
    assert_eq!(kind(server), Some(Kind::Damaged));

    let client = ClientConfig::new(authority.pem().as_bytes(), "pserver", None).unwrap();
    let acceptor = Acceptor::new(server_endpoint(), None).unwrap();
    let connector = Connector::new(client_endpoint(), Some(client)).unwrap();
    let (client, server) = tokio::join!(
        async {
            connector.connect_over(TcpStream::connect(&address).await.unwrap(), "server").await
        },
        async { acceptor.accept(listener.accept().await.unwrap().0).await }
    );
    assert!(client.is_err());
    assert!(server.unwrap_err().message().contains("peer speaks TLS"));
}

#[test]
fn bad_certificates_and_keys_are_called_by_their_names() {
    let authority = Authority::new();
    let (good, other) = (authority.sign("pserver"), authority.sign("pserver"));
    let check = |outcome: Result<()>, expect: &str| {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::Invalid, expect));
    };
    let server = |identity, clients| ServerConfig::new(identity, clients).map(drop);
    check(
        server(Identity { certificates_pem: b"", ..good.identity() }, None),
        "no certificate in the PEM of the server certificate",
    );
    check(
        server(Identity { key_pem: good.certificate.as_bytes(), ..good.identity() }, None),
        "no unencrypted private key in the PEM of the server key",
    );
    check(
        server(Identity { key_pem: other.key.as_bytes(), ..good.identity() }, None),
        "server key does not belong to the server certificate",
    );
    check(
        server(good.identity(), Some(b"nothing")),
        "no certificate in the PEM of the client authority certificate",
    );
    let client = |pem: &[u8], name| ClientConfig::new(pem, name, None).map(drop);
    check(
        client(b"-----BEGIN CERTIFICATE-----\n@@@\n-----END CERTIFICATE-----\n", "pserver"),
        "PEM of the authority certificate cannot be read",
    );
    check(
        client(authority.pem().as_bytes(), "not a name"),
        "TLS server name is neither a DNS name nor an address",
    );
}
