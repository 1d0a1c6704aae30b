//! Datacenters and their queues.

use crate::job::Priority;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A place that runs jobs and keeps files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Datacenter {
    /// Its name, as in `/pfs/<datacenter>/…`.
    pub name: String,
    /// What runs its jobs: `local`, `ssh`, `mpi`, `slurm`.
    #[serde(default)]
    pub backend: String,
    /// What people should know of it, such as limits that cannot be enforced there.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The queues that jobs can be sent to.
    #[serde(default)]
    pub queues: Vec<Queue>,
}

/// A named place that a job can be sent to. An older server says less of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name, as `-queue` and `--where` take it.
    pub name: String,
    /// The longest time limit of a job in it; absent for none.
    #[serde(default)]
    pub time_limit_seconds_max: Option<u64>,
    /// The most trainers of a job in it; absent for no limit.
    #[serde(default)]
    pub nodes_max: Option<u32>,
    /// What its nodes compute on.
    #[serde(default)]
    pub kind: NodeKind,
    /// The priorities that jobs may have there; empty for all.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub priorities: Vec<Priority>,
}

/// Seconds as `--time_limit` takes them: `HH:MM:SS`.
pub fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// What nodes compute on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Nobody says.
    #[default]
    Any,
    /// Processors.
    Cpu,
    /// Devices.
    Gpu,
}

impl NodeKind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            NodeKind::Any => "any",
            NodeKind::Cpu => "cpu",
            NodeKind::Gpu => "gpu",
        }
    }
}
