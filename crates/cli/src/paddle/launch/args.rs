//! The flags of `paddle launch`.

use super::{kubernetes, mpi, slurm, ssh};
use cli::duration::parse_seconds;
use cli::number;
use cli::output::Format;
use contract::job::{JobSpec, Restore};
use contract::mode::Mode;
use contract::port::Ports;
use contract::quantity::Quantity;
use contract::{Error, Result};
use std::path::PathBuf;

/// Run a training program with parameter servers, and clean up after it
///
///     paddle launch --pservers 2 --trainers 2 train.py --learning_rate 0.01
///
/// Starts the servers, waits until they serve, starts the trainers with the environment of the
/// contract, and shows what all of them print. When the trainers are done the servers are ended.
/// The first failure ends the job, with the reason and the last lines of the replica that failed;
/// the exit code is the program's own. Nothing is left running, however the job or this command
/// ends; with --detach the job goes on without this command.
///
/// Flags come before the program. Everything behind it is the program's.
///
///     paddle launch --pservers 2 --trainers 2 --config=trainer_config.py --log_period=10
///
/// With --config trainers run `paddle train`, and flags that are not the launcher's are its.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Number of trainers [default: 1; one per machine on ssh hosts and Slurm, one per rank under MPI]
    #[arg(long, value_name = "N", value_parser = number::parse::<u32>, allow_negative_numbers = true)]
    pub(crate) trainers: Option<u32>,
    /// Number of parameter servers [default: 1, or none for a single trainer; elsewhere as trainers]
    #[arg(long, value_name = "N", value_parser = number::parse::<u32>, allow_negative_numbers = true)]
    pub(crate) pservers: Option<u32>,
    /// How gradients meet: sync, async, stale:K or hybrid [default: sync]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// As --mode sync
    #[arg(long, conflicts_with = "mode")]
    pub(crate) sync: bool,
    /// As --mode async
    #[arg(long = "async", conflicts_with_all = ["mode", "sync"])]
    pub(crate) is_async: bool,
    /// How often to go through the data [default: as the program says, else once]
    #[arg(long, alias = "num_passes", value_name = "N", value_parser = number::parse::<u32>)]
    pub(crate) passes: Option<u32>,
    /// Threads inside one trainer, or devices with --use_gpu [default: 1, or the whole --cpus]
    #[arg(
        long = "trainer_count",
        alias = "trainer-count",
        value_name = "N",
        value_parser = number::parse::<u32>
    )]
    pub(crate) trainer_count: Option<u32>,
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
    /// A variable for every replica, without a value as it is here; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The job's name [default: that of the workspace]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the program runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Where logs go, below the workspace
    #[arg(long = "log_dir", alias = "log-dir", value_name = "DIR", default_value = "log")]
    pub(crate) log_dir: String,
    /// Where trainer 0 saves the model, below the workspace
    #[arg(
        long = "output_dir",
        alias = "output-dir",
        alias = "save_dir",
        value_name = "DIR",
        default_value = "output"
    )]
    pub(crate) output_dir: String,
    /// Where to run [default: ssh with --conf or --hosts, else local]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub(crate) backend: Option<Where>,
    /// Let the job go on without this command: print its id, and end
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Print what would run, with its environment, and run nothing
    #[arg(long = "dry-run", alias = "dry_run")]
    pub(crate) dry_run: bool,
    /// Do not show what replicas print
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// With json, standard output has the job's record at the end, and what replicas print goes to
    /// standard error
    #[arg(long, short, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
    /// A flag of the trainer
    #[arg(long = "trainer_flag", hide = true, allow_hyphen_values = true)]
    pub(crate) trainer_flags: Vec<String>,
    /// The program of a trainer, with its arguments; a .py file is run by python [on ssh hosts:
    /// train.py]
    #[arg(
        trailing_var_arg = true,
        required_unless_present_any = ["conf", "hosts", "trainer_flags"],
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<String>,
    #[command(flatten)]
    pub(crate) data: Data,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) ssh: ssh::Args,
    #[command(flatten)]
    pub(crate) mpi: mpi::Args,
    #[command(flatten)]
    pub(crate) slurm: slurm::Args,
    #[command(flatten)]
    pub(crate) kubernetes: kubernetes::Args,
}

/// What `-o` accepts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shown {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Manifests, with --dry-run on Kubernetes.
    Yaml,
}

impl Shown {
    /// As other verbs know it. Manifests are YAML to people too.
    pub(crate) fn format(self) -> Format {
        match self {
            Shown::Text | Shown::Yaml => Format::Text,
            Shown::Json => Format::Json,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The master")]
pub(crate) struct Data {
    /// Start a master too, which deals out the data
    #[arg(long)]
    pub(crate) master: bool,
    /// Files for the master to deal out, as a pattern; repeatable [default: the program names them]
    #[arg(long, value_name = "GLOB", requires = "master")]
    pub(crate) dataset: Vec<String>,
    /// Chunks that make a task [default: enough tasks to keep every trainer busy]
    #[arg(
        long = "chunk_per_task",
        alias = "chunk-per-task",
        value_name = "N",
        requires = "master",
        value_parser = number::parse::<u32>
    )]
    pub(crate) chunk_per_task: Option<u32>,
    /// How long a trainer may be silent before its tasks are given to others [default: 15]
    #[arg(
        long = "task_timeout",
        alias = "task-timeout",
        value_name = "TIME",
        requires = "master",
        value_parser = parse_seconds
    )]
    pub(crate) task_timeout: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The servers")]
pub(crate) struct Servers {
    /// First port of the first server; 0 lets the system choose [default: 0, on other machines 7164]
    #[arg(long, value_name = "PORT", value_parser = number::parse::<u16>)]
    pub(crate) port: Option<u16>,
    /// Ports of each server for dense parameters [default: 1]
    #[arg(
        long = "ports_num",
        alias = "ports-num",
        value_name = "N",
        value_parser = number::parse::<u16>
    )]
    pub(crate) ports_num: Option<u16>,
    /// Ports of each server for sparse parameters [default: 1]
    #[arg(
        long = "ports_num_for_sparse",
        alias = "ports-num-for-sparse",
        value_name = "N",
        value_parser = number::parse::<u16>
    )]
    pub(crate) ports_num_for_sparse: Option<u16>,
    /// Let servers keep checkpoints here, below the workspace [default: they keep none]
    #[arg(long = "checkpoint_dir", alias = "checkpoint-dir", value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<String>,
    /// Time between two checkpoints; 0 for one at the end only [default: 10m]
    #[arg(
        long = "checkpoint_interval",
        alias = "checkpoint-interval",
        value_name = "TIME",
        requires = "checkpoint_dir",
        value_parser = parse_seconds
    )]
    pub(crate) checkpoint_interval: Option<u64>,
    /// Begin with the newest checkpoint in --checkpoint_dir, or with the one of this number
    #[arg(
        long,
        value_name = "NUMBER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "latest",
        requires = "checkpoint_dir"
    )]
    pub(crate) restore: Option<Restore>,
    /// Let servers tell Prometheus their figures on this port, further ones of a machine on the next
    #[arg(
        long = "metrics_port",
        alias = "metrics-port",
        value_name = "PORT",
        value_parser = number::parse::<u16>
    )]
    pub(crate) metrics_port: Option<u16>,
    /// Time that a server may take until it serves, and other machines until they answer [default: 60]
    #[arg(
        long = "ready_timeout",
        alias = "ready-timeout",
        value_name = "TIME",
        value_parser = parse_seconds
    )]
    pub(crate) ready_timeout: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Failures and limits")]
pub(crate) struct Limits {
    /// Start a failed trainer or server again, up to this often per rank; 0 means 16 where the number
    /// of trainers may change, but none on Kubernetes
    #[arg(long, value_name = "N", default_value = "0", value_parser = number::parse::<u32>)]
    pub(crate) restarts: u32,
    /// Go on when trainers die for good, as long as there are this many; needs --master
    #[arg(
        long = "min_trainers",
        alias = "min-trainers",
        value_name = "N",
        value_parser = number::parse::<u32>
    )]
    pub(crate) min_trainers: Option<u32>,
    /// Allow up to this many trainers, see `paddle scale`; needs --master
    #[arg(
        long = "max_trainers",
        alias = "max-trainers",
        value_name = "N",
        value_parser = number::parse::<u32>
    )]
    pub(crate) max_trainers: Option<u32>,
    /// Time that replicas get to end when they are asked to
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = parse_seconds)]
    pub(crate) grace: u64,
    /// End the job after this time, such as 90, 20m or 1h30m [default: no limit]
    #[arg(
        long = "time_limit",
        alias = "time-limit",
        value_name = "TIME",
        value_parser = parse_seconds
    )]
    pub(crate) time_limit: Option<u64>,
    /// Memory that a trainer may use, such as 4Gi [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Quantity>,
    /// Processors that a trainer may use, such as 2 or 500m [default: no limit]
    #[arg(long, value_name = "CORES")]
    pub(crate) cpus: Option<Quantity>,
    /// Memory that a server may use [default: no limit]
    #[arg(long = "pserver_memory", alias = "pserver-memory", value_name = "SIZE")]
    pub(crate) pserver_memory: Option<Quantity>,
    /// Processors that a server may use [default: no limit]
    #[arg(long = "pserver_cpus", alias = "pserver-cpus", value_name = "CORES")]
    pub(crate) pserver_cpus: Option<Quantity>,
    /// Let the job succeed if no trainer used the servers, or a trainer got no data
    #[arg(long = "allow-idle", alias = "allow_idle")]
    pub(crate) allow_idle: bool,
    /// Keep the job's processes among the others even where a PID namespace is permitted
    #[arg(long = "no_pid_namespace", alias = "no-pid-namespace")]
    pub(crate) no_pid_namespace: bool,
}

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Where {
    /// On this machine.
    Local,
    /// On machines that are reached by ssh.
    Ssh,
    /// Where mpirun puts it.
    Mpi,
    /// On nodes that Slurm gives.
    Slurm,
    /// Pods of a Kubernetes cluster with Volcano.
    Kubernetes,
}

impl Args {
    /// Where to run, as the flags say.
    pub(crate) fn place(&self) -> Result<Where> {
        let names_hosts = self.ssh.reach.conf.is_some() || self.ssh.reach.hosts.is_some();
        match (self.backend, names_hosts) {
            (None, true) => Ok(Where::Ssh),
            (None, false) if self.mpi.mpi => Ok(Where::Mpi),
            (None, false) => Ok(Where::Local),
            (Some(Where::Ssh), false) => {
                Err(Error::invalid("--backend ssh needs machines: name them by --conf or --hosts"))
            }
            (Some(Where::Local | Where::Mpi | Where::Slurm | Where::Kubernetes), true) => {
                Err(Error::invalid("--conf and --hosts are for ssh: leave --backend out"))
            }
            (Some(place), _) => Ok(place),
        }
    }

    /// The ports asked for, over those of the place.
    pub(crate) fn ports(&self, default: Ports) -> Ports {
        Ports {
            first: self.servers.port.unwrap_or(default.first),
            dense: self.servers.ports_num.unwrap_or(default.dense),
            sparse: self.servers.ports_num_for_sparse.unwrap_or(default.sparse),
        }
    }

    /// How long servers, and other machines, are waited for.
    pub(crate) fn ready_seconds(&self) -> u64 {
        self.servers.ready_timeout.unwrap_or(JobSpec::default().ready_seconds)
    }

    pub(crate) fn mode(&self) -> Mode {
        match (self.is_async, self.mode) {
            (true, _) => Mode::Async,
            (false, mode) => mode.unwrap_or(Mode::Sync),
        }
    }
}
