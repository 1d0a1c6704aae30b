//! The flags of `paddle master`.

use crate::service;
use contract::port::Endpoint;
use std::path::PathBuf;
use std::time::Duration;

/// Deal data out to the trainers of one job, task by task
///
/// Cuts the files of a dataset into tasks and leases them to trainers, pass after pass; trainers may
/// come, go and die. Prints one JSON line on standard output when it serves, and serves until
/// SIGTERM. With PADDLE_JOB_TOKEN set, only peers that prove to have it are served.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Show the pass and the tasks of a running master
    Status(Status),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Port; 0 lets the system choose [default: that of PADDLE_MASTER_ENDPOINT, or 8080]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Files of the dataset: paths, or globs in quotes [default: trainers tell]
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    pub(crate) dataset: Vec<String>,
    /// Chunks that make a task [default: at most 10, and enough tasks that each trainer gets 8]
    #[arg(long = "chunk_per_task", alias = "chunk-per-task", value_name = "N")]
    pub(crate) chunk_per_task: Option<u32>,
    /// Trainers that share the tasks [default: PADDLE_INIT_NUM_GRADIENT_SERVERS, or 1]
    #[arg(
        long,
        aliases = ["num_gradient_servers", "num-gradient-servers"],
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) trainers: Option<u32>,
    /// About how many bytes of a text file make a chunk
    #[arg(long = "chunk_bytes", alias = "chunk-bytes", value_name = "SIZE", default_value = "4Mi")]
    pub(crate) chunk_bytes: contract::quantity::Quantity,
    /// How long a trainer may be silent before its tasks are given to others, such as 60 or 20m
    #[arg(
        long = "task_timeout",
        aliases = ["task-timeout", "task-timeout-dur", "task-timout-dur"],
        value_name = "TIME",
        default_value = "15",
        value_parser = cli::duration::parse
    )]
    pub(crate) task_timeout: Duration,
    /// How often reading a task may fail per pass; after one more it is skipped and reported
    #[arg(
        long = "task_timeout_max",
        alias = "task-timeout-max",
        value_name = "N",
        default_value_t = 3
    )]
    pub(crate) task_timeout_max: u32,
    /// Number of passes; 0 for no end
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) passes: u64,
    /// Deal tasks out in another order in every pass, the same for the same seed
    #[arg(long = "shuffle_seed", alias = "shuffle-seed", value_name = "SEED")]
    pub(crate) shuffle_seed: Option<u64>,
    /// Keep the state in this folder and go on from it [default: in memory only]
    #[arg(long = "state_dir", alias = "state-dir", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) service: service::Args,
    /// Write the log also to paddle_master.INFO in this folder [default: PADDLE_LOG_DIR]
    #[arg(long = "log_dir", alias = "log-dir", value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The master, host or host:port [default: PADDLE_MASTER_ENDPOINT]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) endpoint: Option<Endpoint>,
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: cli::output::Format,
    /// Speak TLS: file with the authorities that the master's certificate may be of (PEM)
    #[arg(long = "tls_ca", alias = "tls-ca", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Speak TLS: file with certificates to show (PEM)
    #[arg(long = "tls_cert", alias = "tls-cert", value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Speak TLS: file with their key (PEM)
    #[arg(long = "tls_key", alias = "tls-key", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}
