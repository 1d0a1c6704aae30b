//! The flags of `paddle pserver`, in the original's spelling.

use crate::service;
use std::path::PathBuf;

/// Serve a part of a model's parameters to the trainers of one job
///
/// Listens on ports_num ports for dense and ports_num_for_sparse more for sparse parameters,
/// beginning with port. Prints one JSON line on standard output when it serves. Ends with exit code
/// 0 when all trainers have said goodbye; on SIGTERM it writes a checkpoint, if it keeps any, and
/// ends.
///
/// The first four flags are also read from PADDLE_INIT_PORT, PADDLE_INIT_PORTS_NUM,
/// PADDLE_INIT_PORTS_NUM_FOR_SPARSE and PADDLE_INIT_NUM_GRADIENT_SERVERS. With PADDLE_JOB_TOKEN set,
/// only peers that prove to have it are served.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// First port; 0 lets the system choose [default: 7164]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Ports for dense parameters [default: 1]
    #[arg(long = "ports_num", alias = "ports-num", value_name = "N")]
    pub(crate) ports_num: Option<u16>,
    /// Ports for sparse parameters; with 0 the dense ports serve them too [default: 1]
    #[arg(long = "ports_num_for_sparse", alias = "ports-num-for-sparse", value_name = "N")]
    pub(crate) ports_num_for_sparse: Option<u16>,
    /// Number of trainers of the job [default: 1]
    #[arg(long = "num_gradient_servers", alias = "num-gradient-servers", value_name = "N")]
    pub(crate) num_gradient_servers: Option<u32>,
    /// Go on when trainers die, as long as there are this many; the number of trainers is then the
    /// most there may be [default: all are needed]
    #[arg(long = "min_trainers", alias = "min-trainers", value_name = "N")]
    pub(crate) min_trainers: Option<u32>,
    /// Any text; it only makes the process easy to find
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) comment: String,
    /// This server's place among the servers, from 0 [default: the trainers tell]
    #[arg(long, value_name = "N", requires = "servers")]
    pub(crate) index: Option<u32>,
    /// Number of servers [default: the trainers tell]
    #[arg(long, value_name = "N", requires = "index")]
    pub(crate) servers: Option<u32>,
    /// Keep checkpoints in this folder, which all servers share [default: PADDLE_CHECKPOINT_DIR]
    #[arg(long = "checkpoint_dir", alias = "checkpoint-dir", value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Seconds between checkpoints; 0 for the end [default: PADDLE_CHECKPOINT_INTERVAL, or 600]
    #[arg(long = "checkpoint_interval", alias = "checkpoint-interval", value_name = "SECONDS")]
    pub(crate) checkpoint_interval: Option<u64>,
    /// Number of checkpoints kept
    #[arg(
        long = "checkpoint_keep",
        alias = "checkpoint-keep",
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub(crate) checkpoint_keep: u16,
    /// Begin with the newest complete checkpoint of the folder, or with the one of this number
    #[arg(
        long,
        value_name = "CUT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "latest"
    )]
    pub(crate) restore: Option<String>,
    /// Seconds after which a silent trainer has vanished, and the job fails
    #[arg(
        long = "trainer_timeout",
        alias = "trainer-timeout",
        value_name = "SECONDS",
        default_value_t = 60.0
    )]
    pub(crate) trainer_timeout: f64,
    /// Memory that a parameter may take on one port, such as 64Gi [default: all there is]
    #[arg(long = "memory_max", alias = "memory-max", value_name = "SIZE")]
    pub(crate) memory_max: Option<contract::quantity::Quantity>,
    #[command(flatten)]
    pub(crate) service: service::Args,
    /// Write the log also to paddle_pserver2.INFO in this folder [default: PADDLE_LOG_DIR]
    #[arg(long = "log_dir", alias = "log-dir", value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    // Flags that launchers of the original pass and that say nothing to this server.
    #[arg(long = "use_gpu", hide = true, num_args = 0..=1)]
    pub(crate) use_gpu: Option<String>,
    #[arg(long = "rdma_tcp", hide = true)]
    pub(crate) rdma_tcp: Option<String>,
    #[arg(long = "trainer_count", hide = true)]
    pub(crate) trainer_count: Option<String>,
    #[arg(long = "pserver_num_threads", hide = true)]
    pub(crate) pserver_num_threads: Option<String>,
}
