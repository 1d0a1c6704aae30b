//! `paddle launch --backend mpi`, which runs `mpirun` itself, and `paddle launch --mpi`, one rank of
//! an `mpirun` that somebody else started.

use super::args::Args as LaunchArgs;
use super::submission::{
    Built, Counts, Refusal, inherited, present, refuse_given, spec, submission, workspace,
};
use super::trainer;
use crate::attach::follow::runtime;
use crate::jobs::find;
use contract::port::Ports;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use scheduler::meeting::Meeting;
use scheduler::mpi;
use scheduler::mpi::rank::Rank;
use scheduler::submission::{MpiPlace, MpiStart, Place};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Under MPI")]
#[group(skip)] // Its name is also that of the flags around it.
pub(crate) struct Args {
    /// Be one rank of an mpirun: start a server and a trainer here, with those of the other ranks
    #[arg(long, conflicts_with_all = ["backend", "conf", "hosts", "ranks", "detach", "dry_run"])]
    pub(crate) mpi: bool,
    /// With --backend mpi: number of ranks, among which trainers and servers are dealt out
    #[arg(short = 'n', long, value_name = "N", value_parser = cli::number::parse::<u32>)]
    ranks: Option<u32>,
    /// Machines, one per line [default: ./machines, if it exists]
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Port on which ranks are waited for [default: 7163 with --mpi, else the system chooses]
    #[arg(
        long = "mpi_port",
        alias = "mpi-port",
        value_name = "PORT",
        value_parser = cli::number::parse::<u16>
    )]
    mpi_port: Option<u16>,
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

impl Args {
    /// The text of the hostfile; empty if there is none. One that was named must exist.
    fn hostfile(&self) -> Result<String> {
        let path = match &self.hostfile {
            Some(path) if !path.is_file() => {
                let error = Error::new(Kind::NotFound, "there is no such hostfile");
                return Err(error.with("hostfile", path.display()));
            }
            Some(path) => path.clone(),
            None => match PathBuf::from(HOSTFILE) {
                path if path.is_file() => path,
                _ => return Ok(String::new()),
            },
        };
        std::fs::read_to_string(&path).map_err(|source| {
            Error::io("cannot read the hostfile", source).with("hostfile", path.display())
        })
    }
}

/// Refuses what only means something under MPI, elsewhere.
pub(super) fn refuse_flags(args: &LaunchArgs) -> Result<()> {
    let given = [
        ("-n", args.mpi.ranks.is_some()),
        ("--hostfile", args.mpi.hostfile.is_some()),
        ("--mpi_port", args.mpi.mpi_port.is_some()),
        ("--mpirun_args", args.mpi.mpirun_args.is_some()),
    ];
    refuse_given(&given, "this flag is for MPI: use --backend mpi too")
}

/// A job for which the conductor runs `mpirun`.
pub(super) fn build(args: &LaunchArgs) -> std::result::Result<Built, Refusal> {
    let Some(ranks) = args.mpi.ranks else {
        let message = "--backend mpi needs the number of ranks: give -n N";
        return Err(Error::invalid(message).into());
    };
    if ranks == 0 {
        return Err(Error::invalid("an mpi job needs at least one rank")
            .with("ranks", ranks)
            .into());
    }
    built(args, ranks, MpiStart::Mpirun)
}

fn built(args: &LaunchArgs, ranks: u32, start: MpiStart) -> std::result::Result<Built, Refusal> {
    super::ssh::refuse_flags(args)?;
    super::ssh::refuse_remote_paddle(args)?;
    super::submission::refuse_visible_processes(args)?;
    super::slurm::refuse_flags(args)?;
    let workspace = workspace(args)?;
    let counts = Counts { trainers: ranks, pservers: ranks, ports: Ports::default() };
    let mut spec = spec(args, &workspace, &counts)?;
    trainer::set_here(&mut spec, args, &workspace)?;
    let default_port = match start {
        MpiStart::Mpirun => 0,
        MpiStart::Joined { .. } => mpi::DEFAULT_PORT,
    };
    let place = Place::Mpi(MpiPlace {
        ranks,
        hostfile: args.mpi.hostfile()?,
        mpirun_arguments: args
            .mpi
            .mpirun_args
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(str::to_owned)
            .collect(),
        nic: args.ssh.nics.clone().unwrap_or_default(),
        port: args.mpi.mpi_port.unwrap_or(default_port),
        start,
        environment: inherited(),
    });
    Ok(Built { submission: submission(spec, place, present(&workspace)?)?, package: None })
}

/// One rank of an `mpirun` that somebody else started. Rank 0 submits the job and shows it; every
/// rank, that one too, does what the job's conductor says.
pub(super) fn run_rank(args: &LaunchArgs) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    super::kubernetes::refuse_flags(args)?;
    if args.mpi.mpirun_args.is_some() {
        let message = "mpirun runs already: give it its arguments yourself, or use --backend mpi";
        return Err(Error::invalid(message).with("flag", "--mpirun_args"));
    }
    let rank = crate::rank::find_rank()?;
    let key = key(&rank)?;
    let port = args.mpi.mpi_port.unwrap_or(mpi::DEFAULT_PORT);
    let nic = args.ssh.nics.as_deref().unwrap_or_default();
    let ranks = crate::jobs::find::open()?.root.join(mpi::RANKS).join(start_name(&rank));
    let own = crate::rank::member(&rank, ranks.join(rank.rank.to_string()), nic)?;
    let meeting = Meeting {
        conductors: machines(args, &rank)?.iter().map(|name| format!("{name}:{port}")).collect(),
        patience: Duration::from_secs(args.ready_seconds()),
        key: key.clone(),
        may_repeat: false,
    };
    let runtime = runtime()?;
    if rank.rank > 0 {
        return runtime.block_on(crate::rank::follow(&meeting, &own));
    }
    let built = match built(args, rank.size, MpiStart::Joined { key }) {
        Ok(built) => built,
        Err(refusal) => return super::refuse(refusal),
    };
    let jobs = find::open()?;
    runtime.block_on(async {
        let joined = tokio::spawn(async move { mpi::join(&meeting, &own, &[]).await });
        let code = super::attached(args, &jobs, &built).await?;
        // Its supervisor ends with the conductor.
        let _ = tokio::time::timeout(crate::rank::ORDERLY, joined).await;
        Ok(code)
    })
}

/// A name that the ranks of one start share on a machine, and those of no other start have.
fn start_name(rank: &Rank) -> String {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let job = rank.job.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    format!("mpi{}-{parent}", job.collect::<String>())
}

/// What proves that a process belongs to this start.
fn key(rank: &Rank) -> Result<Secret> {
    if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
        return Ok(Secret::new(token));
    }
    rank.key.clone().ok_or_else(|| {
        let message = "the ranks share no secret: set PADDLE_JOB_TOKEN to the same random text for \
                       all of them";
        Error::invalid(message).with("variable", TOKEN)
    })
}

/// The machines on which rank 0 may be, likeliest first.
fn machines(args: &LaunchArgs, rank: &Rank) -> Result<Vec<String>> {
    if rank.is_alone() || rank.rank == 0 {
        return Ok(vec!["127.0.0.1".to_owned()]);
    }
    match args.mpi.hostfile()?.as_str() {
        "" => {
            let message = "rank 0 cannot be found without a list of machines: give --hostfile";
            Err(Error::invalid(message))
        }
        text => mpi::hostfile::parse(text),
    }
}
