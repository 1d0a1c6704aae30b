//! Datacenters and their queues.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A place that runs jobs and keeps files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Datacenter {
    /// Its name, as in `/pfs/<datacenter>/…`.
    pub name: String,
    /// What runs its jobs: `local`, `ssh`, `mpi`, `slurm`.
    pub backend: String,
    /// What people should know of it, such as limits that cannot be enforced there.
    pub notes: Vec<String>,
    /// The queues that jobs can be sent to.
    #[serde(default)]
    pub queues: Vec<Queue>,
}

/// A named place that a job can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name, as `-queue` takes it.
    pub name: String,
    /// The longest time limit of a job in it; absent for none.
    pub time_limit_seconds_max: Option<u64>,
}
