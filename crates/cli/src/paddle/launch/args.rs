//! The flags of `paddle launch`.

use super::{mpi, ssh};
use contract::mode::Mode;
use contract::port::Ports;
use contract::{Error, Result};
use std::path::PathBuf;

/// Run a training program with parameter servers, and clean up after it
///
/// Starts the servers, waits until they serve, starts the trainers with the environment of the
/// contract, and shows what all of them print. When the trainers are done the servers are ended.
/// The first failure ends the job, with the reason and the last lines of the replica that failed;
/// the exit code is the program's own. Nothing is left running, however the job or this command
/// ends.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Number of trainers
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with_all = ["conf", "hosts", "mpi", "ranks"]
    )]
    pub(crate) trainers: u32,
    /// Number of parameter servers [default: 1, or none for a single trainer]
    #[arg(long, value_name = "N", conflicts_with_all = ["conf", "hosts", "mpi", "ranks"])]
    pub(crate) pservers: Option<u32>,
    /// Start a master too, which deals out the data
    #[arg(long, conflicts_with_all = ["conf", "hosts", "mpi", "ranks"])]
    pub(crate) master: bool,
    /// Files for the master to deal out, as a pattern; repeatable [default: the program names them]
    #[arg(long, value_name = "GLOB", requires = "master")]
    pub(crate) dataset: Vec<String>,
    /// How gradients meet: sync, async, stale:K or hybrid [default: sync]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// As --mode sync
    #[arg(long, conflicts_with = "mode")]
    pub(crate) sync: bool,
    /// As --mode async
    #[arg(long = "async", conflicts_with_all = ["mode", "sync"])]
    pub(crate) is_async: bool,
    /// How often to go through the data [default: once, or as the program says]
    #[arg(long, alias = "num_passes", value_name = "N")]
    pub(crate) passes: Option<u32>,
    /// Threads inside one trainer, or devices with --use_gpu
    #[arg(long = "trainer_count", alias = "trainer-count", value_name = "N", default_value_t = 1)]
    pub(crate) trainer_count: u32,
    /// Let trainers compute on devices
    #[arg(
        long = "use_gpu",
        alias = "use-gpu",
        value_name = "TRUTH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub(crate) use_gpu: Option<bool>,
    /// Start a failed trainer or server again, up to this often per rank
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) restarts: u32,
    /// The job's name [default: that of the workspace]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the program runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Where logs go, below the workspace
    #[arg(long = "log_dir", alias = "log-dir", value_name = "DIR", default_value = "log")]
    pub(crate) log_dir: PathBuf,
    /// Where trainer 0 saves the model, below the workspace
    #[arg(
        long = "output_dir",
        alias = "output-dir",
        alias = "save_dir",
        value_name = "DIR",
        default_value = "output"
    )]
    pub(crate) output_dir: PathBuf,
    /// Where servers keep checkpoints, below the workspace [default: they keep none]
    #[arg(long = "checkpoint_dir", alias = "checkpoint-dir", value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Begin with the newest checkpoint in --checkpoint_dir
    #[arg(long, requires = "checkpoint_dir")]
    pub(crate) restore: bool,
    /// A variable for every replica, without a value as it is here; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// First port of the first server; 0 lets the system choose [default: 0, on other machines 7164]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Ports of each server for dense parameters [default: 1]
    #[arg(long = "ports_num", alias = "ports-num", value_name = "N")]
    pub(crate) ports_num: Option<u16>,
    /// Ports of each server for sparse parameters [default: 1]
    #[arg(long = "ports_num_for_sparse", alias = "ports-num-for-sparse", value_name = "N")]
    pub(crate) ports_num_for_sparse: Option<u16>,
    /// Seconds that a server may take until it serves
    #[arg(
        long = "ready_timeout",
        alias = "ready-timeout",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    pub(crate) ready_timeout: u64,
    /// Keep the job's processes among the others even where a PID namespace is permitted
    #[arg(long = "no_pid_namespace", alias = "no-pid-namespace")]
    pub(crate) no_pid_namespace: bool,
    /// Print what would run, with its environment, and run nothing
    #[arg(long = "dry-run", alias = "dry_run")]
    pub(crate) dry_run: bool,
    /// Do not show what replicas print
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// With json, standard output has the job's record at the end, and what replicas print goes to
    /// standard error
    #[arg(long, short, value_enum, default_value_t = cli::output::Format::Text)]
    pub(crate) output: cli::output::Format,
    /// Where to run [default: ssh with --conf or --hosts, else local]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub(crate) backend: Option<Place>,
    /// The program of a trainer, with its arguments [on ssh hosts: python train.py]
    #[arg(last = true, required_unless_present_any = ["conf", "hosts"], value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    #[command(flatten)]
    pub(crate) ssh: ssh::Args,
    #[command(flatten)]
    pub(crate) mpi: mpi::Args,
}

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Place {
    /// On this machine.
    Local,
    /// On machines that are reached by ssh.
    Ssh,
    /// Where mpirun puts it.
    Mpi,
}

impl Args {
    /// Where to run, as the flags say.
    pub(crate) fn place(&self) -> Result<Place> {
        let names_hosts = self.ssh.reach.conf.is_some() || self.ssh.reach.hosts.is_some();
        match (self.backend, names_hosts) {
            (None, true) => Ok(Place::Ssh),
            (None, false) => Ok(Place::Local),
            (Some(Place::Ssh), false) => {
                Err(Error::invalid("--backend ssh needs machines: name them by --conf or --hosts"))
            }
            (Some(Place::Local | Place::Mpi), true) => {
                Err(Error::invalid("--conf and --hosts are for ssh: leave --backend out"))
            }
            (Some(place), _) => Ok(place),
        }
    }

    /// The ports asked for, over those of the place.
    pub(crate) fn ports(&self, default: Ports) -> Ports {
        Ports {
            first: self.port.unwrap_or(default.first),
            dense: self.ports_num.unwrap_or(default.dense),
            sparse: self.ports_num_for_sparse.unwrap_or(default.sparse),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match (self.is_async, self.mode) {
            (true, _) => Mode::Async,
            (false, mode) => mode.unwrap_or(Mode::Sync),
        }
    }
}
