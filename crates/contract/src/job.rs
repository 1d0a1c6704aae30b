//! What a job is: the one description that every front door builds and every backend runs.
//!
//! A spec is what was asked for. It has no state, no id of a cluster and no secret, and it fills
//! in nothing by itself beyond [`JobSpec::default`]: that pservers default to the number of
//! trainers, or the package to a place in the user's home, is decided by the front door.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::name::JobId;
use crate::quantity::Quantity;
use crate::role::Role;
use crate::{Error, Result, word};

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
    /// The absolute path of the program's directory, which every replica can reach.
    pub package: String,
    /// The shell command of a trainer, run in the package. Either this or a topology.
    pub entry: String,
    /// The V1 configuration to train, relative to the package. Either this or an entry.
    pub topology: String,
    /// The number of trainers, at least 1.
    pub trainers: u32,
    /// The number of parameter servers; 0 for training without.
    pub pservers: u32,
    /// Whether a master hands out the data. A job has one or none.
    pub master: bool,
    /// What each replica may use.
    pub resources: RoleResources,
    /// The container image; empty for the backend's own.
    pub image: String,
    /// The registry whose credentials fetch the image.
    pub registry: String,
    /// How often to go through the data, at least 1.
    pub passes: u32,
    /// The queue it is sent to; empty for the default one.
    pub queue: String,
    /// Which of two waiting jobs goes first.
    pub priority: Priority,
    /// It is ended after this time; `None` for no limit.
    pub time_limit_seconds: Option<u64>,
    /// Whether it survives the death of a replica, and between which sizes it may be scaled.
    pub fault_tolerance: Option<FaultTolerance>,
    /// How gradients meet, where the program does not say.
    pub mode: Mode,
    /// More variables for every replica, beside those of [`crate::env::VARIABLES`].
    pub env: BTreeMap<String, String>,
}

/// What one replica of each role may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleResources {
    /// For each trainer.
    pub trainer: Resources,
    /// For each parameter server.
    pub pserver: Resources,
    /// For the master.
    pub master: Resources,
}

/// What one replica may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// In cores.
    pub cpu: Quantity,
    /// In bytes.
    pub memory: Quantity,
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
            entry: String::new(),
            topology: String::new(),
            trainers: 1,
            pservers: 0,
            master: false,
            resources: RoleResources::default(),
            image: String::new(),
            registry: String::new(),
            passes: 1,
            queue: String::new(),
            priority: Priority::Normal,
            time_limit_seconds: None,
            fault_tolerance: None,
            mode: Mode::Sync,
            env: BTreeMap::new(),
        }
    }
}

impl Default for RoleResources {
    fn default() -> Self {
        let master = Resources { memory: mebibytes(300), ..Resources::default() };
        RoleResources { trainer: Resources::default(), pserver: Resources::default(), master }
    }
}

impl Default for Resources {
    fn default() -> Self {
        Resources { cpu: Quantity::whole(1), memory: mebibytes(1024), gpu: Quantity::ZERO }
    }
}

const fn mebibytes(amount: u64) -> Quantity {
    Quantity::from_milli(amount * (1000 << 20))
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
    /// The version that this program writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

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
        check::version(serde_json::from_str::<Versioned>(json).map_err(refuse)?.version)?;
        let spec: JobSpec = serde_json::from_str(json).map_err(refuse)?;
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

    /// How many replicas of `role` it starts with.
    pub fn replicas(&self, role: Role) -> u32 {
        match role {
            Role::Trainer => self.trainers,
            Role::Pserver => self.pservers,
            Role::Master => self.master.into(),
        }
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

    const SMALLEST: &str = r#"{"version": 1, "name": "ctr", "user": "wuyi@example.com",
        "datacenter": "dc1", "package": "/pfs/dc1/home/wuyi@example.com/jobs/ctr",
        "entry": "python train.py"}"#;

    fn error(json: &str) -> Error {
        JobSpec::from_json(json).unwrap_err()
    }

    #[test]
    fn what_is_left_out_is_as_in_the_original() {
        let spec = JobSpec::from_json(SMALLEST).unwrap();
        insta::assert_json_snapshot!(spec, @r#"
        {
          "version": 1,
          "name": "ctr",
          "user": "wuyi@example.com",
          "datacenter": "dc1",
          "package": "/pfs/dc1/home/wuyi@example.com/jobs/ctr",
          "entry": "python train.py",
          "topology": "",
          "trainers": 1,
          "pservers": 0,
          "master": false,
          "resources": {
            "trainer": {
              "cpu": "1",
              "memory": "1Gi",
              "gpu": "0"
            },
            "pserver": {
              "cpu": "1",
              "memory": "1Gi",
              "gpu": "0"
            },
            "master": {
              "cpu": "1",
              "memory": "300Mi",
              "gpu": "0"
            }
          },
          "image": "",
          "registry": "",
          "passes": 1,
          "queue": "",
          "priority": "normal",
          "time_limit_seconds": null,
          "fault_tolerance": null,
          "mode": "sync",
          "env": {}
        }
        "#);
    }

    #[test]
    fn replicas_and_resources_are_counted_per_role() {
        let spec = JobSpec { trainers: 4, pservers: 2, master: true, ..JobSpec::default() };
        let count = |role| spec.replicas(role);
        assert_eq!(Role::ALL.map(count), [1, 2, 4]);
        assert_eq!(spec.resources.of(Role::Master).memory.to_string(), "300Mi");
        assert_eq!(spec.resources.of(Role::Pserver).memory.to_string(), "1Gi");
    }

    #[test]
    fn a_newer_version_is_refused_whatever_else_it_has() {
        let newer = SMALLEST.replace("\"version\": 1", "\"colour\": 7, \"version\": 2");
        assert_eq!(error(&newer).kind(), Kind::Unsupported);
        insta::assert_snapshot!(error(&newer), @"this version of the job spec is not known here: use matching releases (version: 2, known: 1)");
    }

    #[test]
    fn what_is_not_a_spec_is_refused() {
        insta::assert_snapshot!(error(&SMALLEST.replace("entry", "entries")), @"the job spec cannot be read: unknown field `entries`, expected one of `version`, `name`, `user`, `datacenter`, `package`, `entry`, `topology`, `trainers`, `pservers`, `master`, `resources`, `image`, `registry`, `passes`, `queue`, `priority`, `time_limit_seconds`, `fault_tolerance`, `mode`, `env` at line 3 column 17");
        insta::assert_snapshot!(error(&SMALLEST.replace("\"version\": 1,", "")), @"the job spec cannot be read: missing field `version` at line 3 column 35");
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
            entry in "[^\0]{1,40}",
            cpu in 1..u64::MAX,
            (min, trainers, more) in (1..50_u32, 50..100_u32, 0..50_u32),
            steps: u32,
            limit in prop::option::of(1..u64::MAX),
            env in prop::collection::btree_map("MY_[A-Z0-9]{1,8}", "[^\0]{0,20}", 0..4),
        ) {
            let mut spec = JobSpec::from_json(SMALLEST).unwrap();
            spec.resources.trainer.cpu = Quantity::from_milli(cpu);
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
