//! The trainer of the rounds: the real clients around a model that counts how often every record was
//! applied, and of which some values depend on the order of everything before.

use contract::env::Environment;
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use master::client::Next;
use master::task::Task;
use pserver::client::{Client, ClientConfig, Pull, PullStyle, fresh_incarnation};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::gradient::Gradient;
use table::initializer::Initializer;
use table::model::{Model, ModelIndex, Parameter, Shape};
use table::optimizer::Settings;

/// Values by name of the parameter.
pub(super) type Values = Vec<(String, Vec<f32>)>;

/// What is trained, told by a variable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) has_dense: bool,
    pub(super) has_sparse: bool,
    pub(super) mode: Mode,
    /// Whether the master deals the records out; each trainer has its own otherwise.
    pub(super) is_dealt: bool,
    pub(super) passes: u64,
    /// Of each trainer in a pass; as many records.
    pub(super) batches: u64,
    /// Of the whole pass.
    pub(super) records: u64,
    pub(super) step_ms: u64,
    /// Each trainer is killed once right behind its goodbye, when its servers may be ending.
    pub(super) dies_at_goodbye: bool,
    /// Where the round and its trainers meet.
    pub(super) folder: PathBuf,
}

/// Where trainers wait for the faults of their round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    LastPass,
    Goodbye,
}

/// Records of a file of data, and bytes of each.
pub(super) const FILE_RECORDS: u64 = 2;
pub(super) const RECORD_BYTES: u64 = 8;

/// What a record adds to the values that depend on the order.
pub(super) fn drift(record: u64, own: f32, other: f32) -> f32 {
    0.25 * own + 0.125 * other + 0.01 * (record as f32 + 1.0)
}

/// How long a trainer waits at a gate. Only a round that fails waits so long.
const GATE: Duration = Duration::from_secs(900);

impl Told {
    /// Where trainer 0 writes what it has in the end.
    pub(super) fn result(&self) -> PathBuf {
        self.folder.join("result.json")
    }

    /// A file of one byte for each step that any trainer has begun.
    pub(super) fn progress(&self) -> PathBuf {
        self.folder.join("progress")
    }

    /// A file without which trainers do not go on: before the last pass ends, and before trainer 0
    /// says goodbye. So a job cannot end before all faults have struck it.
    pub(super) fn gate(&self, name: Gate) -> PathBuf {
        self.folder.join(match name {
            Gate::LastPass => "may-end-its-last-pass",
            Gate::Goodbye => "may-say-goodbye",
        })
    }

    async fn await_gate(&self, name: Gate) -> Result<()> {
        let (gate, begun) = (self.gate(name), std::time::Instant::now());
        while !gate.exists() {
            if begun.elapsed() > GATE {
                return Err(Error::new(Kind::Timeout, "no fault came").with("gate", gate.display()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn count_step(&self) -> Result<()> {
        let counted = std::fs::OpenOptions::new().append(true).create(true).open(self.progress());
        counted
            .and_then(|mut file| file.write_all(b"."))
            .map_err(|source| Error::io("cannot count a step", source))
    }

    pub(super) fn model(&self) -> Model {
        let parameter = |name: &str, shape| Parameter {
            name: name.to_owned(),
            shape,
            mode: self.mode,
            initializer: Initializer::Constant { value: 0.0 },
            settings: Settings::default(),
        };
        let mut parameters = Vec::new();
        if self.has_dense {
            let shape = Shape::Dense { elements: self.records };
            parameters.extend(["count", "again", "drift", "b"].map(|name| parameter(name, shape)));
        }
        if self.has_sparse {
            let shape = Shape::Sparse { width: 1, rows: Some(1 << 20) };
            let names = ["count.rows", "again.rows", "drift.rows"];
            parameters.extend(names.map(|name| parameter(name, shape)));
        }
        let optimizer = r#"{"learning_rate": 1.0, "rule": {"name": "momentum"}}"#;
        Model { seed: 1, optimizer: serde_json::from_str(optimizer).unwrap(), parameters }
    }
}

struct Trainer {
    told: Told,
    client: Client,
    model: Model,
    dense: Vec<Vec<f32>>,
    is_resting: bool,
}

/// The whole life of a trainer's process.
pub(super) fn run(told: &Told) {
    let environment = Environment::parse(|name| std::env::var(name).ok()).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Err(error) = runtime.block_on(train(told, &environment)) {
        panic!("{}", error.chain());
    }
}

async fn train(told: &Told, environment: &Environment) -> Result<()> {
    let rank = environment.rank.unwrap_or(0);
    let model = told.model();
    let config = ClientConfig {
        ports: environment.ports,
        token: environment.token.clone(),
        attempt: Some(environment.attempt),
        ..ClientConfig::new(rank, environment.trainers, fresh_incarnation(), model.clone())
    };
    let client = Client::connect(config, environment.pserver_endpoints.clone()).await?;
    let start = client.start();
    if start.has_left {
        return client.goodbye().await;
    }
    if rank == 0 {
        client.begin().await?;
    }
    let dense = vec![Vec::new(); model.parameters.len()];
    let is_resting = start.is_resting;
    let mut trainer = Trainer { told: told.clone(), client, model, dense, is_resting };
    trainer.push(None).await?;
    let master = trainer.join_master(environment).await?;
    for pass in start.pass..told.passes {
        let skipped = if pass == start.pass { start.batches } else { 0 };
        match &master {
            None => {
                for batch in skipped..told.batches {
                    trainer.step(u64::from(rank) * told.batches + batch).await?;
                }
            }
            Some(master) => trainer.train_tasks(master, pass).await?,
        }
        if pass + 1 == told.passes {
            trainer.await_faults().await?;
        }
        trainer.client.finish_pass().await?;
        trainer.is_resting = false;
        trainer.push(None).await?;
    }
    if rank == 0 {
        let values = trainer.all_values().await?;
        write(&told.result(), &serde_json::to_vec(&values).unwrap());
        told.await_gate(Gate::Goodbye).await?;
    }
    trainer.client.goodbye().await?;
    let mark = told.folder.join(format!("has-died-at-goodbye-{rank}"));
    if told.dies_at_goodbye && !mark.exists() {
        write(&mark, b"");
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    Ok(())
}

/// Complete or not at all.
fn write(path: &Path, bytes: &[u8]) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, bytes).unwrap();
    std::fs::rename(draft, path).unwrap();
}

impl Trainer {
    /// Waits at the end of the last pass. One that has no more tasks rests meanwhile, since others
    /// may have some.
    async fn await_faults(&mut self) -> Result<()> {
        if self.told.is_dealt && !self.is_resting {
            self.client.rest().await?;
            self.is_resting = true;
        }
        self.told.await_gate(Gate::LastPass).await
    }

    async fn join_master(&self, own: &Environment) -> Result<Option<master::client::Client>> {
        let Some(endpoint) = own.master.as_ref().filter(|_| self.told.is_dealt) else {
            return Ok(None);
        };
        let config = master::client::ClientConfig {
            name: format!("trainer-{}", own.rank.unwrap_or(0)),
            token: own.token.clone(),
            ..master::client::ClientConfig::new(fresh_incarnation())
        };
        let client = master::client::Client::connect(config, endpoint).await?;
        let restored = self.client.restored();
        client.reopen(restored.cut, restored.epoch.into()).await?;
        Ok(Some(client))
    }

    async fn train_tasks(&mut self, master: &master::client::Client, pass: u64) -> Result<()> {
        master.begin_pass(pass);
        loop {
            let mut next = master.next_task(Duration::ZERO).await?;
            while next == Next::Wait {
                if !self.is_resting {
                    self.client.rest().await?;
                    self.is_resting = true;
                }
                next = master.next_task(Duration::from_secs(60)).await?;
            }
            let Next::Task(task) = next else { return Ok(()) };
            for record in records_of(&task)? {
                if self.is_resting {
                    self.client.wake().await?;
                    self.is_resting = false;
                    self.push(None).await?;
                }
                self.step(record).await?;
            }
            let cut = self.client.position().cut + 1;
            master.finish(task.lease(), Some(cut)).await?;
        }
    }

    async fn step(&mut self, record: u64) -> Result<()> {
        self.told.count_step()?;
        let keys = [record, (record + 1) % self.told.records];
        let of_rows = |parameter: &Parameter| match parameter.shape.is_sparse() {
            true => vec![0.0; 2],
            false => Vec::new(),
        };
        let mut gradients: Vec<Vec<f32>> = self.model.parameters.iter().map(of_rows).collect();
        let sparse = gradients.iter_mut().enumerate().filter(|(_, rows)| !rows.is_empty());
        let mut pulls: Vec<Pull<'_>> = sparse
            .map(|(at, out)| Pull::Sparse { parameter: ModelIndex(at), keys: &keys, out })
            .collect();
        if !pulls.is_empty() {
            self.client.pull(&mut pulls).await?;
        }
        tokio::time::sleep(Duration::from_millis(self.told.step_ms)).await;
        for (at, described) in self.model.parameters.iter().enumerate() {
            let of = |own: f32, other: f32| match described.name.starts_with("drift") {
                true => drift(record, own, other),
                false => -1.0,
            };
            gradients[at] = match described.shape.is_sparse() {
                true => vec![of(gradients[at][0], gradients[at][1])],
                false => {
                    let values = &self.dense[at];
                    let mut gradient = vec![0.0; values.len()];
                    let [own, other] = keys.map(|key| key as usize);
                    gradient[own] = of(values[own], values[other]);
                    gradient
                }
            };
        }
        self.push(Some((record, gradients))).await
    }

    /// Pushes a step, if there is one, and renews the dense values.
    async fn push(&mut self, step: Option<(u64, Vec<Vec<f32>>)>) -> Result<()> {
        let mut pulls = Vec::new();
        let described = self.model.parameters.iter();
        for ((at, out), described) in self.dense.iter_mut().enumerate().zip(described) {
            if let Shape::Dense { elements } = described.shape {
                out.resize(elements as usize, 0.0);
                pulls.push(Pull::Dense { parameter: ModelIndex(at), out });
            }
        }
        let Some((record, gradients)) = step else { return self.client.pull(&mut pulls).await };
        let keys = [record];
        let given = gradients.iter().zip(&self.model.parameters).enumerate();
        let given: Vec<Gradient<'_>> = given
            .map(|(at, (values, described))| {
                let rows = described.shape.is_sparse().then_some(&keys[..]);
                Gradient::new(ModelIndex(at), rows, values)
            })
            .collect();
        self.client.push_pull(&given, 1, &mut pulls).await.map(|_| ())
    }

    async fn all_values(&mut self) -> Result<Values> {
        let keys: Vec<u64> = (0..self.told.records).collect();
        let mut all = Vec::new();
        for (at, described) in self.model.parameters.iter().enumerate() {
            let parameter = ModelIndex(at);
            let mut out = vec![0.0; keys.len()];
            let pull = match described.shape.is_sparse() {
                true => Pull::Sparse { parameter, keys: &keys, out: &mut out },
                false => Pull::Dense { parameter, out: &mut out },
            };
            let style = PullStyle { is_read_only: true, is_averaged: false };
            self.client.pull_with(&mut [pull], style).await?;
            all.push((described.name.clone(), out));
        }
        Ok(all)
    }
}

/// The records of a task: files are numbered, and so are their lines.
fn records_of(task: &Task) -> Result<Vec<u64>> {
    let mut records = Vec::new();
    for piece in &task.pieces {
        let number = piece.path.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
        let file = number.ok_or_else(|| Error::new(Kind::Damaged, "not a file of this round"))?;
        let first = file * FILE_RECORDS + piece.offset / RECORD_BYTES;
        records.extend(first..first + piece.bytes / RECORD_BYTES);
    }
    Ok(records)
}
