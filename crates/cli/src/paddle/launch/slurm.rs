//! `paddle launch --backend slurm`: flags → what is asked of Slurm, and the job's package.

use super::args::Args as LaunchArgs;
use super::submission::{
    Built, Counts, Refusal, inherited, present, refuse_given, spec, submission, workspace,
};
use super::{ssh, trainer};
use cli::duration::parse_seconds;
use cli::{number, program};
use contract::job::Priority;
use contract::port::Ports;
use contract::quantity::Quantity;
use contract::{Error, Result};
use scheduler::ssh::conf::check_directory;
use scheduler::submission::{Place, SlurmPlace};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On Slurm")]
#[group(skip)] // Its name is also that of the flags around it.
pub(crate) struct Args {
    /// Number of nodes, among which trainers and servers are dealt out [default: one for each]
    #[arg(short = 'N', long, value_name = "N", value_parser = number::parse::<u32>)]
    nodes: Option<u32>,
    /// Partition [default: SBATCH_PARTITION, or Slurm's own]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Account that pays [default: SBATCH_ACCOUNT, or Slurm's own]
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Quality of service [default: SBATCH_QOS, or Slurm's own]
    #[arg(long, value_name = "NAME")]
    qos: Option<String>,
    /// Features that nodes must have [default: SBATCH_CONSTRAINT, or none]
    #[arg(long, value_name = "FEATURES")]
    constraint: Option<String>,
    /// Reservation [default: SBATCH_RESERVATION, or none]
    #[arg(long, value_name = "NAME")]
    reservation: Option<String>,
    /// GPUs of each trainer, on Slurm perhaps of a kind: 2 or a100:2; on Kubernetes nvidia.com/gpu
    /// [default: none; with --use_gpu as many as --trainer_count]
    #[arg(long, value_name = "[KIND:]N")]
    gpus: Option<String>,
    /// low lets others go first; high needs a QOS, see --qos. On Kubernetes a PriorityClass,
    /// paddle-low or paddle-high [default: normal]
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
    /// Give up when Slurm has given no nodes after this time [default: wait]
    #[arg(
        long = "queue_timeout",
        alias = "queue-timeout",
        value_name = "TIME",
        value_parser = parse_seconds
    )]
    queue_timeout: Option<u64>,
    /// Port on which nodes are waited for, open to them [default: the system chooses]
    #[arg(
        long = "slurm_port",
        alias = "slurm-port",
        value_name = "PORT",
        value_parser = number::parse::<u16>
    )]
    slurm_port: Option<u16>,
    /// More arguments for sbatch, with spaces between
    #[arg(
        long = "sbatch_args",
        alias = "sbatch-args",
        value_name = "ARGUMENTS",
        allow_hyphen_values = true
    )]
    sbatch_args: Option<String>,
}

/// Where nodes keep what they need for jobs, unless somebody says otherwise.
const ROOT_DIR: &str = "~/paddle_jobs";

impl Args {
    /// Which jobs go first, also among the pods of a cluster.
    pub(super) fn priority(&self) -> Priority {
        self.priority.unwrap_or_default()
    }

    /// The kind and the number of a trainer's devices, of `N` or `KIND:N`.
    pub(super) fn gpus(&self) -> Result<(String, Quantity)> {
        let Some(text) = &self.gpus else { return Ok((String::new(), Quantity::ZERO)) };
        let (kind, count) = text.rsplit_once(':').unwrap_or(("", text));
        let count: u32 = count.parse().map_err(|_| {
            Error::invalid("not a number of GPUs: use N or KIND:N").with("gpus", text)
        })?;
        Ok((kind.to_owned(), Quantity::whole(count)))
    }
}

/// Refuses what only means something where there is a queue.
pub(super) fn refuse_flags(args: &LaunchArgs) -> Result<()> {
    let own = &args.slurm;
    let given = [("--priority", own.priority.is_some()), ("--gpus", own.gpus.is_some())];
    refuse_given(&given, "this flag is for Slurm and Kubernetes: use --backend slurm too")?;
    refuse_own_flags(args)
}

/// Refuses what only means something on Slurm, elsewhere.
pub(super) fn refuse_own_flags(args: &LaunchArgs) -> Result<()> {
    let own = &args.slurm;
    let given = [
        ("--nodes", own.nodes.is_some()),
        ("--partition", own.partition.is_some()),
        ("--account", own.account.is_some()),
        ("--qos", own.qos.is_some()),
        ("--constraint", own.constraint.is_some()),
        ("--reservation", own.reservation.is_some()),
        ("--queue_timeout", own.queue_timeout.is_some()),
        ("--slurm_port", own.slurm_port.is_some()),
        ("--sbatch_args", own.sbatch_args.is_some()),
    ];
    refuse_given(&given, "this flag is for Slurm: use --backend slurm too")
}

pub(super) fn build(args: &LaunchArgs) -> std::result::Result<Built, Refusal> {
    super::mpi::refuse_flags(args)?;
    ssh::refuse_flags_but_package(args)?;
    super::submission::refuse_visible_processes(args)?;
    let own = &args.slurm;
    if own.nodes == Some(0) {
        let message = "a job on Slurm needs at least one node";
        return Err(Error::invalid(message).with("nodes", 0).into());
    }
    let here = workspace(args)?;
    let (package, source) = match &args.ssh.job_dispatch_package {
        Some(package) => {
            let (package, source) = ssh::dispatched(args, package)?;
            (package, Some(source))
        }
        None => (present(&here)?, None),
    };
    let count = own.nodes.or(args.trainers).unwrap_or(1);
    // Jobs may share a node, and so no port is everybody's.
    let ports = Ports { first: 0, ..Ports::default() };
    let counts = Counts { trainers: count, pservers: count, ports };
    let mut spec = spec(args, source.as_deref().unwrap_or(&here), &counts)?;
    match &source {
        None => trainer::set_here(&mut spec, args, &here)?,
        Some(source) => {
            trainer::set_elsewhere(&mut spec, args)?;
            let place = program::Whereabouts { workspace: source, search_path: None };
            program::check(&spec.program, place)?;
        }
    }
    let (gpu_type, gpus) = own.gpus()?;
    spec.resources.trainer.gpu = gpus;
    spec.priority = own.priority();
    let root_dir = args.ssh.reach.root_dir.clone().unwrap_or_else(|| ROOT_DIR.to_owned());
    check_directory(&root_dir)?;
    let given = |flag: &Option<String>, variable: &str| {
        flag.clone().or_else(|| std::env::var(variable).ok()).unwrap_or_default()
    };
    let sbatch_arguments = own.sbatch_args.iter().flat_map(|text| text.split_whitespace());
    let place = Place::Slurm(SlurmPlace {
        nodes: own.nodes.unwrap_or(0),
        partition: given(&own.partition, "SBATCH_PARTITION"),
        account: given(&own.account, "SBATCH_ACCOUNT"),
        qos: given(&own.qos, "SBATCH_QOS"),
        qos_of: own.qos.iter().map(|qos| (Priority::High, qos.clone())).collect(),
        constraint: given(&own.constraint, "SBATCH_CONSTRAINT"),
        reservation: given(&own.reservation, "SBATCH_RESERVATION"),
        gpu_type,
        sbatch_arguments: sbatch_arguments.map(str::to_owned).collect(),
        queue_seconds_max: own.queue_timeout,
        root_dir,
        nic: args.ssh.nics.clone().unwrap_or_default(),
        port: own.slurm_port.unwrap_or(0),
        paddle: args.ssh.reach.remote_paddle.clone().unwrap_or_default(),
        shard_train_list: args.ssh.shard_train_list,
        environment: inherited(),
        results: here,
    });
    Ok(Built { submission: submission(spec, place, package)?, package: source })
}
