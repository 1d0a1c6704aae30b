//! Frame ↔ request and reply. Every byte is checked here, so that a shard meets only messages whose
//! parts are where they claim to be; whether they make sense for the model is the shard's question.
//!
//! Rare messages (join, statistics, errors) are JSON. The others share one layout, little-endian:
//! a head of 64 bytes, the entry heads of 16 bytes, all keys (u64), all values, in the order of the
//! entries and without gaps, so that keys and f32 values can be used where they were received.

use crate::brain_float;
use bytemuck::{Pod, Zeroable};
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, Range};
use std::str::FromStr;

use table::model::{Model, Shape};
use table::placement::ShardPlace;

/// What is spoken over the frames; the version changes when an older peer would misunderstand.
pub const SERVICE: wire::Service = wire::Service { name: "pserver", version: 4 };

/// What a frame asks for; replies carry the kind of their request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Verb {
    /// A trainer says who it is and what it trains: JSON [`Join`] → JSON [`Joined`].
    Join = 1,
    /// Trainer 0: the values are complete, the shard fills in the rest; training may begin.
    Begin = 2,
    /// Values of blocks or rows, to be taken as they are.
    Set = 3,
    /// Gradients.
    Push = 4,
    /// Asks for values.
    Pull = 5,
    /// A trainer has no more data in this pass; answered when none has.
    FinishPass = 6,
    /// Answered when all trainers have asked.
    Synchronize = 7,
    /// Nothing, but heard.
    Heartbeat = 8,
    /// A trainer leaves for good; with [`FLAG_LAST`] all other shards have heard so.
    Goodbye = 9,
    /// Rows in the order they are stored in, a page at a time.
    Scan = 10,
    /// Asks for a checkpoint.
    Cut = 11,
    /// JSON [`Statistics`].
    Statistics = 12,
    /// A trainer has no data for now: nobody waits for it until it wakes.
    Rest = 13,
    /// A trainer that rested has data again, and wants to take part from a step on; answered with
    /// the step that it takes part in, which is later if the shard is past the wanted one.
    Wake = 14,
    /// A trainer has found that the epoch cannot go on: the job fails.
    Abandon = 15,
    /// Elastic jobs. To shard 0: asks for the trainers that were released, once there has been a
    /// change after the one that the request names. To other shards: carries them there.
    Members = 16,
}

impl Verb {
    const ALL: [Verb; 16] = [
        Verb::Join,
        Verb::Begin,
        Verb::Set,
        Verb::Push,
        Verb::Pull,
        Verb::FinishPass,
        Verb::Synchronize,
        Verb::Heartbeat,
        Verb::Goodbye,
        Verb::Scan,
        Verb::Cut,
        Verb::Statistics,
        Verb::Rest,
        Verb::Wake,
        Verb::Abandon,
        Verb::Members,
    ];

    /// The verb of a frame.
    pub fn decode(code: u16) -> Result<Verb> {
        Verb::ALL.into_iter().find(|verb| *verb as u16 == code).ok_or_else(|| {
            Error::new(Kind::Unsupported, "unknown request; use matching releases")
                .with("code", code)
        })
    }
}

/// The last frame of a trainer's step, or of its life.
pub const FLAG_LAST: u32 = 1;
/// Pull: rows that do not exist are answered with their first values, and not created.
pub const FLAG_READ_ONLY: u32 = 1 << 1;
/// Pull and scan: the averaged values, where the optimizer averages.
pub const FLAG_AVERAGED: u32 = 1 << 2;
/// Reply to a push: it had been applied before.
pub const FLAG_DUPLICATE: u32 = 1 << 3;
/// Reply to a push: it was too old and was thrown away.
pub const FLAG_DROPPED: u32 = 1 << 4;

/// The fixed part of a message, the same for all but the JSON ones. Unused fields are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    /// Push: counts this trainer's push frames to this shard, from 1.
    pub sequence: u64,
    /// Push: the step. Pull: the least version. Finish pass: the pass. Synchronize: its number.
    /// Wake: the step wanted. Scan: where to continue. Members: the change that is known. Reply: the
    /// shard's version (finish pass and wake: the trainer's own step, scan: where to continue,
    /// members: the newest change).
    pub version: u64,
    /// Push: the version that the gradients were computed from. Reply: the pass.
    pub base: u64,
    /// Push: samples of this step, in each of its frames. Scan: the most rows to return.
    pub samples: u64,
    /// The newest checkpoint cut heard of, 0 for none.
    pub cut: u64,
    /// The version at which it is taken.
    pub cut_version: u64,
    /// The trainer.
    pub rank: u32,
    /// `FLAG_…`.
    pub flags: u32,
    /// Number of entry heads.
    pub entries: u32,
    /// The epoch; every frame of another one is refused.
    pub epoch: u32,
}

/// One parameter's share of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EntryHead {
    /// Its place in the model.
    pub parameter: u32,
    /// The type of the values, [`ValueType`], the same in all entries of a message. In a pull, that
    /// of the reply.
    pub data_type: u16,
    /// Zero.
    pub reserved: u16,
    /// Number of keys: rows, or block numbers of a dense parameter.
    pub keys: u32,
    /// Number of values.
    pub values: u32,
}

/// How values travel; both sides compute with f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum ValueType {
    /// As they are.
    #[default]
    F32 = 0,
    /// Half the bytes: an f32 with 8 bits of precision.
    Bf16 = 1,
}

impl ValueType {
    fn decode(code: u16) -> Result<ValueType> {
        match code {
            0 => Ok(ValueType::F32),
            1 => Ok(ValueType::Bf16),
            _ => Err(Error::new(Kind::Unsupported, "values must be f32, type 0, or bf16, type 1")
                .with("data_type", code)),
        }
    }

    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            ValueType::F32 => 4,
            ValueType::Bf16 => 2,
        }
    }
}

impl FromStr for ValueType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "f32" => Ok(ValueType::F32),
            "bf16" => Ok(ValueType::Bf16),
            _ => Err(Error::invalid("values travel as f32 or bf16").with("wire_values", text)),
        }
    }
}

/// No job counts this far: steps, passes, frames and cuts beyond it are a mistake or an attack, and
/// sums of what is below it do not overflow.
pub const COUNT_MAX: u64 = 1 << 48;
/// The most samples of one step of one trainer.
pub const SAMPLES_MAX: u64 = 1 << 32;

impl Head {
    /// Refuses numbers of a request that no job reaches.
    pub fn check(&self, verb: Verb) -> Result<()> {
        let refuse = |field: &str, found: u64, limit: u64| {
            Err(Error::invalid("a number of the request is larger than any job reaches")
                .with("field", field)
                .with("found", found)
                .with("limit", limit)
                .with("rank", self.rank))
        };
        let counts = [
            ("sequence", self.sequence),
            ("version", self.version),
            ("base", self.base),
            ("cut", self.cut),
            ("cut_version", self.cut_version),
        ];
        if let Some((field, found)) = counts.into_iter().find(|(_, count)| *count > COUNT_MAX) {
            return refuse(field, found, COUNT_MAX);
        }
        if verb == Verb::Push && self.samples > SAMPLES_MAX {
            return refuse("samples", self.samples, SAMPLES_MAX);
        }
        Ok(())
    }
}

const HEAD_BYTES: usize = size_of::<Head>();
const ENTRY_BYTES: usize = size_of::<EntryHead>();
/// The most entries of one message.
pub const ENTRIES_MAX: u32 = 65_536;

/// A received message with its keys and values in place.
#[derive(Debug)]
pub struct Payload<B> {
    body: B,
    /// The fixed part.
    pub head: Head,
    /// Where each entry's keys and values are.
    pub entries: Vec<Entry>,
    /// The values, if they did not travel as f32.
    widened: Vec<f32>,
    /// How the values travelled; in a pull, how the reply's are to.
    pub value_type: ValueType,
}

/// One parameter's share of a received message.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place in the model.
    pub parameter: u32,
    keys: Range<usize>,
    /// Which of all values.
    values: Range<usize>,
}

impl<B: Deref<Target = [u8]>> Payload<B> {
    /// Checks that the parts fit the body exactly.
    pub fn decode(body: B) -> Result<Self> {
        let bytes = &*body;
        let head: Head = bytes
            .get(..HEAD_BYTES)
            .map(bytemuck::pod_read_unaligned)
            .ok_or_else(|| damaged("message is shorter than its head"))?;
        if head.entries > ENTRIES_MAX {
            return Err(damaged("message has too many entries").with("entries", head.entries));
        }
        let table = HEAD_BYTES..HEAD_BYTES + head.entries as usize * ENTRY_BYTES;
        let heads =
            bytes.get(table.clone()).ok_or_else(|| damaged("message ends in its entries"))?;
        let heads = heads.chunks_exact(ENTRY_BYTES).map(bytemuck::pod_read_unaligned::<EntryHead>);
        let key_count: usize = heads.clone().map(|entry| entry.keys as usize).sum();
        let value_count: usize = heads.clone().map(|entry| entry.values as usize).sum();
        let value_type = ValueType::decode(heads.clone().next().map_or(0, |one| one.data_type))?;
        let values_start = table.end + key_count * 8;
        let claimed_bytes = values_start + value_count * value_type.bytes();
        if claimed_bytes != bytes.len() {
            return Err(damaged("message does not have the size its entries claim")
                .with("claimed_bytes", claimed_bytes)
                .with("bytes", bytes.len()));
        }
        let (mut keys_at, mut values_at) = (table.end, 0);
        let mut entries = Vec::with_capacity(head.entries as usize);
        for entry in heads {
            if entry.data_type != value_type as u16 {
                return Err(damaged("values of one message must be of one type"));
            }
            let keys = keys_at..keys_at + entry.keys as usize * 8;
            let values = values_at..values_at + entry.values as usize;
            (keys_at, values_at) = (keys.end, values.end);
            entries.push(Entry { parameter: entry.parameter, keys, values });
        }
        let mut widened = Vec::new();
        if value_type == ValueType::Bf16 {
            widened.reserve_exact(value_count);
            brain_float::widen(&bytes[values_start..], &mut widened);
        }
        // The transport hands out aligned bodies; this is our promise, not the peer's.
        bytemuck::try_cast_slice::<u8, u64>(&bytes[table.end..values_start])
            .map_err(|_| Error::new(Kind::Io, "message body is not aligned"))?;
        Ok(Payload { body, head, entries, widened, value_type })
    }

    /// Bytes of the whole message.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The keys of an entry.
    pub fn keys(&self, entry: &Entry) -> &[u64] {
        bytemuck::cast_slice(&self.body[entry.keys.clone()])
    }

    /// The values of an entry.
    pub fn values(&self, entry: &Entry) -> &[f32] {
        let all: &[f32] = match self.value_type {
            ValueType::F32 => {
                let start = self.entries.last().map_or(HEAD_BYTES, |last| last.keys.end);
                bytemuck::cast_slice(&self.body[start..])
            }
            ValueType::Bf16 => &self.widened[..],
        };
        &all[entry.values.clone()]
    }
}

/// A message to be sent, its parts in the order in which they travel.
#[derive(Debug, Default)]
pub struct Message {
    /// The fixed part; the number of entries is filled in when it is encoded.
    pub head: Head,
    /// One per parameter.
    pub entries: Vec<EntryHead>,
    /// Of all entries.
    pub keys: Vec<u64>,
    /// Of all entries.
    pub values: Vec<f32>,
}

impl Message {
    /// Only a head.
    pub fn of(head: Head) -> Self {
        Message { head, ..Message::default() }
    }

    /// Head and entry heads as bytes; keys and values follow.
    pub fn heads(&self) -> Vec<u8> {
        encode_heads(self.head, &self.entries)
    }

    /// The values as bytes, narrowed in `scratch` if they travel so.
    pub fn value_bytes<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let first = self.entries.first();
        if first.is_none_or(|entry| entry.data_type == ValueType::F32 as u16) {
            return bytemuck::cast_slice(&self.values);
        }
        scratch.clear();
        brain_float::narrow(&self.values, scratch);
        scratch
    }
}

/// Head and entry heads as bytes.
pub fn encode_heads(head: Head, entries: &[EntryHead]) -> Vec<u8> {
    let head = Head { entries: entries.len() as u32, ..head };
    let mut bytes = Vec::with_capacity(HEAD_BYTES + entries.len() * ENTRY_BYTES);
    bytes.extend_from_slice(bytemuck::bytes_of(&head));
    bytes.extend_from_slice(bytemuck::cast_slice(entries));
    bytes
}

/// What a trainer says when it joins a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Its rank.
    pub rank: u32,
    /// The number of trainers.
    pub trainers: u32,
    /// Which server the trainer takes this for, from 0.
    pub server: u32,
    /// The number of servers.
    pub servers: u32,
    /// Which of the server's ports this is, from 0, the dense ones first.
    pub port: u32,
    /// Ports of each server for dense parameters, at least 1.
    pub dense_ports: u32,
    /// Ports of each server for sparse parameters; with 0 the dense ports hold them too.
    pub sparse_ports: u32,
    /// The model.
    pub model: Model,
    /// What shard 0 has said of the epoch; `None` when shard 0 itself is asked for the first time.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// Async: gradients older than this many times the number of trainers are thrown away.
    #[serde(default)]
    pub lag_ratio_max: Option<f32>,
    /// How often this trainer was started before, where whoever starts it counts that.
    #[serde(default)]
    pub attempt: Option<u32>,
}

/// One life of a job's servers, as shard 0 decided it. `docs/faults.md` has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Drawn by shard 0 when it started; never 0.
    pub number: u32,
    /// The cut that all shards begin with; 0 for first values.
    pub cut: u64,
    /// Whether training has begun, on every shard: one that knows nothing of the epoch then has
    /// lost its values.
    pub has_begun: bool,
}

impl Epoch {
    /// Whether two are the same, whatever has happened in it.
    pub fn is_same(&self, other: &Epoch) -> bool {
        (self.number, self.cut) == (other.number, other.cut)
    }
}

impl Join {
    /// Whether it is sent to the shard that decides about the epoch.
    pub fn is_to_first(&self) -> bool {
        (self.server, self.port) == (0, 0)
    }

    /// Where the shard stands among those of its kind.
    pub fn place(&self) -> Result<ShardPlace> {
        if self.port < self.dense_ports {
            return ShardPlace::new(self.server, self.servers, self.port, self.dense_ports);
        }
        ShardPlace::new(self.server, self.servers, self.port - self.dense_ports, self.sparse_ports)
    }

    /// Whether the shard holds parameters of this shape.
    pub fn holds(&self, shape: Shape) -> bool {
        let is_dense_port = self.port < self.dense_ports;
        if shape.is_sparse() { !is_dense_port || self.sparse_ports == 0 } else { is_dense_port }
    }
}

/// What a shard answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Whether trainer 0 has still to bring or order the first values.
    pub needs_values: bool,
    /// Updates so far.
    pub version: u64,
    /// Passes so far.
    pub pass: u64,
    /// The last push frame of this process that was accepted.
    pub sequence: u64,
    /// The epoch, as far as this shard knows.
    pub epoch: Epoch,
    /// Whether updates wait for all trainers, so that versions count steps.
    pub is_in_step: bool,
    /// Steps that this rank has completed here, and those of them in the pass under way.
    pub steps: u64,
    /// See `steps`.
    pub batches: u64,
    /// Whether this rank rests.
    pub is_resting: bool,
    /// Whether this rank has left.
    pub has_left: bool,
    /// Whether checkpoints are kept.
    pub can_cut: bool,
    /// The newest checkpoint that was announced in this epoch, if any, and its version.
    pub announced: Option<(u64, u64)>,
    /// Later checkpoints have higher numbers than this.
    pub cut: u64,
    /// The highest number at which all trainers have synchronized.
    #[serde(default)]
    pub synchronized: u64,
    /// Whether trainers may come and go.
    #[serde(default)]
    pub is_elastic: bool,
}

/// What a shard knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Updates so far.
    pub version: u64,
    /// Passes so far.
    pub pass: u64,
    /// Samples so far.
    pub samples: u64,
    /// Sparse rows.
    pub rows: u64,
    /// Bytes that its tables hold.
    pub bytes: u64,
    /// The newest checkpoint that is complete on disk.
    pub last_cut: u64,
}

/// Reads a JSON message.
pub fn decode_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T> {
    // In the context, which a refusal carries to the peer.
    serde_json::from_slice(body)
        .map_err(|source| damaged("message cannot be read").with("problem", source))
}

/// Writes a JSON message.
pub fn encode_json(message: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(message)
        .map_err(|source| Error::new(Kind::Invalid, "message cannot be written").because(source))
}

fn damaged(message: &str) -> Error {
    Error::new(Kind::Damaged, message)
}

#[cfg(target_endian = "big")]
compile_error!("messages are used where they were received, which needs a little-endian machine");
