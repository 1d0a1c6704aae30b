//! A trainer: the loop of `SGD.train` around the real clients, with a model that counts.
//!
//! For every record some parameters count how often it was applied, and others depend on the order
//! of all that was applied before. As in `SGD.train`, the next record is known while one is computed:
//! its rows come in the round trip that takes the gradients of this one, and the next task is asked
//! for before the one under way is finished.

use crate::network::{Network, Way};
use crate::plan::{Data, Plan, Who};
use contract::Result;
use contract::port::{Endpoint, Ports};
use master::client::Next;
use master::task::Task;
use pserver::client::{Client, ClientConfig, Pull, PullStyle, Retry, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use table::gradient::Gradient;
use table::model::{Model, ModelIndex, Shape};
use tokio::time::sleep;
use wire::Limits;

/// Values by name of the parameter.
pub(crate) type Values = Vec<(String, Vec<f32>)>;

/// What a trainer is told.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) plan: Arc<Plan>,
    pub(crate) network: Arc<Network>,
    pub(crate) rank: u32,
    pub(crate) incarnation: u64,
    /// Where trainers put what they have in the end.
    pub(crate) results: Arc<Mutex<Vec<Option<Values>>>>,
}

pub(crate) const MASTER: &str = "master:8080";

/// The first port of a server.
pub(crate) const FIRST_PORT: u16 = 7000;

pub(crate) fn small_limits() -> Limits {
    Limits { read_buffer_bytes: 4096, write_buffer_bytes: 4096, ..Limits::default() }
}

/// What brought values begin with.
const BROUGHT: f32 = 0.5;

struct Trainer {
    told: Told,
    client: Client,
    model: Model,
    dense: Vec<Vec<f32>>,
    /// The record that comes next, and its rows by parameter.
    ahead: Option<(u64, Vec<Vec<f32>>)>,
    is_resting: bool,
}

pub(crate) async fn run(told: Told) -> Result<()> {
    let client = connect(&told).await?;
    let start = client.start();
    if start.has_left {
        return client.goodbye().await;
    }
    let Told { plan, rank, .. } = told.clone();
    let model = plan.model();
    if rank == 0 {
        if start.needs_values && plan.brings_values {
            bring(&client, &model).await?;
        }
        client.begin().await?;
    }
    let dense = vec![Vec::new(); model.parameters.len()];
    let is_resting = start.is_resting;
    let mut trainer = Trainer { told: told.clone(), client, model, dense, ahead: None, is_resting };
    trainer.push(None, None).await?;
    let master = trainer.join_master().await?;
    for pass in start.pass..plan.passes {
        let skipped = if pass == start.pass { start.batches } else { 0 };
        match &master {
            None => {
                let record = |batch| u64::from(rank) * plan.batches + batch;
                for batch in skipped..plan.batches {
                    let next = (batch + 1 < plan.batches).then(|| record(batch + 1));
                    trainer.step(record(batch), next).await?;
                }
            }
            Some(master) => trainer.train_tasks(master, pass).await?,
        }
        trainer.client.finish_pass().await?;
        trainer.is_resting = false;
        trainer.push(None, None).await?;
    }
    let values = trainer.all_values().await?;
    told.results.lock().expect("nobody panics with it")[rank as usize] = Some(values);
    trainer.client.goodbye().await
}

async fn connect(told: &Told) -> Result<Client> {
    let Told { plan, network, rank, incarnation, .. } = told;
    let way = Way { network: Arc::clone(network), who: Who::Trainer(*rank) };
    let config = ClientConfig::new(*rank, plan.trainers, *incarnation, plan.model());
    let config = ClientConfig {
        ports: Ports { dense: plan.dense_ports, sparse: plan.sparse_ports, ..Ports::default() },
        limits: small_limits(),
        retry: Retry { jitter_seed: Some(*incarnation), ..Retry::default() },
        dial: Some(Arc::new(way)),
        ..config
    };
    let endpoint = |server| Endpoint::new(&format!("server-{server}"), FIRST_PORT);
    let endpoints = (0..plan.servers).map(endpoint).collect::<Result<Vec<_>>>()?;
    Client::connect(config, endpoints).await
}

async fn bring(client: &Client, model: &Model) -> Result<()> {
    for (at, described) in model.parameters.iter().enumerate() {
        let parameter = ModelIndex(at);
        match described.shape {
            Shape::Dense { elements } => {
                let values = vec![BROUGHT; elements as usize];
                client.set(&[Value::Dense { parameter, values: &values }]).await?;
            }
            Shape::Sparse { .. } => {
                let values = &[BROUGHT];
                client.set(&[Value::Sparse { parameter, keys: &[0], values }]).await?;
            }
        }
    }
    Ok(())
}

impl Trainer {
    async fn join_master(&self) -> Result<Option<master::client::Client>> {
        let Told { plan, network, rank, incarnation, .. } = &self.told;
        if plan.data == Data::Static {
            return Ok(None);
        }
        let way = Way { network: Arc::clone(network), who: Who::Trainer(*rank) };
        let config = master::client::ClientConfig::new(*incarnation);
        let config = master::client::ClientConfig {
            name: format!("trainer-{rank}"),
            limits: small_limits(),
            retry: Retry { jitter_seed: Some(*incarnation), ..config.retry },
            dial: Some(Arc::new(way)),
            ..config
        };
        let client = master::client::Client::connect(config, &MASTER.parse()?).await?;
        let restored = self.client.restored();
        client.reopen(restored.cut, restored.epoch.into()).await?;
        Ok(Some(client))
    }

    async fn train_tasks(&mut self, master: &master::client::Client, pass: u64) -> Result<()> {
        master.begin_pass(pass);
        // Records, each with the task that it is the last of.
        let mut records: VecDeque<(u64, Option<Task>)> = VecDeque::new();
        loop {
            if records.len() < 2 {
                let mut next = master.next_task(Duration::ZERO).await?;
                while next == Next::Wait && records.is_empty() {
                    if !self.is_resting {
                        self.client.rest().await?;
                        self.is_resting = true;
                    }
                    next = master.next_task(Duration::from_secs(3600)).await?;
                }
                match next {
                    Next::Task(task) => {
                        records.extend(records_of(&task).map(|record| (record, None)));
                        let last = records.back_mut().expect("a task has records");
                        last.1 = Some(task);
                    }
                    _ if records.is_empty() => return Ok(()),
                    _ => {}
                }
            }
            let Some((record, ended)) = records.pop_front() else { continue };
            if self.is_resting {
                self.client.wake().await?;
                self.is_resting = false;
                self.push(None, None).await?;
            }
            self.step(record, records.front().map(|(next, _)| *next)).await?;
            if let Some(task) = ended {
                let cut = self.client.position().cut + 1;
                master.finish(task.lease(), Some(cut)).await?;
            }
        }
    }

    async fn step(&mut self, record: u64, next: Option<u64>) -> Result<()> {
        let keys = self.keys_of(record);
        let rows = match self.ahead.take().filter(|(ahead, _)| *ahead == record) {
            Some((_, rows)) => rows,
            None => {
                let mut rows = self.room();
                let mut pulls = row_pulls(&mut rows, &keys);
                if !pulls.is_empty() {
                    self.client.pull(&mut pulls).await?;
                }
                rows
            }
        };
        let who = Who::Trainer(self.told.rank);
        sleep(Duration::from_millis(20 + self.told.network.draw(200))).await;
        self.told.network.hush(&[who]).await;
        let mut gradients = rows;
        for (at, described) in self.model.parameters.iter().enumerate() {
            let is_count = !described.name.starts_with("chaos");
            let of = |own: f32, other: f32| match is_count {
                true => -1.0,
                false => 0.25 * own + 0.125 * other + 0.01 * (record as f32 + 1.0),
            };
            gradients[at] = match described.shape.is_sparse() {
                true => vec![of(gradients[at][0], gradients[at][1])],
                false => {
                    let values = &self.dense[at];
                    let mut gradient = vec![0.0; values.len()];
                    let own = record as usize;
                    gradient[own] = of(values[own], values[keys[1] as usize]);
                    gradient
                }
            };
        }
        self.push(Some((record, gradients)), next).await
    }

    /// The rows that a record is computed from.
    fn keys_of(&self, record: u64) -> [u64; 2] {
        [record, (record + 1) % self.told.plan.records()]
    }

    /// Memory for the rows of a record, by parameter.
    fn room(&self) -> Vec<Vec<f32>> {
        let parameters = self.model.parameters.iter();
        parameters.map(|one| vec![0.0; if one.shape.is_sparse() { 2 } else { 0 }]).collect()
    }

    /// Pushes a step, if there is one, and renews the dense values; brings the rows of the next.
    async fn push(&mut self, step: Option<(u64, Vec<Vec<f32>>)>, next: Option<u64>) -> Result<()> {
        let (mut rows, next_keys) = (self.room(), self.keys_of(next.unwrap_or(0)));
        let mut pulls = Vec::new();
        let described = self.model.parameters.iter();
        for ((at, out), described) in self.dense.iter_mut().enumerate().zip(described) {
            if let Shape::Dense { elements } = described.shape {
                out.resize(elements as usize, 0.0);
                pulls.push(Pull::Dense { parameter: ModelIndex(at), out });
            }
        }
        if next.is_some() {
            pulls.extend(row_pulls(&mut rows, &next_keys));
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
        self.client.push_pull(&given, 1, &mut pulls).await?;
        self.ahead = next.map(|next| (next, rows));
        Ok(())
    }

    async fn all_values(&mut self) -> Result<Values> {
        let keys: Vec<u64> = (0..self.told.plan.records()).collect();
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
            if self.told.plan.brings_values {
                let brought = if described.shape.is_sparse() { 1 } else { out.len() };
                out.iter_mut().take(brought).for_each(|value| *value -= BROUGHT);
            }
            all.push((described.name.clone(), out));
        }
        Ok(all)
    }
}

fn row_pulls<'a>(rows: &'a mut [Vec<f32>], keys: &'a [u64]) -> Vec<Pull<'a>> {
    let sparse = rows.iter_mut().enumerate().filter(|(_, rows)| !rows.is_empty());
    sparse.map(|(at, out)| Pull::Sparse { parameter: ModelIndex(at), keys, out }).collect()
}

/// Lines are of this many bytes, so that where they are says which they are.
pub(crate) const LINE_BYTES: u64 = 8;

fn records_of(task: &Task) -> impl Iterator<Item = u64> + use<> {
    let pieces = task.pieces.clone();
    pieces.into_iter().flat_map(|piece| {
        let first = piece.offset / LINE_BYTES;
        first..first + piece.bytes / LINE_BYTES
    })
}
