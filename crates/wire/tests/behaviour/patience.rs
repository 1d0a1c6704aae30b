//! Peers that stall, and callers that give up.

use crate::{SHORT, client_endpoint, hijacked, limits, pair, server_endpoint};
use contract::{Kind, Result};
use tokio::io::AsyncWriteExt;
use wire::{Acceptor, Connector, Endpoint, Header, Limits};

#[track_caller]
fn check_timeout<T: std::fmt::Debug>(outcome: Result<T>, expect: &str) {
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Timeout, expect), "{error}");
}

#[tokio::test]
async fn a_handshake_that_stalls_ends_on_either_side() {
    let limits = Limits { handshake_timeout: Some(SHORT), ..limits() };
    let (near, _far) = tokio::io::duplex(1 << 10);
    let acceptor = Acceptor::new(Endpoint { limits, ..server_endpoint() }, None).unwrap();
    check_timeout(acceptor.accept_over(near, "client").await, "handshake took too long");
    let (near, _far) = tokio::io::duplex(1 << 10);
    let connector = Connector::new(Endpoint { limits, ..client_endpoint() }, None).unwrap();
    check_timeout(connector.connect_over(near, "server").await, "handshake took too long");
}

#[tokio::test]
async fn silence_between_frames_times_out_and_can_be_waited_for_again() {
    let limits = Limits { idle_timeout: Some(SHORT), ..limits() };
    let server = Endpoint { limits, ..server_endpoint() };
    let (mut client, mut server) = pair(client_endpoint(), server).await;
    check_timeout(server.receiver.next().await, "the peer sent nothing for too long");
    client.sender.send(Header::new(1, 1), &[b"late"]).await.unwrap();
    assert_eq!(*server.receiver.next().await.unwrap().unwrap().body, *b"late");
}

#[tokio::test]
async fn a_peer_that_stops_inside_a_frame_times_out() {
    let limits = Limits { read_timeout: Some(SHORT), read_buffer_bytes: 256, ..limits() };
    let header = [&b"PWF1\x01\0\0\0"[..], &[0; 8], &7u64.to_le_bytes(), &[0, 1, 0, 0], &[0; 4]];
    let whole = [&header.concat()[..], &[5; 256]].concat();
    for end in [1, 31, 32, 33, 100, 250, 287] {
        let (mut client, mut server) = hijacked(Endpoint { limits, ..server_endpoint() }).await;
        client.write_all(&whole[..end]).await.unwrap();
        check_timeout(server.receiver.next().await, "the peer stopped in the middle of a frame");
        client.write_all(&whole[end..]).await.unwrap();
        assert_eq!(*server.receiver.next().await.unwrap().unwrap().body, [5; 256]);
    }
}

#[tokio::test]
async fn a_peer_that_takes_nothing_times_out_and_the_connection_is_done() {
    let limits = Limits { write_timeout: Some(SHORT), ..limits() };
    let client = Endpoint { limits, ..client_endpoint() };
    let (mut client, _server) = pair(client, server_endpoint()).await;
    let body = vec![0; 1 << 20];
    let outcome = client.sender.send(Header::new(1, 1), &[&body]).await;
    check_timeout(outcome, "the peer does not take what is sent");
    let error = client.sender.send(Header::new(1, 2), &[]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
}

#[tokio::test]
async fn a_send_that_was_given_up_breaks_the_connection_instead_of_the_frames() {
    let (mut client, _server) = pair(client_endpoint(), server_endpoint()).await;
    let parts = [&[0; 100_000][..]];
    tokio::select! {
        biased;
        _ = client.sender.send(Header::new(1, 1), &parts) => panic!("nobody reads"),
        () = tokio::task::yield_now() => {}
    }
    let error = client.sender.feed(Header::new(1, 2), &[]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(error.to_string(), "connection broke in an earlier write (peer: server)");
}
