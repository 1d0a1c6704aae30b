//! What parameter servers take from peers and from disks: requests to a shard, and checkpoints.

use super::harness::Row;
use super::network::JOIN;
use contract::{Error, Kind, Result};
use pserver::checkpoint::{self, Directory, Which, Writer};
use pserver::message::{EntryHead, Head, Join, Verb, decode_json, encode_heads};
use pserver::metrics::Metrics;
use pserver::shard::{CutFacts, Part, Reply, Request, Restore, Shard, ShardConfig};
use std::path::Path;
use std::time::{Duration, Instant};

const PEER: u64 = 7;

/// Of the epoch of a server of incarnation 1.
const HEAD: Head = Head {
    sequence: 0,
    version: 0,
    base: 0,
    samples: 0,
    cut: 0,
    cut_version: 0,
    rank: 0,
    flags: 0,
    entries: 0,
    epoch: 1,
};

/// Nothing to begin with.
struct Nothing;

impl Restore for Nothing {
    fn restore(
        &mut self,
        _: &Join,
        _: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
    ) -> Result<Option<CutFacts>> {
        Ok(None)
    }
}

/// A shard with one trainer, which has joined and begun; in an elastic job there may be another.
fn shard(is_elastic: bool) -> Shard<u64, Vec<u8>> {
    let config = ShardConfig {
        incarnation: 1,
        trainers: 1 + u32::from(is_elastic),
        min_trainers: is_elastic.then_some(1),
        trainer_timeout: Duration::from_secs(3600),
        join_timeout: Duration::from_secs(3600),
        stall_timeout: Duration::from_secs(3600),
        table_bytes_max: 16 << 20,
        parked_bytes_max: 1 << 20,
        can_cut: true,
        cut_interval: None,
        preset: None,
    };
    let mut shard = Shard::new(config, Metrics::new(0), Instant::now());
    let trainers = format!("\"trainers\":{},", 1 + u32::from(is_elastic));
    let join = JOIN.replace("\"trainers\":1,", &trainers).into_bytes();
    for (verb, body) in [(Verb::Join, join), (Verb::Begin, encode_heads(HEAD, &[]))] {
        ask(&mut shard, verb, body).unwrap();
    }
    shard
}

fn ask(shard: &mut Shard<u64, Vec<u8>>, verb: Verb, body: Vec<u8>) -> Result<()> {
    let request = Request { token: 1, verb, incarnation: PEER, connection: 1, body };
    shard.handle(Instant::now(), request, &mut Nothing);
    for (_, reply) in shard.take_replies() {
        if let Reply::Error(error) = reply {
            return Err(error);
        }
    }
    Ok(())
}

fn body(head: Head, entries: &[EntryHead], keys: &[u64], values: &[f32]) -> Vec<u8> {
    let mut body = encode_heads(head, entries);
    keys.iter().for_each(|key| body.extend(key.to_le_bytes()));
    values.iter().for_each(|value| body.extend(value.to_le_bytes()));
    body
}

/// A request as its verb and its body.
fn request(verb: Verb, body: Vec<u8>) -> Vec<u8> {
    [(verb as u16).to_le_bytes().to_vec(), body].concat()
}

fn push() -> Vec<u8> {
    let head = Head { sequence: 1, samples: 32, flags: 1, ..HEAD };
    let dense = EntryHead { parameter: 0, keys: 1, values: 1000, ..EntryHead::default() };
    let sparse = EntryHead { parameter: 1, keys: 2, values: 32, ..EntryHead::default() };
    body(head, &[dense, sparse], &[0, 5, 9], &[0.5; 1032])
}

/// Requests to a shard: whatever comes, it serves the next.
pub(crate) fn shard_request() -> Row {
    let pull = EntryHead { parameter: 1, keys: 3, ..EntryHead::default() };
    let set = EntryHead { parameter: 1, keys: 1, values: 16, ..EntryHead::default() };
    let released = EntryHead { keys: 2, ..EntryHead::default() };
    let alone = [
        (Verb::FinishPass, HEAD),
        (Verb::Heartbeat, HEAD),
        (Verb::Synchronize, Head { version: 1, ..HEAD }),
        (Verb::Cut, HEAD),
        (Verb::Rest, HEAD),
        (Verb::Wake, Head { version: 3, ..HEAD }),
        (Verb::Abandon, HEAD),
        (Verb::Goodbye, HEAD),
        (Verb::Goodbye, Head { flags: 1, ..HEAD }),
    ];
    let alone = alone.map(|(verb, head)| request(verb, encode_heads(head, &[])));
    Row {
        name: "request to a parameter server",
        samples: vec![
            request(Verb::Push, push()),
            request(Verb::Pull, body(HEAD, &[pull], &[1, 2, 3], &[])),
            request(Verb::Scan, body(Head { samples: 10, ..HEAD }, &[pull], &[1, 2, 3], &[])),
            request(Verb::Join, JOIN.as_bytes().to_vec()),
            request(Verb::Set, body(HEAD, &[set], &[7], &[0.5; 16])),
            request(Verb::Members, body(Head { version: 1, ..HEAD }, &[released], &[1, 77], &[])),
        ]
        .into_iter()
        .chain(alone)
        .collect(),
        decode: |bytes| {
            let (code, body) =
                bytes.split_first_chunk().ok_or_else(|| Error::new(Kind::Damaged, "no verb"))?;
            let verb = Verb::decode(u16::from_le_bytes(*code))?;
            let [fixed, elastic] = [false, true].map(|is_elastic| {
                let mut shard = shard(is_elastic);
                let outcome = ask(&mut shard, verb, body.to_vec());
                shard.tick(Instant::now());
                // Unless it was asked to give the job up, it serves whoever comes next.
                if shard.failure().is_some() {
                    return Ok(());
                }
                ask(&mut shard, Verb::Statistics, Vec::new()).unwrap();
                outcome
            });
            // Some requests are for one of them.
            fixed.or(elastic)
        },
        rounds: 5000,
        bytes_max: 64 << 20,
    }
}

/// A checkpoint of one shard: its manifest, also with a checksum that fits, and its data.
pub(crate) fn checkpoint() -> Row {
    let folder = tempfile::tempdir().unwrap();
    let join: Join = decode_json(JOIN.as_bytes()).unwrap();
    let mut shard = shard(false);
    ask(&mut shard, Verb::Push, push()).unwrap();
    assert!(shard.begin_last_cut());
    let mut writer = Writer::new(folder.path(), 1, &join).unwrap();
    let mut completed = None;
    while let Some(piece) = shard.next_saved() {
        completed = writer.write(piece).unwrap();
    }
    assert_eq!(completed.unwrap().cut, 1);
    let read = |name| std::fs::read(folder.path().join(CUT).join(name)).unwrap();
    let (manifest, data) = (read(MANIFEST), read(DATA));
    let length = (manifest.len() as u32).to_le_bytes().to_vec();
    Row {
        name: "checkpoint",
        samples: vec![[length, manifest, data].concat()],
        decode: decode_checkpoint,
        rounds: 2000,
        bytes_max: 64 << 20,
    }
}

const CUT: &str = "cut-00000001";
const MANIFEST: &str = "dense-00000-of-00001.json";
const DATA: &str = "dense-00000-of-00001.part";
/// Bytes of a manifest's last field, its checksum.
const TAIL_BYTES: usize = ",\n  \"crc32\": \"00000000\"\n}\n".len();

fn decode_checkpoint(bytes: &[u8]) -> Result<()> {
    let short = || Error::new(Kind::Damaged, "no manifest");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let (manifest, data) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(CUT)).unwrap();
    std::fs::write(folder.path().join(CUT).join(DATA), data).unwrap();
    std::fs::write(folder.path().join(CUT).join(MANIFEST), manifest).unwrap();
    let as_it_is = restore(folder.path());
    if let Some(content) = manifest.len().checked_sub(TAIL_BYTES).map(|end| &manifest[..end]) {
        // A checksum that fits lets what was changed reach the rest.
        let tail = format!(",\n  \"crc32\": \"{:08x}\"\n}}\n", crc32fast::hash(content));
        let honest = [content, tail.as_bytes()].concat();
        std::fs::write(folder.path().join(CUT).join(MANIFEST), honest).unwrap();
        restore(folder.path())?;
    }
    as_it_is
}

fn restore(folder: &Path) -> Result<()> {
    checkpoint::list(folder)?;
    let join: Join = decode_json(JOIN.as_bytes())?;
    let mut directory = Directory { folder: folder.to_path_buf(), which: Which::Latest };
    directory.restore(&join, &mut |_, _| Ok(())).map(drop)
}
