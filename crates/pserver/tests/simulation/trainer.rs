//! A trainer: the loop of `SGD.train` around the real clients, with a model that counts.
//!
//! For every record some parameters count how often it was applied, and others depend on the order
//! of all that was applied before. As in `SGD.train`, the next record is known while one is computed:
//! its rows come in the round trip that takes the gradients of this one, and the next task is asked
//! for before the one under way is finished. Where the mode allows it, the rows' part of that round
//! trip goes on while the next record is computed, and brings the rows of the one after it; a task
//! is finished when the gradients of its last record are confirmed.

use crate::network::{Network, Way};
use crate::plan::{Data, Plan, Who};
use crate::witness::Witness;
use contract::Result;
use contract::port::{Endpoint, Ports};
use master::client::Next;
use master::task::Task;
use pserver::client::{Client, ClientConfig, Part, Pull, PullStyle, Retry, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use table::gradient::Gradient;
use table::model::{Model, ModelIndex, Shape};
use tokio::task::JoinHandle;
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
    pub(crate) witness: Arc<Mutex<Witness>>,
}

impl Told {
    fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().expect("nobody panics with it")
    }
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
    client: Arc<Client>,
    model: Arc<Model>,
    dense: Vec<Vec<f32>>,
    /// Records that come next, and their rows by parameter.
    ahead: Vec<(u64, Vec<Vec<f32>>)>,
    /// The rows' part of a step, which goes on beside the next one.
    under_way: Option<JoinHandle<Result<Exchange>>>,
    is_resting: bool,
}

/// A round trip, with all that it reads and writes.
struct Exchange {
    model: Arc<Model>,
    part: Part,
    /// A record and its gradients by parameter.
    step: Option<Arc<(u64, Vec<Vec<f32>>)>>,
    dense: Vec<Vec<f32>>,
    /// Records, their keys and rows by parameter.
    ahead: Vec<(u64, [u64; 2], Vec<Vec<f32>>)>,
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
    let mut trainer = Trainer {
        told: told.clone(),
        client: Arc::new(client),
        model: Arc::new(model),
        dense,
        ahead: Vec::new(),
        under_way: None,
        is_resting,
    };
    trainer.exchange(None, &[]).await?;
    let master = trainer.join_master().await?;
    for pass in start.pass..plan.passes {
        let skipped = if pass == start.pass { start.batches } else { 0 };
        match &master {
            None => {
                let record = |batch| u64::from(rank) * plan.batches + batch;
                for batch in skipped..plan.batches {
                    let known: Vec<u64> = (batch + 1..plan.batches).map(record).take(2).collect();
                    trainer.step(record(batch), &known).await?;
                }
            }
            Some(master) => trainer.train_tasks(master, pass).await?,
        }
        trainer.settle().await?;
        trainer.client.finish_pass().await?;
        trainer.is_resting = false;
        trainer.exchange(None, &[]).await?;
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
        self.told.witness().go_back(restored.epoch, restored.cut);
        client.reopen(restored.cut, restored.epoch.into()).await?;
        Ok(Some(client))
    }

    async fn train_tasks(&mut self, master: &master::client::Client, pass: u64) -> Result<()> {
        master.begin_pass(pass);
        // Records, each with the task that it is the last of.
        let mut records: VecDeque<(u64, Option<Task>)> = VecDeque::new();
        let mut unconfirmed = None;
        loop {
            if records.is_empty() {
                self.settle().await?;
                self.finish(master, unconfirmed.take()).await?;
            }
            if records.len() < 3 {
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
                        self.told.witness().begin(records_of(&task));
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
                self.ahead.clear();
                self.exchange(None, &[]).await?;
            }
            let known: Vec<u64> = records.iter().map(|(next, _)| *next).take(2).collect();
            self.step(record, &known).await?;
            // The step before it is confirmed.
            self.finish(master, unconfirmed.take()).await?;
            match self.under_way {
                Some(_) => unconfirmed = ended,
                None => self.finish(master, ended).await?,
            }
        }
    }

    async fn finish(&self, master: &master::client::Client, task: Option<Task>) -> Result<()> {
        let Some(task) = task else { return Ok(()) };
        let cut = self.client.position().cut + 1;
        self.told.witness().claim(cut);
        if master.finish(task.lease(), Some(cut)).await? {
            self.told.witness().finish(records_of(&task));
        }
        Ok(())
    }

    async fn step(&mut self, record: u64, known: &[u64]) -> Result<()> {
        let keys = self.keys_of(record);
        if !self.ahead.iter().any(|(ahead, _)| *ahead == record) {
            self.settle().await?;
        }
        let rows = match self.ahead.iter().position(|(ahead, _)| *ahead == record) {
            Some(place) => self.ahead.remove(place).1,
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
        self.exchange(Some((record, gradients)), known).await
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

    /// Pushes a step, if there is one, and renews the dense values; brings the rows of later ones.
    async fn exchange(&mut self, step: Option<(u64, Vec<Vec<f32>>)>, known: &[u64]) -> Result<()> {
        self.settle().await?;
        let is_known = |record: u64| self.ahead.iter().any(|(ahead, _)| *ahead == record);
        let overlaps = step.is_some() && self.client.can_overlap();
        let wanted = known.iter().take(if overlaps { 2 } else { 1 });
        let lacking = wanted.filter(|record| !is_known(**record));
        let whole = Exchange {
            model: Arc::clone(&self.model),
            part: Part::Whole,
            step: step.map(Arc::new),
            dense: std::mem::take(&mut self.dense),
            ahead: lacking.map(|next| (*next, self.keys_of(*next), self.room())).collect(),
        };
        if !overlaps {
            self.land(whole.run(Arc::clone(&self.client)).await?);
            return Ok(());
        }
        let is_next_begun = known.first().is_some_and(|next| is_known(*next));
        let rows = Exchange {
            model: Arc::clone(&self.model),
            part: Part::Rows { is_next_begun },
            step: whole.step.clone(),
            dense: Vec::new(),
            ahead: whole.ahead,
        };
        let dense = Exchange { part: Part::Dense, ahead: Vec::new(), ..whole };
        self.under_way = Some(tokio::task::spawn_local(rows.run(Arc::clone(&self.client))));
        self.land(dense.run(Arc::clone(&self.client)).await?);
        Ok(())
    }

    /// Waits for the round trip that is under way.
    async fn settle(&mut self) -> Result<()> {
        if let Some(under_way) = self.under_way.take() {
            self.land(under_way.await.expect("an exchange does not panic")?);
        }
        Ok(())
    }

    fn land(&mut self, done: Exchange) {
        if !matches!(done.part, Part::Rows { .. }) {
            self.dense = done.dense;
        }
        self.ahead.extend(done.ahead.into_iter().map(|(record, _, rows)| (record, rows)));
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

impl Exchange {
    async fn run(mut self, client: Arc<Client>) -> Result<Exchange> {
        let mut pulls = Vec::new();
        let described = self.model.parameters.iter();
        for ((at, out), described) in self.dense.iter_mut().enumerate().zip(described) {
            if let Shape::Dense { elements } = described.shape {
                out.resize(elements as usize, 0.0);
                pulls.push(Pull::Dense { parameter: ModelIndex(at), out });
            }
        }
        for (_, keys, rows) in &mut self.ahead {
            pulls.extend(row_pulls(rows, keys));
        }
        let Some(step) = &self.step else {
            client.pull(&mut pulls).await?;
            return Ok(self);
        };
        let (record, gradients) = &**step;
        let keys = [*record];
        let given = gradients.iter().zip(&self.model.parameters).enumerate();
        let is_of_part = |is_sparse: bool| match self.part {
            Part::Whole => true,
            Part::Dense => !is_sparse,
            Part::Rows { .. } => is_sparse,
        };
        let given: Vec<Gradient<'_>> = given
            .filter(|(_, (_, described))| is_of_part(described.shape.is_sparse()))
            .map(|(at, (values, described))| {
                let rows = described.shape.is_sparse().then_some(&keys[..]);
                Gradient::new(ModelIndex(at), rows, values)
            })
            .collect();
        client.push_pull_part(self.part, &given, 1, &mut pulls).await?;
        Ok(self)
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
