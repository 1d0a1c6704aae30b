//! `paddle launch --mpi`, one rank of an `mpirun`, and `paddle launch --backend mpi`, which runs
//! `mpirun` itself.

use super::args::Args as LaunchArgs;
use super::local::{fresh_token, spec};
use super::view::View;
use super::{dry_run, flags, signals};
use clap::CommandFactory;
use contract::env::Environment;
use contract::job::JobSpec;
use contract::port::Ports;
use contract::role::Role;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use scheduler::conductor::decide::Decision;
use scheduler::conductor::plan::{HostPlan, JobPlan, Policy, ReplicaPlan};
use scheduler::conductor::{self, Stop, Watch};
use scheduler::mpi::plan::{self, Member, Mpirun};
use scheduler::mpi::rank::{self, Rank};
use scheduler::mpi::{self, Meeting};
use scheduler::{JobRecord, ReplicaId, ssh};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Under MPI")]
pub(crate) struct Args {
    /// Be one rank of an mpirun: start a server and a trainer here, with those of the other ranks
    #[arg(long, conflicts_with_all = ["backend", "conf", "hosts"])]
    pub(crate) mpi: bool,
    /// With --backend mpi: number of ranks, each a server and a trainer
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Machines, one per line [default: ./machines, if it exists]
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Port on which rank 0 waits for the others
    #[arg(long = "mpi_port", alias = "mpi-port", value_name = "PORT", default_value_t = mpi::DEFAULT_PORT)]
    mpi_port: u16,
    /// With --backend mpi: more arguments for mpirun, with spaces between
    #[arg(
        long = "mpirun_args",
        alias = "mpirun-args",
        value_name = "ARGUMENTS",
        allow_hyphen_values = true
    )]
    mpirun_args: Option<String>,
}

/// Where machines are listed, unless somebody says otherwise.
const HOSTFILE: &str = "machines";
const TOKEN: &str = "PADDLE_JOB_TOKEN";
/// How long a rank that was told to end waits for rank 0 to end the job in order.
const ORDERLY: Duration = Duration::from_secs(10);

impl Args {
    /// The hostfile, if there is one. One that was named must exist.
    fn hostfile(&self) -> Result<Option<PathBuf>> {
        match &self.hostfile {
            Some(path) if path.is_file() => Ok(Some(path.clone())),
            Some(path) => {
                let error = Error::new(Kind::NotFound, "there is no such hostfile");
                Err(error.with("hostfile", path.display()))
            }
            None => Ok(Some(PathBuf::from(HOSTFILE)).filter(|path| path.is_file())),
        }
    }
}

/// One rank.
pub(super) fn run_rank(args: &LaunchArgs) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    // Whoever started this rank is gone: so is the job. Where mpirun is killed nobody else tells.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|errno| Error::io("cannot follow mpirun's end", errno.into()))?;
    let rank = rank::find(|name| std::env::var(name).ok())?;
    let (key, token) = secrets(&rank)?;
    let workspace = workspace(args)?;
    let own = member(args, &rank, &workspace)?;
    let meeting = Meeting {
        machines: machines(args, &rank)?,
        key,
        port: args.mpi.mpi_port,
        patience: Duration::from_secs(args.ready_timeout),
        rank,
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    runtime.block_on(async {
        let stops = signals::listen()?;
        match meeting.rank.rank {
            0 => conduct(args, &meeting, own, &token, stops).await,
            rank => follow(&meeting, &own, rank, &token, stops).await,
        }
    })
}

/// What proves that a process belongs to this start, and the job's token.
fn secrets(rank: &Rank) -> Result<(Secret, Secret)> {
    if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
        return Ok((Secret::new(token.clone()), Secret::new(token)));
    }
    match &rank.key {
        Some(key) => Ok((key.clone(), mpi::token(key))),
        None => {
            let message = "the ranks share no secret: set PADDLE_JOB_TOKEN to the same random text \
                           for all of them";
            Err(Error::invalid(message).with("variable", TOKEN))
        }
    }
}

fn workspace(args: &LaunchArgs) -> Result<PathBuf> {
    args.workspace.canonicalize().map_err(|source| {
        Error::io("no such workspace", source).with("workspace", args.workspace.display())
    })
}

fn member(args: &LaunchArgs, rank: &Rank, workspace: &Path) -> Result<Member> {
    let nic = args.ssh.nics.as_deref().unwrap_or_default();
    let address = match nic {
        "" => String::new(),
        nic => ssh::node::address_of(nic)?.to_string(),
    };
    Ok(Member {
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        local_rank: rank.local_rank,
        address,
        paddle: crate::this_program()?.to_string_lossy().into_owned(),
        program: args.program.clone(),
        workspace: workspace.to_owned(),
        log_dir: workspace.join(&args.log_dir),
    })
}

fn machines(args: &LaunchArgs, rank: &Rank) -> Result<Vec<String>> {
    if rank.is_alone() {
        return Ok(vec!["127.0.0.1".to_owned()]);
    }
    let Some(path) = args.mpi.hostfile()? else {
        let message = "rank 0 cannot be found without a list of machines: give --hostfile";
        return Err(Error::invalid(message));
    };
    let text = std::fs::read_to_string(&path).map_err(|source| {
        Error::io("cannot read the hostfile", source).with("hostfile", path.display())
    })?;
    mpi::hostfile::parse(&text).map_err(|error| error.with("hostfile", path.display()))
}

/// Rank 0 runs the job.
async fn conduct(
    args: &LaunchArgs,
    meeting: &Meeting,
    own: Member,
    token: &Secret,
    mut stops: mpsc::Receiver<Stop>,
) -> Result<ExitCode> {
    let directory = plan::directory(&own, 0);
    let (paddle, log_dir) = (PathBuf::from(&own.paddle), own.log_dir.clone());
    let own_supervisor =
        scheduler::local::open(&paddle, &directory, !args.no_pid_namespace).await?;
    let gathering = tokio::select! {
        gathering = mpi::gather(meeting, own) => gathering?,
        Some(stop) = stops.recv() => {
            return Ok(ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1)));
        }
    };
    let plan = plan_ranks(args, &gathering.members, token)?;
    let mut hosts = vec![own_supervisor];
    hosts.extend(gathering.hosts);
    let mut view = View::new(args, &plan, log_dir.join(scheduler::local::STATE));
    let record = conductor::run(&plan, hosts, stops, &mut view).await?;
    view.finish(&record)?;
    Ok(super::code(&record))
}

fn plan_ranks(args: &LaunchArgs, members: &[Member], token: &Secret) -> Result<JobPlan> {
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let spec = spec(args, &members[0].workspace)?;
    let spec = JobSpec { trainers: count, pservers: count, ..spec };
    spec.check()?;
    let checkpoint_dir = args.checkpoint_dir.as_ref().map(|path| path.to_string_lossy());
    let job = plan::Job {
        spec: &spec,
        ports: args.ports(Ports::default()),
        nic: args.ssh.nics.as_deref().unwrap_or_default(),
        token,
        checkpoint_dir: checkpoint_dir.as_deref(),
        restore: args.restore,
        policy: policy(args),
    };
    plan::plan(&job, members)
}

pub(super) fn policy(args: &LaunchArgs) -> Policy {
    Policy {
        restarts: args.restarts,
        ready_ms: args.ready_timeout.saturating_mul(1000),
        ..Policy::default()
    }
}

/// Every other rank does what rank 0 says.
async fn follow(
    meeting: &Meeting,
    own: &Member,
    rank: u32,
    token: &Secret,
    mut stops: mpsc::Receiver<Stop>,
) -> Result<ExitCode> {
    let directory = plan::directory(own, rank as usize);
    let following = mpi::follow(meeting, own, &directory, token);
    tokio::pin!(following);
    tokio::select! {
        followed = &mut following => followed.map(|()| ExitCode::SUCCESS),
        Some(stop) = stops.recv() => {
            // Rank 0 was told too, and ends the job in order; or it is gone, and so are we.
            let _ = tokio::time::timeout(ORDERLY, following).await;
            Ok(ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1)))
        }
    }
}

/// Runs `mpirun` under a supervisor of this machine, which ends it when this process is gone.
pub(super) fn run_mpirun(args: &LaunchArgs) -> Result<ExitCode> {
    let workspace = workspace(args)?;
    let directory = workspace.join(&args.log_dir).join(".mpirun");
    let mut plan = plan_mpirun(args, &workspace)?;
    if args.dry_run {
        return dry_run::print(&plan, args.output);
    }
    if !super::ssh::has_command("mpirun") {
        let message = "mpirun is not in PATH: install Open MPI";
        return Err(Error::new(Kind::NotFound, message));
    }
    let paddle = crate::this_program()?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    let record = runtime.block_on(async {
        let stops = signals::listen()?;
        // Each rank has a namespace of its own.
        let host = scheduler::local::open(&paddle, &directory, false).await?;
        let complaints = divert_complaints(&mut plan, &directory)?;
        let record = conductor::run(&plan, vec![host], stops, &mut Through).await;
        // What was written before the end is in the pipe.
        let _ = tokio::time::timeout(ORDERLY, complaints).await;
        record
    })?;
    Ok(super::code(&record))
}

/// A supervisor keeps both outputs of a replica as one. Here they stay two: standard error goes
/// through a pipe with a name to our own.
fn divert_complaints(plan: &mut JobPlan, directory: &Path) -> Result<JoinHandle<()>> {
    let path = directory.join("stderr");
    let refused =
        |source| Error::io("cannot make a pipe for mpirun", source).with("path", path.display());
    // One that a launch before this left behind serves as well.
    match mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(refused(errno.into())),
    }
    let mut pipe = pipe::OpenOptions::new().open_receiver(&path).map_err(refused)?;
    for replica in &mut plan.replicas {
        let words = plan::SHELL.map(str::to_owned).into_iter();
        let words = words.chain([path.to_string_lossy().into_owned()]);
        replica.argv = words.chain(std::mem::take(&mut replica.argv)).collect();
    }
    Ok(tokio::spawn(async move {
        let mut piece = vec![0; 64 << 10];
        // Before mpirun has opened its end, there is none.
        while let Ok(count) = pipe.read(&mut piece).await {
            if count == 0 || std::io::stderr().write_all(&piece[..count]).is_err() {
                return;
            }
        }
    }))
}

fn plan_mpirun(args: &LaunchArgs, workspace: &Path) -> Result<JobPlan> {
    let Some(ranks) = args.mpi.ranks else {
        return Err(Error::invalid("--backend mpi needs the number of ranks: give -n N"));
    };
    let spec = spec(args, workspace)?;
    spec.check()?;
    let told = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let is_told = told.iter().all(|name| std::env::var_os(name).is_some());
    let mpirun = Mpirun {
        ranks,
        hostfile: args.mpi.hostfile()?,
        arguments: args
            .mpi
            .mpirun_args
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(str::to_owned)
            .collect(),
        is_root: rustix::process::getuid().is_root() && !is_told,
        exported: vec![TOKEN.to_owned()],
        command: rank_command(args)?,
    };
    let id = ReplicaId::new(Role::Trainer, 0);
    let environment = Environment {
        token: Some(fresh_token()?),
        ..Environment::of(&JobSpec { trainers: 1, ..spec.clone() }, Role::Trainer, 0)
    };
    let replica = ReplicaPlan {
        id,
        host: 0,
        argv: mpirun.argv(),
        again: Vec::new(),
        environment,
        extra: spec.env.clone(),
        directory: std::env::current_dir()
            .map_err(|source| Error::io("cannot find the current directory", source))?,
        log: workspace.join(&args.log_dir).join("mpirun.log"),
        metrics: None,
    };
    let host = HostPlan {
        name: "localhost".to_owned(),
        address: "127.0.0.1".to_owned(),
        directory: workspace.join(&args.log_dir),
    };
    // Restarts are for the ranks: an mpirun that ended has ended the job. And rank 0 needs time to
    // give its replicas theirs.
    let policy = policy(args);
    let policy = Policy { restarts: 0, grace_ms: 2 * policy.grace_ms, ..policy };
    Ok(JobPlan { job: spec.name, hosts: vec![host], replicas: vec![replica], policy })
}

/// The command line of a rank: this one, without what was for `mpirun`.
fn rank_command(args: &LaunchArgs) -> Result<Vec<String>> {
    let paddle = crate::args::Paddle::command();
    let Some(launch) = paddle.find_subcommand("launch") else {
        return Err(Error::new(Kind::Unsupported, "this release has no paddle launch"));
    };
    let given: Vec<OsString> = std::env::args_os().skip(2).collect();
    let names = ["backend", "n", "ranks", "mpirun_args", "mpirun-args", "dry-run", "dry_run"];
    let kept = flags::without(&given, launch, &names);
    let mut command = vec![crate::this_program()?.to_string_lossy().into_owned()];
    command.extend(["launch", "--mpi"].map(str::to_owned));
    command.extend(kept.iter().map(|word| word.to_string_lossy().into_owned()));
    command.push("--".to_owned());
    command.extend(args.program.iter().cloned());
    Ok(command)
}

/// Shows what `mpirun` prints as it is: the ranks' lines have their names in front already.
struct Through;

impl Watch for Through {
    fn log(&mut self, _: ReplicaId, text: &str) {
        let mut output = std::io::stdout().lock();
        // The job goes on when nobody reads any more.
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }

    fn decided(&mut self, _: &Decision, _: &str) {}

    fn changed(&mut self, _: &JobRecord) {}
}
