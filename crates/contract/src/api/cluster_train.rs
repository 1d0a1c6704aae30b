//! `paddle cluster_train`: a V1 training with its data, as it is handed to a receiver; the share of
//! the data that each of its nodes fetches; its results.
//!
//! Nodes have no credentials of a store. They fetch from the receiver, and send their results there,
//! with a token that is good for their own job alone.

use super::job::Job;
use crate::checksum::Checksum;
use crate::job::Priority;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A training to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterTrain {
    /// Drawn by the caller: the same number is the same job.
    pub request: String,
    /// The job's name; letters, digits, `-`, `.` and `_`.
    pub job_name: String,
    /// Who submits it: the caller's name, or what is before its `@`; empty for the caller.
    #[serde(default)]
    pub submitter: String,
    /// The digest of the package: the configuration, and below `thirdparty/` what every node gets.
    pub package: String,
    /// The configuration in it.
    pub config: String,
    /// The queue; empty for the default one of the datacenter.
    #[serde(default)]
    pub queue: String,
    /// The datacenter, if the queue does not say it; empty for the one that has the queue.
    #[serde(default)]
    pub datacenter: String,
    /// How many nodes: each has a parameter server and a trainer.
    pub num_nodes: u32,
    /// It is ended after this time.
    #[serde(default)]
    pub time_limit_seconds: Option<u64>,
    /// Which of two waiting jobs goes first.
    #[serde(default)]
    #[schema(value_type = String)]
    pub priority: Priority,
    /// Whether trainers compute on devices; absent for what the queue's nodes have.
    #[serde(default)]
    pub use_gpu: Option<bool>,
    /// Flags of `paddle train`, each `--name=value`.
    #[serde(default)]
    pub flags: Vec<String>,
}

/// A training that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The job.
    pub job: Job,
    /// Where its results go.
    pub output_path: String,
    /// Files and bytes of training data on all nodes together.
    pub train: Amount,
    /// The same of the test data.
    pub test: Amount,
    /// What the caller should know, such as settings that have no effect.
    pub notes: Vec<String>,
}

/// How much data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Their size together.
    pub bytes: u64,
}

/// What a node fetches, and where it puts it, below its workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The files.
    pub files: Vec<SharedFile>,
    /// The lines of `train.list`.
    pub train_list: Vec<String>,
    /// The lines of `test.list`.
    pub test_list: Vec<String>,
    /// Whether files that end in `.gz` are unpacked, and lose that ending.
    pub decompress: bool,
    /// The directory in which trainer 0 saves models, which is uploaded.
    pub save_dir: String,
    /// How many nodes the job has.
    pub nodes: u32,
}

/// A file of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedFile {
    /// Its number in the job.
    pub number: u32,
    /// Where it is put, below the workspace.
    pub target: String,
    /// Its length.
    pub bytes: u64,
}

/// A node of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeQuery {
    /// Its rank.
    pub rank: u32,
}

/// A part of a file. The answer is the bytes, and then their BLAKE3, 32 bytes more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PartQuery {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// The nodes that have not made their workspaces ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Awaited {
    /// Their ranks; when there are none, trainers may start.
    pub ranks: Vec<u32>,
}

/// A file of the results, as a node sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ResultQuery {
    /// The node.
    pub rank: u32,
    /// Where it is below the directory of results: `output/rank-00000/…` or `log/rank-00001/…`.
    pub path: String,
    /// Its BLAKE3.
    #[param(value_type = String)]
    #[schema(value_type = String)]
    pub checksum: Checksum,
}

/// Where the nodes of a job find their receiver, and how they prove to be its nodes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The receiver.
    pub url: String,
    /// Other addresses of it, where it is not known which of them nodes reach.
    #[serde(default)]
    pub others: Vec<String>,
    /// The certificates that its own must come from, as PEM; empty for the public authorities.
    pub ca: String,
    /// The job's uid.
    pub job: String,
    /// The secret.
    pub token: String,
}

/// The word before the token in the header `Authorization`.
pub const SCHEME: &str = "Stage";
/// The name of a [`Stage`] among the secrets of a job.
pub const SECRET: &str = "stage";

/// The most nodes of a training.
pub const NODES_MAX: u32 = 1024;
/// The most files that are staged for one job.
pub const FILES_MAX: usize = 200_000;
/// The longest part of a file in one answer.
pub const PART_BYTES_MAX: u64 = 32 << 20;
