//! Decoders of the network: handshake and frames from either side, refusals, and the messages of
//! parameter servers.

use super::harness::Row;
use contract::{Error, Kind, Result};
use pserver::message::{EntryHead, Head, Join, Joined, Payload, decode_json, encode_heads};
use tokio::io::AsyncWriteExt;
use wire::{Acceptor, Connector, Endpoint, Limits, Receiver, Service};

const SERVICE: Service = Service { name: "fuzz", version: 1 };

fn endpoint() -> Endpoint {
    let limits = Limits {
        frame_bytes_max: 1 << 16,
        read_buffer_bytes: 4 << 10,
        write_buffer_bytes: 4 << 10,
        pooled_bytes_max: 1 << 16,
        ..Limits::default()
    };
    Endpoint { limits, ..Endpoint::new(SERVICE, 7) }
}

/// A hello as docs/wire.md describes it.
fn hello() -> Vec<u8> {
    let mut hello = b"PDLWIRE\0".to_vec();
    hello.extend(wire::VERSION.to_le_bytes());
    hello.extend(SERVICE.version.to_le_bytes());
    hello.extend(0_u32.to_le_bytes());
    hello.extend(b"fuzz\0\0\0\0");
    hello.extend([9; 32]);
    hello.extend(77_u64.to_le_bytes());
    hello.extend((1_u32 << 16).to_le_bytes());
    hello.extend(0_u32.to_le_bytes());
    hello
}

fn frame(flags: u16, request: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = b"PWF1".to_vec();
    frame.extend(4_u16.to_le_bytes());
    frame.extend(flags.to_le_bytes());
    frame.extend(request.to_le_bytes());
    frame.extend(77_u64.to_le_bytes());
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(0_u32.to_le_bytes());
    frame.extend(body);
    frame
}

/// Everything that a client sends.
pub(crate) fn client_stream() -> Row {
    let proof = vec![0; 32];
    let frames = [frame(0, 1, b"a body"), frame(0, 2, &[5; 3000]), frame(0, 3, b"")].concat();
    Row {
        name: "stream of a client",
        samples: vec![[hello(), proof, frames].concat()],
        decode: |bytes| {
            let acceptor = Acceptor::new(endpoint(), None)?;
            over_stream(bytes, async |stream| acceptor.accept_over(stream, "peer").await)
        },
        rounds: 3000,
        bytes_max: 1 << 20,
    }
}

/// Everything that a server sends.
pub(crate) fn server_stream() -> Row {
    let verdict = vec![0; 40];
    let frames = [frame(1, 1, b"a body"), frame(3, 2, br#"{"kind":"Conflict"}"#)].concat();
    Row {
        name: "stream of a server",
        samples: vec![[hello(), verdict, frames].concat()],
        decode: |bytes| {
            let connector = Connector::new(endpoint(), None)?;
            over_stream(bytes, async |stream| connector.connect_over(stream, "peer").await)
        },
        rounds: 3000,
        bytes_max: 1 << 20,
    }
}

/// Shakes hands over a stream of these bytes, and reads frames to its end.
fn over_stream(
    bytes: &[u8],
    shake: impl AsyncFnOnce(tokio::io::DuplexStream) -> Result<wire::Connection>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, mut theirs) = tokio::io::duplex(1 << 18);
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        let outcome = match shake(ours).await {
            Ok(mut connection) => read_all(&mut connection.receiver).await,
            Err(error) => Err(error),
        };
        outcome.map_err(as_damage)
    })
}

async fn read_all(receiver: &mut Receiver) -> Result<()> {
    while let Some(frame) = receiver.next().await? {
        if frame.header.is_error() {
            wire::fault::decode(&frame.body);
        }
    }
    Ok(())
}

/// A connection that ends too early is the peer's doing, as a cut file is damage.
fn as_damage(error: Error) -> Error {
    match error.kind() {
        Kind::Unavailable | Kind::Unauthenticated => {
            Error::new(Kind::Damaged, "the stream ends").because(error)
        }
        _ => error,
    }
}

/// The error that a peer reports.
pub(crate) fn refusal() -> Row {
    let error = Error::new(Kind::Conflict, "no").with("rank", 1);
    Row {
        name: "refusal of a peer",
        samples: vec![wire::fault::encode(&error)],
        decode: |bytes| {
            wire::fault::decode(bytes);
            Ok(())
        },
        rounds: 20_000,
        bytes_max: 1 << 20,
    }
}

/// Keys and values of parameters.
pub(crate) fn payload() -> Row {
    let entries = [
        EntryHead { parameter: 0, keys: 2, values: 4, ..EntryHead::default() },
        EntryHead { parameter: 1, keys: 1, values: 0, ..EntryHead::default() },
    ];
    let mut body = encode_heads(Head { sequence: 1, samples: 32, ..Head::default() }, &entries);
    for key in [3_u64, 4, 5] {
        body.extend(key.to_le_bytes());
    }
    for value in [1.0_f32, 2.0, 3.0, 4.0] {
        body.extend(value.to_le_bytes());
    }
    Row {
        name: "payload of a parameter message",
        samples: vec![body],
        decode: |bytes| {
            // The transport aligns bodies; a fresh vector is aligned, too.
            let payload = Payload::decode(bytes.to_vec())?;
            for entry in &payload.entries {
                std::hint::black_box((payload.keys(entry).len(), payload.values(entry).len()));
            }
            Ok(())
        },
        rounds: 20_000,
        bytes_max: 4 << 20,
    }
}

/// Who a trainer is, and its model.
pub(crate) fn join() -> Row {
    Row {
        name: "join of a trainer",
        samples: vec![JOIN.as_bytes().to_vec()],
        decode: |bytes| {
            let join: Join = decode_json(bytes)?;
            join.model.check()?;
            join.place().map(drop)
        },
        rounds: 10_000,
        bytes_max: 4 << 20,
    }
}

/// What a server tells a trainer that joins.
pub(crate) fn joined() -> Row {
    let begun = r#"{"needs_values":false,"version":5,"pass":1,"sequence":9,"epoch":{"number":3,
        "cut":2,"has_begun":true},"is_in_step":true,"steps":6,"batches":6,"is_resting":false,
        "has_left":false,"can_cut":true,"announced":[3,8],"cut":2,"synchronized":0,
        "is_elastic":false}"#;
    Row {
        name: "answer to a join",
        samples: vec![begun.as_bytes().to_vec()],
        decode: |bytes| decode_json::<Joined>(bytes).map(drop),
        rounds: 10_000,
        bytes_max: 1 << 20,
    }
}

/// The smallest job: one trainer, one server with one port.
pub(crate) const JOIN: &str = r#"{"rank":0,"trainers":1,"server":0,"servers":1,"port":0,"dense_ports":1,
    "sparse_ports":0,"model":{"seed":1,"optimizer":{"rule":{"name":"adagrad"},"learning_rate":0.01},
    "parameters":[{"name":"w","shape":{"dense":{"elements":1000}},"mode":"sync","initializer":
    {"name":"normal","mean":0.0,"std":0.01},"settings":{"l2":0.0001}},{"name":"embedding","shape":
    {"sparse":{"width":16}},"mode":"async"}]}}"#;
