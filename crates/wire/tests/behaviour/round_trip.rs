//! Frames that go there and back.

use crate::{CLIENT_INCARNATION, SERVER_INCARNATION, client_endpoint, pair, server_endpoint};
use contract::Kind;
use proptest::prelude::*;
use tokio::net::TcpListener;
use wire::{Acceptor, Connection, Connector, Endpoint, Header, Limits};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251) as u8).collect()
}

/// Answers every frame with its own body until the client leaves.
async fn echo(connection: &mut Connection) {
    while let Some(frame) = connection.receiver.next().await.unwrap() {
        let header = Header { aux: frame.header.aux, ..frame.header.reply() };
        connection.sender.feed(header, &[&frame.body]).await.unwrap();
        while let Some(frame) = connection.receiver.next_buffered().unwrap() {
            let header = Header { aux: frame.header.aux, ..frame.header.reply() };
            connection.sender.feed(header, &[&frame.body]).await.unwrap();
        }
        connection.sender.flush().await.unwrap();
    }
}

async fn check_echo(client: &mut Connection, bytes: usize, request: u64) {
    let sent = pattern(bytes);
    let header = Header { kind: 5, flags: 0x8000, request, aux: bytes as u32 };
    let (head, tail) = sent.split_at(bytes / 3);
    client.sender.send(header, &[head, &[], tail]).await.unwrap();
    let reply = client.receiver.next().await.unwrap().unwrap();
    assert_eq!(reply.header, Header { flags: Header::REPLY, ..header });
    assert_eq!(reply.incarnation, SERVER_INCARNATION);
    assert_eq!(*reply.body, sent);
    assert_eq!(reply.body.as_ptr() as usize % 8, 0);
}

#[tokio::test]
async fn bodies_of_all_sizes_come_back_as_they_were() {
    let (mut client, mut server) = pair(client_endpoint(), server_endpoint()).await;
    assert_eq!(client.peer.incarnation, SERVER_INCARNATION);
    assert_eq!(server.peer.incarnation, CLIENT_INCARNATION);
    let buffer = Limits::default().read_buffer_bytes;
    let edges = [buffer / 2, buffer - 32, buffer, 2 * buffer, 1 << 20, 5 << 20];
    let around = edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]);
    let client = async {
        for (request, bytes) in (0..70).chain(around).enumerate() {
            check_echo(&mut client, bytes, request as u64).await;
        }
        client.sender.close().await.unwrap();
        assert!(client.receiver.next().await.unwrap().is_none());
    };
    tokio::join!(client, async {
        echo(&mut server).await;
        server.sender.close().await.unwrap();
    });
}

#[tokio::test]
async fn sockets_carry_frames_both_ways_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let acceptor = Acceptor::new(server_endpoint(), None).unwrap();
        let mut connection = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        echo(&mut connection).await;
    });
    let connector = Connector::new(client_endpoint(), None).unwrap();
    let Connection { mut sender, mut receiver, .. } = connector.dial(&address).await.unwrap();
    let sending = tokio::spawn(async move {
        for request in 0..200 {
            let body = pattern((request as usize * 7919) % 200_000);
            sender.send(Header::new(1, request), &[&body]).await.unwrap();
        }
        sender.close().await.unwrap();
    });
    for request in 0..200 {
        let frame = receiver.next().await.unwrap().unwrap();
        assert_eq!(frame.header.request, request);
        assert_eq!(*frame.body, pattern((request as usize * 7919) % 200_000));
    }
    assert!(receiver.next().await.unwrap().is_none());
    sending.await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn replies_may_come_in_any_order() {
    let (mut client, mut server) = pair(client_endpoint(), server_endpoint()).await;
    for request in 0..10u64 {
        client.sender.feed(Header::new(1, request), &[&request.to_le_bytes()]).await.unwrap();
    }
    client.sender.flush().await.unwrap();
    let mut requests = Vec::new();
    while requests.len() < 10 {
        requests.push(server.receiver.next().await.unwrap().unwrap());
    }
    for frame in requests.iter().rev() {
        server.sender.send(frame.header.reply(), &[&frame.body]).await.unwrap();
    }
    for request in (0..10u64).rev() {
        let reply = client.receiver.next().await.unwrap().unwrap();
        assert_eq!(reply.header.request, request);
        assert_eq!(wire::cast::<u64>(&reply.body).unwrap(), [request]);
    }
}

#[tokio::test]
async fn fed_frames_leave_in_one_write() {
    let (mut client, mut server) = pair(client_endpoint(), server_endpoint()).await;
    for request in 0..100 {
        client.sender.feed(Header::new(1, request), &[b"small"]).await.unwrap();
    }
    assert!(server.receiver.next_buffered().unwrap().is_none());
    client.sender.flush().await.unwrap();
    assert!(server.receiver.next().await.unwrap().is_some());
    let mut together = 1;
    while server.receiver.next_buffered().unwrap().is_some() {
        together += 1;
    }
    assert_eq!(together, 100);
}

#[tokio::test]
async fn a_receiver_that_is_dropped_while_it_waits_loses_nothing() {
    let (mut client, mut server) = pair(client_endpoint(), server_endpoint()).await;
    let body = pattern(3 << 20);
    let sending = async {
        client.sender.send(Header::new(1, 1), &[&body]).await.unwrap();
        client.sender.send(Header::new(1, 2), &[b"second"]).await.unwrap();
    };
    let receiving = async {
        let mut frames = Vec::new();
        while frames.len() < 2 {
            tokio::select! {
                biased;
                frame = server.receiver.next() => frames.push(frame.unwrap().unwrap()),
                () = tokio::task::yield_now() => {}
            }
        }
        frames
    };
    let ((), frames) = tokio::join!(sending, receiving);
    assert_eq!(*frames[0].body, body);
    assert_eq!(*frames[1].body, *b"second");
}

#[tokio::test]
async fn a_body_larger_than_the_peer_accepts_is_not_sent() {
    let limits = Limits { frame_bytes_max: 1000, ..crate::limits() };
    let server = Endpoint { limits, ..server_endpoint() };
    let (mut client, mut server) = pair(client_endpoint(), server).await;
    let error = client.sender.send(Header::new(1, 1), &[&[0; 900], &[0; 101]]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::LimitExceeded);
    assert_eq!(
        error.to_string(),
        "frame is larger than the peer accepts (bytes: 1001, frame_bytes_max: 1000, peer: server)"
    );
    client.sender.send(Header::new(1, 2), &[&[0; 1000]]).await.unwrap();
    assert_eq!(server.receiver.next().await.unwrap().unwrap().header.request, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_frames_in_any_parts_through_any_buffers_arrive(
        frames in prop::collection::vec(
            (prop::collection::vec(0usize..3000, 0..5), any::<bool>()), 1..20),
        read_buffer_bytes in 256usize..5000,
        write_buffer_bytes in 256usize..5000,
        pipe_bytes in 1usize..5000,
    ) {
        crate::block_on(async {
            let limits = Limits { read_buffer_bytes, write_buffer_bytes, ..crate::limits() };
            let (near, far) = tokio::io::duplex(pipe_bytes);
            let client = Endpoint { limits, ..client_endpoint() };
            let connector = Connector::new(client, None).unwrap();
            let server = Endpoint { limits, ..server_endpoint() };
            let acceptor = Acceptor::new(server, None).unwrap();
            let (client, server) = tokio::join!(
                connector.connect_over(near, "server"),
                acceptor.accept_over(far, "client")
            );
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            let sending = async {
                for (request, (parts, is_fed)) in frames.iter().enumerate() {
                    let body = pattern(parts.iter().sum());
                    let mut rest = body.as_slice();
                    let parts: Vec<&[u8]> =
                        parts.iter().map(|bytes| rest.split_off(..*bytes).unwrap()).collect();
                    let header = Header::new(1, request as u64);
                    match is_fed {
                        true => client.sender.feed(header, &parts).await.unwrap(),
                        false => client.sender.send(header, &parts).await.unwrap(),
                    }
                }
                client.sender.close().await.unwrap();
            };
            let receiving = async {
                for (request, (parts, _)) in frames.iter().enumerate() {
                    let frame = server.receiver.next().await.unwrap().unwrap();
                    assert_eq!(frame.header.request, request as u64);
                    assert_eq!(*frame.body, pattern(parts.iter().sum()));
                }
                assert!(server.receiver.next().await.unwrap().is_none());
            };
            tokio::join!(sending, receiving);
        });
    }
}
