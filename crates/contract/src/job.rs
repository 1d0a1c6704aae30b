//! What a job is: the one description that every front door builds and every backend runs.
//!
//! A spec is what was asked for. It has no state, no id of a cluster and no secret, and it fills
//! in nothing by itself beyond [`JobSpec::default`]: that pservers default to the number of
//! trainers, or the package to a place in the user's home, is decided by the front door. It names
//! no machine either: the same spec runs on a laptop, on ssh hosts or on Kubernetes, and a place
//! that cannot honour one of its fields refuses the job and names the field.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::name::JobId;
use crate::port::Ports;
use crate::quantity::Quantity;
use crate::role::Role;
use crate::{Error, Result, quote, word};

mod check;

/// A job as it was asked for. In texts, empty means not given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSpec {
    /// The version of this description, [`JobSpec::VERSION`].
    pub version: u32,
    /// As typed; unique per datacenter and user.
    pub name: String,
    /// Who runs it.
    pub user: String,
    /// Where it runs.
    pub datacenter: String,
    /// The absolute path of the program's directory among the users' files of a cloud, which alone
    /// reads it; empty if the package travels with the job instead. Backends have it from the
    /// submission, as a directory of their machines.
    pub package: String,
    /// The program of a trainer and its arguments, run in the package without a shell. A job has
    /// a program, an entry or a topology.
    pub program: Vec<String>,
    /// The shell command of a trainer, run in the package.
    pub entry: String,
    /// The V1 configuration that `paddle train` trains, relative to the package.
    pub topology: String,
    /// More flags for `paddle train`; only with a topology.
    pub topology_flags: Vec<String>,
    /// Whether every trainer fetches its share of the data first, runs the hook of its package, and
    /// sends its results: `paddle cluster_node` instead of `paddle train`; only with a topology.
    // Left out where it is not asked for, so that older servers take the description.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// The number of trainers, at least 1.
    pub trainers: u32,
    /// The number of parameter servers; 0 for training without.
    pub pservers: u32,
    /// Whether a master hands out the data. A job has one or none.
    pub master: bool,
    /// What the master hands out, and how.
    pub data: DataSpec,
    /// What each replica may use.
    pub resources: RoleResources,
    /// Threads inside one trainer (`trainer_count`), or devices with `use_gpu`; `None` for as many
    /// as its resources have, or 1.
    pub threads: Option<u32>,
    /// Whether trainers compute on devices; `None` if their resources say it.
    pub use_gpu: Option<bool>,
    /// The container image; empty for the backend's own.
    pub image: String,
    /// The registry whose credentials fetch the image.
    pub registry: String,
    /// How often to go through the data, at least 1; `None` leaves it to the program.
    pub passes: Option<u32>,
    /// The queue it is sent to; empty for the default one.
    pub queue: String,
    /// Which of two waiting jobs goes first.
    pub priority: Priority,
    /// It is ended after this time; `None` for no limit.
    pub time_limit_seconds: Option<u64>,
    /// Whether it survives the death of a replica, and between which sizes it may be scaled.
    pub fault_tolerance: Option<FaultTolerance>,
    /// How often one rank may be started again after a failure; see [`JobSpec::restarts_max`].
    pub restarts: u32,
    /// How gradients meet, where the program does not say.
    pub mode: Mode,
    /// The ports of a parameter server; a first port of 0 lets the system choose.
    pub ports: Ports,
    /// The port on which a server tells Prometheus its figures; further servers of the same
    /// machine use the next ones.
    pub metrics_port: Option<u16>,
    /// What servers keep on disk.
    pub checkpoint: CheckpointSpec,
    /// How long a server may take until it serves.
    pub ready_seconds: u64,
    /// How long a replica may take to end after it was asked to.
    pub grace_seconds: u64,
    /// Where logs go, absolute or below the workspace.
    pub log_dir: String,
    /// Where trainer 0 saves the model, absolute or below the workspace.
    pub output_dir: String,
    /// Whether servers that no trainer used, and a trainer that got no data, are fine.
    pub allow_idle: bool,
    /// More variables for every replica, beside those of [`crate::env::VARIABLES`].
    pub env: BTreeMap<String, String>,
}

/// The data that a master hands out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSpec {
    /// The files, as patterns; none if the program names them.
    pub files: Vec<String>,
    /// After how many passes the master ends; 0 if the program says when it has seen enough.
    pub passes: u32,
    /// Chunks in a task; `None` for enough tasks to keep every trainer busy.
    pub chunks_per_task: Option<u32>,
    /// How long a trainer may be silent before its tasks are given to others.
    pub task_timeout_seconds: Option<u64>,
}

/// What parameter servers keep on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSpec {
    /// The folder, absolute or below the workspace; empty to keep no checkpoints.
    pub dir: String,
    /// Seconds between two checkpoints; `None` for the servers' own default.
    pub interval_seconds: Option<u64>,
    /// The checkpoint to begin with; `None` to begin anew.
    pub restore: Option<Restore>,
}

/// The checkpoint that a job begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Restore {
    /// The newest that is complete.
    Latest,
    /// The one of this number.
    Cut(u64),
}

/// What one replica of each role may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleResources {
    /// For each trainer.
    pub trainer: Resources,
    /// For each parameter server.
    pub pserver: Resources,
    /// For the master.
    pub master: Resources,
}

/// What one replica may use; what is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// In cores.
    pub cpu: Option<Quantity>,
    /// In bytes.
    pub memory: Option<Quantity>,
    /// In devices.
    pub gpu: Quantity,
}

/// The sizes between which a fault-tolerant job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultTolerance {
    /// With fewer trainers than this it waits.
    pub min_trainers: u32,
    /// It is never given more than this.
    pub max_trainers: u32,
}

/// Which of two waiting jobs goes first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// When nothing else waits.
    Low,
    /// In order of arrival.
    #[default]
    Normal,
    /// Before the others.
    High,
}

/// The most replicas of one role. Their addresses, in one environment variable, must stay below
/// the 128 KiB that Linux allows for it.
pub const REPLICAS_MAX: u32 = 4096;
/// The longest description, as JSON.
pub const JSON_BYTES_MAX: usize = 1 << 20;
/// The longest entry command or image name.
pub const TEXT_BYTES_MAX: usize = 32 << 10;
/// The most that the extra variables may take: names and values, and two bytes for each.
pub const ENV_BYTES_MAX: usize = 64 << 10;

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec {
            version: JobSpec::VERSION,
            name: String::new(),
            user: String::new(),
            datacenter: String::new(),
            package: String::new(),
            program: Vec::new(),
            entry: String::new(),
            topology: String::new(),
            topology_flags: Vec::new(),
            staged: false,
            trainers: 1,
            pservers: 0,
            master: false,
            data: DataSpec::default(),
            resources: RoleResources::default(),
            threads: None,
            use_gpu: None,
            image: String::new(),
            registry: String::new(),
            passes: None,
            queue: String::new(),
            priority: Priority::Normal,
            time_limit_seconds: None,
            fault_tolerance: None,
            restarts: 0,
            mode: Mode::Sync,
            ports: Ports::default(),
            metrics_port: None,
            checkpoint: CheckpointSpec::default(),
            ready_seconds: 60,
            grace_seconds: 5,
            log_dir: "log".to_owned(),
            output_dir: "output".to_owned(),
            allow_idle: false,
            env: BTreeMap::new(),
        }
    }
}

impl RoleResources {
    /// What one replica of `role` may use.
    pub fn of(&self, role: Role) -> &Resources {
        match role {
            Role::Trainer => &self.trainer,
            Role::Pserver => &self.pserver,
            Role::Master => &self.master,
        }
    }
}

impl JobSpec {
    /// The version that this program writes, and the newest that it reads. Older ones are read too:
    /// version 1 had fewer fields, and before version 3 `passes` was 1 where it was left out.
    pub const VERSION: u32 = 3;
    /// How often a rank of a job whose trainers may change is started again, where `restarts` is 0:
    /// it was asked to survive, and trainer 0, servers and the conductor may die too.
    const RESTARTS_FAULT_TOLERANT: u32 = 16;

    /// How often a rank is started again. Pods of Kubernetes take `restarts` itself.
    pub fn restarts_max(&self) -> u32 {
        match self.restarts {
            0 if self.fault_tolerance.is_some() => JobSpec::RESTARTS_FAULT_TOLERANT,
            restarts => restarts,
        }
    }

    /// Reads and checks a description. A newer version, an unknown field and a bad value are
    /// refused: to run half of what somebody asked for is worse than to refuse.
    pub fn from_json(json: &str) -> Result<Self> {
        // Read alone first: a newer description may well have fields that we do not know.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        check::length("job spec", json, JSON_BYTES_MAX)?;
        let refuse = |error: serde_json::Error| {
            Error::invalid(format!("the job spec cannot be read: {error}"))
        };
        let Versioned { version } = serde_json::from_str(json).map_err(refuse)?;
        check::version(version)?;
        let mut spec: JobSpec = serde_json::from_str(json).map_err(refuse)?;
        if version < 3 {
            spec.passes = spec.passes.or(Some(1));
        }
        spec.version = JobSpec::VERSION;
        spec.check()?;
        Ok(spec)
    }

    /// Writes what [`JobSpec::from_json`] reads.
    pub fn to_json(&self) -> Result<String> {
        let json = serde_json::to_string(self)
            .map_err(|error| Error::invalid("the job spec cannot be written").because(error))?;
        check::length("job spec", &json, JSON_BYTES_MAX)?;
        Ok(json)
    }

    /// The name of the job on a cluster.
    pub fn id(&self) -> JobId {
        JobId::of(&self.name)
    }

    /// A trainer's command as a shell would read it; empty with a topology.
    pub fn command(&self) -> String {
        match self.program.is_empty() {
            true => self.entry.clone(),
            false => quote::quote(&self.program),
        }
    }

    /// Whether trainers compute on devices.
    pub fn uses_gpu(&self) -> bool {
        self.use_gpu.unwrap_or(self.resources.trainer.gpu > Quantity::ZERO)
    }

    /// Threads, or devices, inside one trainer.
    pub fn trainer_count(&self) -> u32 {
        let Resources { cpu, gpu, .. } = self.resources.trainer;
        let units = match self.uses_gpu() {
            true => Some(gpu),
            false => cpu,
        };
        let whole = units.map(|units| u32::try_from(units.cores_milli() / 1000));
        let of_resources = whole.map_or(1, |count| count.unwrap_or(u32::MAX)).max(1);
        self.threads.unwrap_or(of_resources)
    }

    /// The most trainers that it may have: ranks are below this number.
    pub fn trainers_max(&self) -> u32 {
        self.fault_tolerance.map_or(self.trainers, |tolerance| tolerance.max_trainers)
    }

    /// How many replicas of `role` it starts with.
    pub fn replicas(&self, role: Role) -> u32 {
        match role {
            Role::Trainer => self.trainers,
            Role::Pserver => self.pservers,
            Role::Master => self.master.into(),
        }
    }
}

impl fmt::Display for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restore::Latest => f.write_str("latest"),
            Restore::Cut(number) => number.fmt(f),
        }
    }
}

impl FromStr for Restore {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "latest" {
            return Ok(Restore::Latest);
        }
        text.parse().map(Restore::Cut).map_err(|_| {
            Error::invalid("not a checkpoint: use its number, or `latest`").with("value", text)
        })
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Priority {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        word::parse("priority", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    const SMALLEST: &str = r#"{"version": 3, "name": "ctr", "user": "wuyi@example.com",
        "datacenter": "dc1", "package": "/pfs/dc1/home/wuyi@example.com/jobs/ctr",
        "entry": "python train.py"}"#;

    fn error(json: &str) -> Error {
        JobSpec::from_json(json).unwrap_err()
    }

    #[test]
    fn what_is_left_out_is_not_limited_and_runs_alone() {
        let spec = JobSpec::from_json(SMALLEST).unwrap();
        let expected = JobSpec {
            name: "ctr".into(),
            user: "wuyi@example.com".into(),
            datacenter: "dc1".into(),
            package: "/pfs/dc1/home/wuyi@example.com/jobs/ctr".into(),
            entry: "python train.py".into(),
            ..JobSpec::default()
        };
        assert_eq!(spec, expected);
        assert_eq!((spec.trainers, spec.pservers, spec.trainer_count()), (1, 0, 1));
        assert_eq!(
            spec.resources.trainer,
            Resources { cpu: None, memory: None, gpu: Quantity::ZERO }
        );
    }

    #[test]
    fn a_description_of_version_1_means_what_it_meant() {
        let old = SMALLEST.replace("\"version\": 3,", "\"version\": 1, \"resources\": {\"trainer\": {\"cpu\": \"4\", \"memory\": \"1Gi\", \"gpu\": \"0\"}},");
        let spec = JobSpec::from_json(&old).unwrap();
        assert_eq!((spec.version, spec.trainer_count(), spec.passes), (3, 4, Some(1)));
        assert_eq!(spec.resources.trainer.memory.unwrap().to_string(), "1Gi");
    }

    #[test]
    fn replicas_are_counted_per_role_and_threads_follow_from_resources() {
        let mut spec = JobSpec { trainers: 4, pservers: 2, master: true, ..JobSpec::default() };
        let count = |role| spec.replicas(role);
        assert_eq!(Role::ALL.map(count), [1, 2, 4]);
        spec.resources.trainer.cpu = Some(Quantity::from_milli(2500));
        assert_eq!((spec.trainer_count(), spec.uses_gpu()), (2, false));
        spec.resources.trainer.gpu = Quantity::whole(3);
        assert_eq!((spec.trainer_count(), spec.uses_gpu()), (3, true));
        assert_eq!(JobSpec { threads: Some(7), ..spec }.trainer_count(), 7);
    }

    #[test]
    fn a_job_that_may_lose_trainers_is_started_again_unless_told_how_often() {
        let restarts = |restarts, is_elastic: bool| {
            let tolerance = FaultTolerance { min_trainers: 1, max_trainers: 1 };
            let fault_tolerance = is_elastic.then_some(tolerance);
            JobSpec { restarts, fault_tolerance, ..JobSpec::default() }.restarts_max()
        };
        assert_eq!((restarts(0, false), restarts(3, false)), (0, 3));
        assert_eq!((restarts(0, true), restarts(3, true)), (16, 3));
    }

    #[test]
    fn a_newer_version_is_refused_whatever_else_it_has() {
        let newer = SMALLEST.replace("\"version\": 3", "\"colour\": 7, \"version\": 4");
        assert_eq!(error(&newer).kind(), Kind::Unsupported);
        insta::assert_snapshot!(error(&newer), @"this version of the job spec is not known here: use matching releases (version: 4, known: 3)");
    }

    #[test]
    fn what_is_not_a_spec_is_refused() {
        insta::assert_snapshot!(error(&SMALLEST.replace("entry", "entries")), @"the job spec cannot be read: unknown field `entries`, expected one of `version`, `name`, `user`, `datacenter`, `package`, `program`, `entry`, `topology`, `topology_flags`, `staged`, `trainers`, `pservers`, `master`, `data`, `resources`, `threads`, `use_gpu`, `image`, `registry`, `passes`, `queue`, `priority`, `time_limit_seconds`, `fault_tolerance`, `restarts`, `mode`, `ports`, `metrics_port`, `checkpoint`, `ready_seconds`, `grace_seconds`, `log_dir`, `output_dir`, `allow_idle`, `env` at line 3 column 17");
        insta::assert_snapshot!(error(&SMALLEST.replace("\"version\": 3,", "")), @"the job spec cannot be read: missing field `version` at line 3 column 35");
        insta::assert_snapshot!(error(&SMALLEST.replace("}", ", \"mode\": \"fast\"}")), @"the job spec cannot be read: not a mode: use sync, async, stale:K (K steps) or hybrid (mode: fast) at line 3 column 51");
        insta::assert_snapshot!(error(&SMALLEST.replace("}", ", \"entry\": \"\"}")), @"the job spec cannot be read: duplicate field `entry` at line 3 column 43");
        for json in ["", "null", "[]", "{", "{\"version\": -1}"] {
            assert_eq!(error(json).kind(), Kind::Invalid, "{json}");
        }
        assert_eq!(error(&" ".repeat(JSON_BYTES_MAX + 1)).kind(), Kind::LimitExceeded);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_good_spec_reads_back(
            entry in "[^\0]{0,39}[a-z]",
            cpu in 1..u64::MAX,
            (min, trainers, more) in (1..50_u32, 50..100_u32, 0..50_u32),
            steps: u32,
            limit in prop::option::of(1..u64::MAX),
            env in prop::collection::btree_map("MY_[A-Z0-9]{1,8}", "[^\0]{0,20}", 0..4),
        ) {
            let mut spec = JobSpec::from_json(SMALLEST).unwrap();
            spec.resources.trainer.cpu = Some(Quantity::from_milli(cpu));
            spec.fault_tolerance =
                Some(FaultTolerance { min_trainers: min, max_trainers: trainers + more });
            let spec = JobSpec {
                entry, trainers, master: true, mode: Mode::Stale(steps), priority: Priority::High,
                time_limit_seconds: limit, env, ..spec
            };
            prop_assert_eq!(JobSpec::from_json(&spec.to_json().unwrap()).unwrap(), spec);
        }
    }
}
