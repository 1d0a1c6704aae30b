//! A shard with its trainers, without sockets: what tests of its decisions ask and see.

use contract::Result;
use contract::mode::Mode;
use pserver::message::{
    EntryHead, FLAG_LAST, Head, Join, Joined, Message, Verb, encode_heads, encode_json,
};
use pserver::metrics::Metrics;
use pserver::shard::{CutFacts, Part, Reply, Request, Restore, Saved, Shard, ShardConfig};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::{Optimizer, Settings};

pub(crate) const DENSE: u32 = 0;
pub(crate) const SPARSE: u32 = 1;
/// Of a server of incarnation 1.
pub(crate) const EPOCH: u32 = 1;

/// A received body, aligned as the transport aligns it.
pub(crate) struct Body(Vec<u64>, usize);

impl Body {
    pub(crate) fn new(parts: &[&[u8]]) -> Self {
        let bytes = parts.concat();
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        Body(words, bytes.len())
    }
}

impl std::ops::Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}

/// A shard with its trainers: request numbers are tokens.
pub(crate) struct Scene {
    pub(crate) shard: Shard<u64, Body>,
    pub(crate) now: Instant,
    pub(crate) trainers: u32,
    pub(crate) tokens: u64,
    pub(crate) sequences: Vec<u64>,
    pub(crate) steps: Vec<u64>,
    pub(crate) cut: (u64, u64),
    pub(crate) mode: Mode,
    pub(crate) saved: Source,
    pub(crate) replies: HashMap<u64, Reply>,
}

#[derive(Default, Clone)]
pub(crate) struct Checkpoint {
    pub(crate) facts: Option<CutFacts>,
    pub(crate) parts: Vec<SavedPart>,
}

/// Parameter, key, value, state, counters.
pub(crate) type SavedPart = (usize, u64, Vec<f32>, Vec<f32>, Vec<u32>);

pub(crate) struct Source(pub(crate) Option<Checkpoint>);

impl Restore for Source {
    fn restore(
        &mut self,
        _join: &Join,
        put: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
    ) -> Result<Option<CutFacts>> {
        let Some(checkpoint) = &self.0 else { return Ok(None) };
        for (parameter, key, value, state, counters) in &checkpoint.parts {
            put(*parameter, Part { key: *key, value, state, counters })?;
        }
        Ok(checkpoint.facts.clone())
    }
}

pub(crate) fn model(mode: Mode) -> Model {
    let parameter = |name: &str, shape| Parameter {
        name: name.to_owned(),
        shape,
        mode,
        initializer: Initializer::Constant { value: 1.0 },
        settings: Settings::default(),
    };
    let optimizer: Optimizer = serde_json::from_str(
        r#"{"learning_rate": 0.5, "rule": {"name": "momentum", "momentum": 0.0, "nesterov": false}}"#,
    )
    .unwrap();
    Model {
        seed: 1,
        optimizer,
        parameters: vec![
            parameter("dense", Shape::Dense { elements: 3 }),
            parameter("sparse", Shape::Sparse { width: 2, rows: Some(100) }),
        ],
    }
}

impl Scene {
    pub(crate) fn new(trainers: u32, mode: Mode) -> Self {
        let now = Instant::now();
        let config = ShardConfig {
            incarnation: 1,
            trainers,
            min_trainers: None,
            trainer_timeout: Duration::from_secs(10),
            join_timeout: Duration::from_secs(100),
            stall_timeout: Duration::from_secs(1000),
            table_bytes_max: 1 << 30,
            parked_bytes_max: 1 << 20,
            can_cut: true,
            cut_interval: None,
            preset: None,
        };
        Scene {
            shard: Shard::new(config, Metrics::new(0), now),
            now,
            trainers,
            tokens: 0,
            sequences: vec![0; trainers as usize],
            steps: vec![0; trainers as usize],
            cut: (0, 0),
            mode,
            saved: Source(None),
            replies: HashMap::new(),
        }
    }

    /// All trainers joined, values begun.
    pub(crate) fn ready(trainers: u32, mode: Mode) -> Self {
        let mut scene = Scene::new(trainers, mode);
        for rank in 0..trainers {
            scene.join(rank).unwrap();
        }
        scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
        scene
    }

    pub(crate) fn join_message(&self, rank: u32) -> Join {
        Join {
            rank,
            trainers: self.trainers,
            server: 0,
            servers: 1,
            port: 0,
            dense_ports: 1,
            sparse_ports: 0,
            model: model(self.mode),
            epoch: None,
            lag_ratio_max: None,
            attempt: None,
        }
    }

    pub(crate) fn join(&mut self, rank: u32) -> Result<Joined> {
        let join = self.join_message(rank);
        self.join_with(&join, 100 + u64::from(rank))
    }

    pub(crate) fn join_with(&mut self, join: &Join, incarnation: u64) -> Result<Joined> {
        let body = Body::new(&[&encode_json(join).unwrap()]);
        let token = self.submit(Verb::Join, incarnation, body);
        match self.reply(token).unwrap() {
            Reply::Json(json) => Ok(serde_json::from_slice(&json).unwrap()),
            Reply::Error(error) => Err(error),
            Reply::Message(_) => panic!("a message in reply to join"),
        }
    }

    /// Sends a request; answers are collected by token.
    pub(crate) fn submit(&mut self, verb: Verb, incarnation: u64, body: Body) -> u64 {
        self.tokens += 1;
        let (token, connection) = (self.tokens, 1);
        let request = Request { token, verb, incarnation, connection, body };
        self.shard.handle(self.now, request, &mut self.saved);
        self.collect();
        self.tokens
    }

    pub(crate) fn start(
        &mut self,
        verb: Verb,
        rank: u32,
        head: Head,
        entries: &[(u32, &[u64], &[f32])],
    ) -> u64 {
        let heads: Vec<EntryHead> = entries
            .iter()
            .map(|(parameter, keys, values)| EntryHead {
                parameter: *parameter,
                keys: keys.len() as u32,
                values: values.len() as u32,
                ..EntryHead::default()
            })
            .collect();
        let head = Head { rank, cut: self.cut.0, cut_version: self.cut.1, epoch: EPOCH, ..head };
        let mut parts = vec![encode_heads(head, &heads)];
        parts.extend(entries.iter().map(|(_, keys, _)| bytemuck::cast_slice(keys).to_vec()));
        parts.extend(entries.iter().map(|(.., values)| bytemuck::cast_slice(values).to_vec()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.submit(verb, 100 + u64::from(rank), Body::new(&parts))
    }

    pub(crate) fn ask(
        &mut self,
        verb: Verb,
        rank: u32,
        head: Head,
        entries: &[(u32, &[u64], &[f32])],
    ) -> Result<Message> {
        let token = self.start(verb, rank, head, entries);
        message(self.reply(token).expect("the request waits"))
    }

    pub(crate) fn push(&mut self, rank: u32, entries: &[(u32, &[u64], &[f32])]) -> Result<Message> {
        let place = rank as usize;
        self.sequences[place] += 1;
        let head = Head {
            sequence: self.sequences[place],
            version: self.steps[place],
            samples: 1,
            flags: FLAG_LAST,
            ..Head::default()
        };
        self.steps[place] += 1;
        self.ask(Verb::Push, rank, head, entries)
    }

    pub(crate) fn push_dense(&mut self, rank: u32, gradient: [f32; 3]) {
        self.push(rank, &[(DENSE, &[0], &gradient)]).unwrap();
    }

    /// Asks for the dense values after the steps that the rank has done.
    pub(crate) fn pull_dense(&mut self, rank: u32) -> u64 {
        let head = Head { version: self.steps[rank as usize], ..Head::default() };
        self.start(Verb::Pull, rank, head, &[(DENSE, &[0], &[])])
    }

    pub(crate) fn pull_rows(&mut self, rank: u32, keys: &[u64]) -> Vec<f32> {
        let head = Head { version: self.steps[rank as usize], ..Head::default() };
        self.ask(Verb::Pull, rank, head, &[(SPARSE, keys, &[])]).unwrap().values
    }

    pub(crate) fn finish_pass(&mut self, rank: u32, pass: u64) -> u64 {
        self.start(Verb::FinishPass, rank, Head { version: pass, ..Head::default() }, &[])
    }

    pub(crate) fn reply(&mut self, token: u64) -> Option<Reply> {
        self.replies.remove(&token)
    }

    pub(crate) fn values(&mut self, token: u64) -> Option<Vec<f32>> {
        self.reply(token).map(|reply| message(reply).unwrap().values)
    }

    pub(crate) fn collect(&mut self) {
        for (token, reply) in self.shard.take_replies() {
            if let Reply::Message(message) = &reply {
                // Trainers repeat what they have heard.
                self.cut = self.cut.max((message.head.cut, message.head.cut_version));
            }
            self.replies.insert(token, reply);
        }
    }

    pub(crate) fn save(&mut self) -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        while let Some(piece) = self.shard.next_saved() {
            match piece {
                Saved::Begin { facts, .. } => checkpoint.facts = Some(facts),
                Saved::Rows { parameter, rows } => {
                    for (key, row) in rows.iter() {
                        checkpoint.parts.push((
                            parameter,
                            key,
                            row.value.to_vec(),
                            row.state.to_vec(),
                            row.counters.to_vec(),
                        ));
                    }
                }
                Saved::Block { parameter, block } => checkpoint.parts.push((
                    parameter,
                    block.number,
                    block.value,
                    block.state,
                    block.counters,
                )),
                Saved::End => return checkpoint,
            }
        }
        panic!("no cut is under way");
    }
}

pub(crate) fn message(reply: Reply) -> Result<Message> {
    match reply {
        Reply::Message(message) => Ok(message),
        Reply::Error(error) => Err(error),
        Reply::Json(_) => panic!("JSON where a message was expected"),
    }
}
