//! What a datacenter asks of Slurm for its jobs.

use contract::job::Priority;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `slurm:` of a datacenter. In texts, what is left out is left to Slurm.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlurmConfig {
    /// Nodes of a job; 0 for one for each trainer and server.
    pub nodes: u32,
    /// The partition.
    pub partition: String,
    /// The account that pays.
    pub account: String,
    /// The quality of service.
    pub qos: String,
    /// The quality of service of jobs with a priority. Without one here, `low` makes way in Slurm's
    /// queue too, by `--nice`, and `high` counts only among those that wait in the cloud.
    pub priorities: BTreeMap<Priority, String>,
    /// Which nodes: features, as `sbatch --constraint` takes them.
    pub constraint: String,
    /// The reservation.
    pub reservation: String,
    /// The kind of GPU of jobs that use some.
    pub gpu_type: String,
    /// More arguments for `sbatch`.
    pub arguments: Vec<String>,
    /// Where nodes keep what they need for a job; `~/` is the home there.
    pub root_dir: String,
    /// Whether nodes see the server's files at the same paths, so that packages need not be sent.
    pub shares_files: bool,
    /// The command `paddle` on the nodes; empty for the path of the server's own.
    pub paddle: String,
    /// The interface that servers listen on; empty for all.
    pub nic: String,
    /// Slurm's configuration, instead of the one that its commands find by themselves.
    pub conf: Option<PathBuf>,
    /// Seconds after which a job that got no nodes fails; absent to wait.
    pub queue_seconds_max: Option<u64>,
}

impl Default for SlurmConfig {
    fn default() -> Self {
        SlurmConfig {
            nodes: 0,
            partition: String::new(),
            account: String::new(),
            qos: String::new(),
            priorities: BTreeMap::new(),
            constraint: String::new(),
            reservation: String::new(),
            gpu_type: String::new(),
            arguments: Vec::new(),
            root_dir: "~/paddle_jobs".to_owned(),
            shares_files: false,
            paddle: String::new(),
            nic: String::new(),
            conf: None,
            queue_seconds_max: None,
        }
    }
}
