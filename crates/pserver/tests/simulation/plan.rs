//! What a seed stands for: a job, and what happens to it.

use crate::random::Random;
use contract::mode::Mode;
use std::time::Duration;
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::Settings;

/// A job and its faults.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: u32,
    pub(crate) dense_ports: u16,
    pub(crate) sparse_ports: u16,
    pub(crate) trainers: u32,
    /// With so many trainers the job goes on; `None` if it needs all.
    pub(crate) min_trainers: Option<u32>,
    /// The last rank of an elastic job is vacant at first.
    pub(crate) begins_smaller: bool,
    pub(crate) mode: Mode,
    pub(crate) shapes: Shapes,
    pub(crate) data: Data,
    pub(crate) passes: u64,
    /// Batches of each trainer in a pass; as many records of one sample.
    pub(crate) batches: u64,
    /// Trainer 0 brings values that the servers could not make.
    pub(crate) brings_values: bool,
    pub(crate) keeps_checkpoints: bool,
    pub(crate) cut_interval: Duration,
    pub(crate) cuts_kept: u32,
    pub(crate) faults: Vec<(Duration, Fault)>,
}

/// Which parameters the model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shapes {
    Dense,
    Sparse,
    Mixed,
}

/// Where records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// Each trainer has its own, the same in every pass.
    Static,
    /// The master deals tasks of so many records out.
    Master { records_per_task: u64 },
}

/// A process of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Master,
    Server(u32),
    Trainer(u32),
}

#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// `kill -9` of these, at once.
    Kill(Vec<Who>),
    /// A trainer is killed and started again only after so long.
    Away(u32, Duration),
    /// A trainer of an elastic job is killed for good, if there are enough without it.
    Leave(u32),
    /// A trainer comes for a rank that is vacant.
    Join(u32),
    /// A server is killed and started again alone, against the rules; a person notices later.
    Meddle(u32),
    /// All connections of a process break.
    Disconnect(Who),
    /// No byte reaches or leaves a process for so long; it stands still or is cut off.
    Silence(Who, Duration),
    /// No byte travels between a trainer and a server for so long; both reach all others.
    Part(Who, Who, Duration),
    /// Writes fail for so long.
    FullDisk(Duration),
    /// Writes take so long.
    SlowDisk(Duration),
}

impl Fault {
    /// Whether nothing but checkpoints can be lost by it.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self, Fault::FullDisk(_) | Fault::SlowDisk(_))
    }
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let trainers = 1 + random.below(3) as u32;
        let servers = 1 + random.below(3) as u32;
        let mode = random.choose(&[
            Mode::Sync,
            Mode::Sync,
            Mode::Sync,
            Mode::Async,
            Mode::Hybrid,
            Mode::Stale(2),
        ]);
        let data = match random.below(2) {
            0 => Data::Static,
            _ => Data::Master { records_per_task: 1 + random.below(3) },
        };
        let is_elastic = data != Data::Static && random.once_in(2);
        let mut plan = Plan {
            seed,
            servers,
            dense_ports: 1 + random.below(2) as u16,
            sparse_ports: random.below(2) as u16,
            trainers,
            min_trainers: is_elastic.then(|| 1 + random.below(trainers.into()) as u32),
            begins_smaller: is_elastic && random.once_in(2),
            mode,
            shapes: random.choose(&[Shapes::Dense, Shapes::Sparse, Shapes::Mixed]),
            data,
            passes: 1 + random.below(3),
            batches: 2 + random.below(6),
            brings_values: random.once_in(4),
            keeps_checkpoints: !random.once_in(6),
            cut_interval: Duration::from_millis(random.choose(&[300, 1000, 3000, 600_000])),
            cuts_kept: 1 + random.below(3) as u32,
            faults: Vec::new(),
        };
        for _ in 0..random.below(5) {
            let fault = plan.draw_fault(&mut random);
            let moment = Duration::from_millis(random.below(12_000));
            plan.faults.push((moment, fault));
        }
        plan.faults.sort_by_key(|(moment, _)| *moment);
        plan
    }

    fn draw_fault(&self, random: &mut Random) -> Fault {
        let server = Who::Server(random.below(self.servers.into()) as u32);
        let trainer = Who::Trainer(random.below(self.trainers.into()) as u32);
        let any = match (random.below(3), self.data) {
            (0, Data::Master { .. }) => Who::Master,
            (1, _) => server,
            _ => trainer,
        };
        let time = Duration::from_millis(random.choose(&[500, 5000, 40_000, 100_000]));
        if let (Who::Trainer(rank), Some(_)) = (trainer, self.min_trainers)
            && random.once_in(2)
        {
            return match random.below(4) {
                0 => Fault::Leave(rank),
                1 => Fault::Join(self.trainers - 1),
                _ => Fault::Away(rank, time),
            };
        }
        match random.below(9) {
            0 | 1 => Fault::Kill(vec![server]),
            2 | 3 => Fault::Kill(vec![trainer]),
            4 => Fault::Kill(vec![server, trainer]),
            5 => Fault::Disconnect(any),
            6 if random.once_in(2) => Fault::Part(trainer, server, time),
            6 => Fault::Silence(any, time),
            7 if random.once_in(2) => Fault::FullDisk(time),
            7 => Fault::SlowDisk(time.min(Duration::from_secs(5))),
            _ if random.once_in(2) => Fault::Meddle(random.below(self.servers.into()) as u32),
            _ => Fault::Kill(vec![any]),
        }
    }

    /// The same job without faults.
    pub(crate) fn undisturbed(&self) -> Plan {
        Plan { faults: Vec::new(), ..self.clone() }
    }

    /// Records of a pass.
    pub(crate) fn records(&self) -> u64 {
        u64::from(self.trainers) * self.batches
    }

    pub(crate) fn model(&self) -> Model {
        let parameter = |name: &str, shape: Shape| Parameter {
            name: name.to_owned(),
            shape,
            mode: match (self.mode, shape.is_sparse()) {
                (Mode::Hybrid, true) => Mode::Async,
                (Mode::Hybrid, false) => Mode::Sync,
                (mode, _) => mode,
            },
            initializer: Initializer::Constant { value: 0.0 },
            settings: Settings::default(),
        };
        let dense = |name| parameter(name, Shape::Dense { elements: self.records() });
        let sparse = |name| parameter(name, Shape::Sparse { width: 1, rows: Some(1 << 20) });
        // Counters, and values that every step depends on; names that lie on different shards.
        let mut parameters = Vec::new();
        if self.shapes != Shapes::Sparse {
            parameters.extend(["count", "again", "chaos", "b"].map(dense));
        }
        if self.shapes != Shapes::Dense {
            parameters.extend(["count.rows", "again.rows", "chaos.rows"].map(sparse));
        }
        let optimizer = r#"{"learning_rate": 1.0, "rule": {"name": "momentum"}}"#;
        let optimizer = serde_json::from_str(optimizer).expect("a valid optimizer");
        Model { seed: 1, optimizer, parameters }
    }
}
