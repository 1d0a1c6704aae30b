//! Peers that send anything but frames: always a clear error, never a panic, never a silent end.

use crate::{CLIENT_INCARNATION, Limits, block_on, hijacked, server_endpoint};
use contract::{Error, Kind, Result};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use wire::{Connection, Endpoint};

/// A frame by the book, without our code.
fn frame(request: u64, body: &[u8]) -> Vec<u8> {
    [&header(request, CLIENT_INCARNATION, body.len() as u32), body].concat()
}

fn header(request: u64, incarnation: u64, body_bytes: u32) -> Vec<u8> {
    [
        b"PWF1",
        &1u16.to_le_bytes()[..],
        &0u16.to_le_bytes(),
        &request.to_le_bytes(),
        &incarnation.to_le_bytes(),
        &body_bytes.to_le_bytes(),
        &0u32.to_le_bytes(),
    ]
    .concat()
}

/// The bodies that arrive when the client sends `bytes` and closes; and the connection.
async fn receive(bytes: &[u8]) -> (Result<Vec<Vec<u8>>>, Connection) {
    let limits = Limits { frame_bytes_max: 2 << 20, read_buffer_bytes: 256, ..crate::limits() };
    let (mut client, mut server) = hijacked(Endpoint { limits, ..server_endpoint() }).await;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let mut bodies = Vec::new();
    let outcome = loop {
        match server.receiver.next().await {
            Ok(Some(frame)) => bodies.push(frame.body.to_vec()),
            Ok(None) => break Ok(bodies),
            Err(error) => break Err(error),
        }
    };
    (outcome, server)
}

fn failure(bytes: &[u8]) -> Error {
    block_on(async {
        let (outcome, mut server) = receive(bytes).await;
        let error = outcome.unwrap_err();
        let again = server.receiver.next().await.unwrap_err();
        assert_eq!(again.to_string(), error.to_string(), "damage must not heal by itself");
        error
    })
}

#[test]
fn a_stream_cut_anywhere_but_between_frames_is_damage() {
    let bodies = [b"first".to_vec(), Vec::new(), vec![7; 400], b"last".to_vec()];
    let frames: Vec<Vec<u8>> = bodies.iter().map(|body| frame(1, body)).collect();
    let ends: Vec<usize> = frames
        .iter()
        .scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        })
        .collect();
    let whole = frames.concat();
    for end in 0..=whole.len() {
        let (outcome, _) = block_on(receive(&whole[..end]));
        let complete = ends.iter().filter(|frame_end| **frame_end <= end).count();
        if end == 0 || ends.contains(&end) {
            assert_eq!(outcome.unwrap(), bodies[..complete], "cut at {end}");
        } else {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), Kind::Damaged, "cut at {end}: {error}");
            assert_eq!(error.message(), "connection was closed inside a frame");
        }
    }
}

#[test]
fn the_messages_say_what_is_wrong() {
    let check = |bytes: &[u8], expect_kind: Kind, expect: &str| {
        let error = failure(bytes);
        assert_eq!((error.kind(), error.to_string().as_str()), (expect_kind, expect));
    };
    let good = frame(1, b"good");
    check(
        &[good.clone(), b"HTTP/1.1 200 OK, a line of header".to_vec()].concat(),
        Kind::Damaged,
        "not a frame: wrong magic number (expected: PWF1, found: HTTP, peer: client)",
    );
    check(
        &header(1, 8, 0),
        Kind::Damaged,
        "frame of another incarnation than its sender's (expected: 7, found: 8, peer: client)",
    );
    check(
        &header(1, CLIENT_INCARNATION, u32::MAX),
        Kind::LimitExceeded,
        "frame is larger than frame_bytes_max (bytes: 4294967295, frame_bytes_max: 2097152, \
         peer: client)",
    );
    check(
        &good[..34],
        Kind::Damaged,
        "connection was closed inside a frame (bytes: 34, expected: 36, peer: client)",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_after_a_good_frame_are_an_error_or_an_end(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (outcome, _) = block_on(receive(&[frame(1, b"good"), bytes.clone()].concat()));
        prop_assert_eq!(outcome.is_ok(), bytes.is_empty());
    }

    #[test]
    fn headers_with_random_fields_are_never_trusted(
        at in 0usize..32,
        value in any::<u8>(),
        rest in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = [frame(1, b"good"), rest].concat();
        bytes[at] = value;
        // Whatever comes of it, it comes: no panic, no hang, and no more than was sent.
        if let (Ok(bodies), _) = block_on(receive(&bytes)) {
            prop_assert!(bodies.concat().len() < bytes.len());
        }
    }
}
