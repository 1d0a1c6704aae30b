//! Flags → a submission: the job as data. What is special about a place is in `ssh.rs`,
//! `mpi.rs`, `slurm.rs` and `kubernetes.rs`.

use super::args::{Args, Where};
use super::{COMMAND, kubernetes, mpi, slurm, ssh, trainer};
use crate::jobs::find::ORIGIN;
use cli::program::Missing;
use contract::env::{SetBy, variable};
use contract::job::{CheckpointSpec, DataSpec, FaultTolerance, JobSpec, Resources, RoleResources};
use contract::port::Ports;
use contract::secret::Secret;
use contract::{Error, Kind, Result, name};
use scheduler::Submission;
use scheduler::submission::{LocalPlace, Package, Place};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A job that can be submitted.
pub(super) struct Built {
    pub(super) submission: Submission,
    /// The directory of a package that is dispatched.
    pub(super) package: Option<PathBuf>,
}

/// Why a command line is no job.
pub(super) enum Refusal {
    /// It makes no sense.
    Error(Error),
    /// Its program is not there.
    Missing(Missing),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Error(error)
    }
}

impl From<Missing> for Refusal {
    fn from(missing: Missing) -> Self {
        Refusal::Missing(missing)
    }
}

/// What the flags ask for.
pub(super) fn build(args: &Args) -> std::result::Result<Built, Refusal> {
    let place = args.place()?;
    if place != Where::Kubernetes {
        kubernetes::refuse_flags(args)?;
    }
    match place {
        Where::Local => local(args),
        Where::Ssh => ssh::build(args),
        Where::Mpi => mpi::build(args),
        Where::Slurm => slurm::build(args),
        Where::Kubernetes => kubernetes::build(args),
    }
}

fn local(args: &Args) -> std::result::Result<Built, Refusal> {
    mpi::refuse_flags(args)?;
    ssh::refuse_flags(args)?;
    ssh::refuse_nics(args)?;
    ssh::refuse_remote_paddle(args)?;
    slurm::refuse_flags(args)?;
    let workspace = workspace(args)?;
    let trainers = args.trainers.unwrap_or(1);
    let mut spec = spec(
        args,
        &workspace,
        &Counts {
            trainers,
            pservers: u32::from(trainers > 1),
            ports: Ports { first: 0, ..Ports::default() },
        },
    )?;
    trainer::set_here(&mut spec, args, &workspace)?;
    let place = Place::Local(LocalPlace {
        isolates: !args.limits.no_pid_namespace,
        environment: inherited(),
        sandbox: None,
    });
    Ok(Built { submission: submission(spec, place, present(&workspace)?)?, package: None })
}

/// Refuses to keep processes among the others of a machine, where supervisors of other machines
/// decide that, or pods.
pub(super) fn refuse_visible_processes(args: &Args) -> Result<()> {
    let message = "this flag is for jobs of this machine: leave it out on others";
    refuse_given(&[("--no_pid_namespace", args.limits.no_pid_namespace)], message)
}

/// Refuses the first flag that was given and means nothing where the job runs.
pub(super) fn refuse_given(flags: &[(&'static str, bool)], message: &str) -> Result<()> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(Error::invalid(message).with("flag", flag)),
    }
}

/// The `PATH` of trainers: that of `--env`, or our own.
pub(super) fn search_path(args: &Args) -> OsString {
    let given = args.env.iter().rev().find_map(|entry| entry.strip_prefix("PATH="));
    given.map_or_else(|| std::env::var_os("PATH").unwrap_or_default(), OsString::from)
}

/// The workspace as a package that is there already.
pub(super) fn present(workspace: &Path) -> Result<Package> {
    path_text(workspace).map(Package::Present)
}

/// The directory that the program runs in.
pub(super) fn workspace(args: &Args) -> Result<PathBuf> {
    let workspace = args.workspace.canonicalize().map_err(|source| {
        Error::io("no such workspace", source).with("workspace", args.workspace.display())
    })?;
    if workspace.is_dir() {
        return Ok(workspace);
    }
    let message = "the workspace is no directory: name the one that the program is in";
    Err(Error::invalid(message).with("workspace", args.workspace.display()))
}

/// A submission of this user, under an id of its own.
pub(super) fn submission(spec: JobSpec, place: Place, package: Package) -> Result<Submission> {
    Ok(Submission {
        id: fresh_id(&spec)?,
        origin: ORIGIN.to_owned(),
        spec,
        token: fresh_token()?,
        secrets: BTreeMap::new(),
        run_as: None,
        mounts: Vec::new(),
        place,
        package,
    })
}

/// What a place has where the flags do not say.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) trainers: u32,
    pub(super) pservers: u32,
    pub(super) ports: Ports,
}

/// What does not depend on the place. The program is missing, and is filled in by the place.
pub(super) fn spec(args: &Args, workspace: &Path, counts: &Counts) -> Result<JobSpec> {
    let limits = &args.limits;
    let trainer = Resources { cpu: limits.cpus, memory: limits.memory, ..Resources::default() };
    let pserver = Resources {
        cpu: limits.pserver_cpus,
        memory: limits.pserver_memory,
        ..Resources::default()
    };
    let trainers = args.trainers.unwrap_or(counts.trainers);
    let pservers = args.pservers.unwrap_or(counts.pservers);
    if pservers == 0 {
        refuse_server_flags(args)?;
    }
    Ok(JobSpec {
        name: args.name.clone().unwrap_or_else(|| default_name(workspace)),
        user: user(),
        datacenter: "local".to_owned(),
        trainers,
        fault_tolerance: fault_tolerance(args, trainers),
        pservers,
        master: args.data.master,
        data: data(args),
        passes: args.passes,
        mode: args.mode(),
        resources: RoleResources { trainer, pserver, ..RoleResources::default() },
        threads: args.trainer_count,
        use_gpu: args.use_gpu,
        time_limit_seconds: limits.time_limit,
        restarts: limits.restarts,
        ports: args.ports(counts.ports),
        metrics_port: args.servers.metrics_port,
        checkpoint: CheckpointSpec {
            dir: args.servers.checkpoint_dir.clone().unwrap_or_default(),
            interval_seconds: args.servers.checkpoint_interval,
            restore: args.servers.restore,
        },
        ready_seconds: args.ready_seconds(),
        grace_seconds: limits.grace,
        log_dir: args.log_dir.clone(),
        output_dir: args.output_dir.clone(),
        allow_idle: limits.allow_idle,
        env: args.env.iter().map(|entry| env_variable(entry)).collect::<Result<_>>()?,
        ..JobSpec::default()
    })
}

/// Refuses what only parameter servers would do, in a job without any.
fn refuse_server_flags(args: &Args) -> Result<()> {
    let servers = &args.servers;
    // A master and machines that have to come are waited for too.
    let waits = args.data.master || !matches!(args.place()?, Where::Local | Where::Kubernetes);
    let given = [
        ("--port", servers.port.is_some()),
        ("--ports_num", servers.ports_num.is_some()),
        ("--ports_num_for_sparse", servers.ports_num_for_sparse.is_some()),
        ("--ready_timeout", servers.ready_timeout.is_some() && !waits),
        ("--checkpoint_dir", servers.checkpoint_dir.is_some()),
        ("--metrics_port", servers.metrics_port.is_some()),
        ("--pserver_memory", args.limits.pserver_memory.is_some()),
        ("--pserver_cpus", args.limits.pserver_cpus.is_some()),
    ];
    let message = "this flag is for parameter servers, and the job has none: use --pservers 1";
    refuse_given(&given, message)
}

/// A job that names one of its limits is elastic; by default it may shrink to one trainer, and not
/// grow.
fn fault_tolerance(args: &Args, trainers: u32) -> Option<FaultTolerance> {
    let (least, most) = (args.limits.min_trainers, args.limits.max_trainers);
    (least.is_some() || most.is_some()).then(|| FaultTolerance {
        min_trainers: least.unwrap_or(1),
        max_trainers: most.unwrap_or(trainers),
    })
}

fn data(args: &Args) -> DataSpec {
    if !args.data.master {
        return DataSpec::default();
    }
    DataSpec {
        files: args.data.dataset.clone(),
        passes: args.passes.unwrap_or(0),
        chunks_per_task: args.data.chunk_per_task,
        task_timeout_seconds: args.data.task_timeout,
    }
}

pub(super) fn path_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("the workspace's path is not UTF-8: rename it")
            .with("workspace", path.display())
    })
}

/// `NAME=VALUE`, or `NAME` alone for the value that this process has.
fn env_variable(entry: &str) -> Result<(String, String)> {
    if let Some((name, value)) = entry.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = std::env::var(entry).map_err(|_| {
        let message = "this variable has no value here: set it, or use --env NAME=VALUE";
        Error::invalid(message).with("env", entry)
    })?;
    Ok((entry.to_owned(), value))
}

/// The variables of this process that programs inherit: all but those by which a launcher tells
/// each replica who it is. One that is no text cannot be kept with the job, which is said.
pub(super) fn inherited() -> BTreeMap<String, String> {
    let is_told = |name: &str| {
        variable(name)
            .is_some_and(|known| matches!(known.set_by, SetBy::Backend | SetBy::BackendSecret))
    };
    let mut inherited = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) if !is_told(name) => {
                inherited.insert(name.to_owned(), value.to_owned());
            }
            (Some(_), Some(_)) => {}
            _ => {
                let name = name.display();
                let words = format!("{COMMAND}: programs do not inherit {name}: it is not UTF-8\n");
                // Where not even this can be written, there is nobody to tell.
                let _ = std::io::stderr().write_all(words.as_bytes());
            }
        }
    }
    inherited
}

/// The name of the workspace, where that can be a job's.
fn default_name(workspace: &Path) -> String {
    let folder = workspace.file_name().and_then(|folder| folder.to_str()).unwrap_or_default();
    if name::check_job(folder).is_ok() { folder.to_owned() } else { "job".to_owned() }
}

fn user() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| name::check_user(name).is_ok()).unwrap_or_else(|| "nobody".to_owned())
}

/// 256 random bits.
fn fresh_token() -> Result<Secret> {
    Ok(Secret::new(random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// The job's name and a few random characters, short enough to be typed.
fn fresh_id(spec: &JobSpec) -> Result<String> {
    const LETTERS: &[u8] = b"0123456789abcdefghijkmnpqrstuvwx";
    let random = random::<6>()?;
    let suffix = random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    Ok(format!("{}-{}", spec.name, suffix.collect::<String>()))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(bytes)
}
