//! Who may talk, and what the others are told.

use crate::{
    CLIENT_INCARNATION, SERVER_INCARNATION, block_on, client_endpoint, endpoint, kind, meet, pair,
    server_endpoint,
};
use contract::Kind;
use contract::secret::Secret;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;
use wire::{Acceptor, Connector, Endpoint, Header, Service};

pub(crate) const HELLO_BYTES: usize = 72;
const PROOF_BYTES: usize = 32;
const VERDICT_BYTES: usize = 40;

/// A hello by the book, without our code.
pub(crate) fn hello(version: u16, has_token: bool) -> Vec<u8> {
    [
        b"PDLWIRE\0",
        &version.to_le_bytes()[..],
        &1u16.to_le_bytes(),
        &u32::from(has_token).to_le_bytes(),
        b"test\0\0\0\0",
        &[9; 32],
        &CLIENT_INCARNATION.to_le_bytes(),
        &(1u32 << 20).to_le_bytes(),
        &[0; 4],
    ]
    .concat()
}

/// A client's handshake by the book.
pub(crate) async fn greet(stream: &mut DuplexStream) {
    stream.write_all(&hello(wire::VERSION, false)).await.unwrap();
    stream.read_exact(&mut [0; HELLO_BYTES]).await.unwrap();
    stream.write_all(&[0; PROOF_BYTES]).await.unwrap();
    let mut verdict = [0xff; VERDICT_BYTES];
    stream.read_exact(&mut verdict).await.unwrap();
    assert_eq!(verdict, [0; VERDICT_BYTES]);
}

/// What the server says to `bytes`, after it has been told that nothing more comes; and its error.
async fn answer(server: Endpoint, bytes: &[u8]) -> (Vec<u8>, contract::Error) {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    near.write_all(bytes).await.unwrap();
    near.shutdown().await.unwrap();
    let acceptor = Acceptor::new(server, None).unwrap();
    let error = acceptor.accept_over(far, "client").await.unwrap_err();
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.unwrap();
    (answer, error)
}

fn check_refused(
    outcome: (contract::Result<wire::Connection>, contract::Result<wire::Connection>),
    expect_kind: Kind,
    expect: &str,
) {
    let (client, server) = (outcome.0.unwrap_err(), outcome.1.unwrap_err());
    for (error, peer) in [(client, "server"), (server, "client")] {
        assert_eq!(error.kind(), expect_kind, "{error}");
        assert_eq!(error.to_string().replace(&format!("peer: {peer}"), "peer"), expect);
    }
}

#[tokio::test]
async fn peers_with_the_same_token_meet() {
    let token = Some("secret");
    let client = endpoint(CLIENT_INCARNATION, token);
    let (mut client, mut server) = pair(client, endpoint(SERVER_INCARNATION, token)).await;
    client.sender.send(Header::new(1, 1), &[]).await.unwrap();
    assert_eq!(server.receiver.next().await.unwrap().unwrap().incarnation, CLIENT_INCARNATION);
}

#[tokio::test]
async fn peers_with_different_or_missing_tokens_are_refused_on_both_sides() {
    let check = async |client, server, expect: &str| {
        let outcome =
            meet(endpoint(CLIENT_INCARNATION, client), endpoint(SERVER_INCARNATION, server)).await;
        check_refused(outcome, Kind::Unauthenticated, expect);
    };
    check(Some("a"), Some("b"), "client and server have different job tokens (peer)").await;
    check(None, Some("b"), "server asks for a job token and the client has none (peer)").await;
    check(Some("a"), None, "client has a job token and the server cannot prove it (peer)").await;
}

#[tokio::test]
async fn peers_of_different_services_are_refused_with_both_sides_named() {
    let client = Endpoint { service: Service { name: "pserver", version: 2 }, ..client_endpoint() };
    let outcome = meet(client.clone(), server_endpoint()).await;
    check_refused(
        outcome,
        Kind::Unsupported,
        "client reached another service; check the address (client: pserver version 2, \
         server: test version 1, peer)",
    );
    let server = Endpoint { service: Service { name: "pserver", version: 3 }, ..server_endpoint() };
    check_refused(
        meet(client, server).await,
        Kind::Unsupported,
        "peers speak different service versions; use one release (client: pserver version 2, \
         server: pserver version 3, peer)",
    );
}

#[tokio::test]
async fn a_client_of_another_version_is_told_why_it_is_refused() {
    let (answer, error) = answer(server_endpoint(), &hello(2, false)[..16]).await;
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(
        error.to_string(),
        "peers speak different protocol versions; use one release (client_version: 2, \
         server_version: 1, peer: client)"
    );
    assert_eq!(answer[..10], *b"PDLWIRE\0\x01\0");
    assert_eq!(answer[HELLO_BYTES..], [&[2][..], &[0; VERDICT_BYTES - 1]].concat());
}

#[tokio::test]
async fn a_server_of_another_version_is_named_in_the_clients_error() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    far.write_all(&hello(9, false)[..16]).await.unwrap();
    let connector = Connector::new(client_endpoint(), None).unwrap();
    let error = connector.connect_over(near, "server").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("client_version: 1, server_version: 9"), "{error}");
}

#[tokio::test]
async fn a_server_that_echoes_the_clients_proof_is_refused() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let server = async {
        far.read_exact(&mut [0; HELLO_BYTES]).await.unwrap();
        far.write_all(&hello(wire::VERSION, true)).await.unwrap();
        let mut proof = [0; PROOF_BYTES];
        far.read_exact(&mut proof).await.unwrap();
        far.write_all(&[&[0; 8], &proof[..]].concat()).await.unwrap();
    };
    let connector = Connector::new(endpoint(CLIENT_INCARNATION, Some("a")), None).unwrap();
    let ((), outcome) = tokio::join!(server, connector.connect_over(near, "server"));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthenticated);
    assert!(error.message().contains("server did not prove"), "{error}");
}

#[tokio::test]
async fn a_stranger_gets_a_reason_and_names_itself() {
    let (answer, error) =
        answer(endpoint(1, Some("a")), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.to_string().contains("found: GET / HTTP/1.1"), "{error}");
    assert_eq!(answer[HELLO_BYTES..HELLO_BYTES + 4], [1, 0, 0, 0]);
}

#[tokio::test]
async fn tls_on_one_side_only_is_called_by_its_name() {
    let client_hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (_, error) = answer(server_endpoint(), &client_hello).await;
    assert!(error.message().contains("peer speaks TLS"), "{error}");
    let (near, mut far) = tokio::io::duplex(1 << 20);
    far.write_all(&[0x15, 3, 3, 0, 2, 2, 10]).await.unwrap();
    far.shutdown().await.unwrap();
    let connector = Connector::new(client_endpoint(), None).unwrap();
    let error = connector.connect_over(near, "server").await.unwrap_err();
    assert!(error.message().contains("peer speaks TLS"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_worth_a_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let connector = Connector::new(client_endpoint(), None).unwrap();
    let error = connector.dial(&address).await.unwrap_err();
    assert!(error.kind().is_retryable(), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
    let error = connector.dial("no port").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert_eq!(error.to_string(), "address is not of the form host:port (peer: no port)");
}

#[test]
fn an_endpoint_that_cannot_work_is_refused_at_once() {
    let check = |endpoint: Endpoint| {
        assert_eq!(kind(Acceptor::new(endpoint.clone(), None)), Some(Kind::Invalid));
        assert_eq!(kind(Connector::new(endpoint, None)), Some(Kind::Invalid));
    };
    check(Endpoint { token: Some(Secret::new("")), ..client_endpoint() });
    check(Endpoint { service: Service { name: "", version: 1 }, ..client_endpoint() });
    check(Endpoint { service: Service { name: "parameters", version: 1 }, ..client_endpoint() });
}

#[test]
fn a_handshake_cut_anywhere_is_an_error() {
    let whole = [hello(wire::VERSION, false), vec![0; PROOF_BYTES]].concat();
    for end in 0..whole.len() {
        let (_, error) = block_on(answer(server_endpoint(), &whole[..end]));
        assert_eq!(error.kind(), Kind::Unavailable, "cut at {end}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_do_not_get_in(
        opening in prop::sample::select(vec![0usize, 8, 16, HELLO_BYTES]),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [&hello(wire::VERSION, true)[..opening], &bytes].concat();
        block_on(answer(endpoint(1, Some("a")), &bytes));
        let outcome = block_on(async {
            let (near, mut far) = tokio::io::duplex(1 << 20);
            far.write_all(&bytes).await.unwrap();
            far.shutdown().await.unwrap();
            let connector = Connector::new(endpoint(1, Some("a")), None).unwrap();
            connector.connect_over(near, "server").await
        });
        prop_assert!(outcome.is_err());
    }
}
