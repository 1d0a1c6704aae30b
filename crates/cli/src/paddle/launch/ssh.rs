//! `paddle launch` on ssh hosts: flags and `conf.py` → the machines of a job and its package.

use super::args::Args as LaunchArgs;
use super::reach::{Reach, may_ask};
use super::submission::{
    Built, Counts, Refusal, path_text, refuse_given, spec, submission, workspace,
};
use super::trainer;
use cli::program;
use contract::{Error, Result};
use scheduler::ssh::conf::check_directory;
use scheduler::ssh::package::Manifest;
use scheduler::submission::{Package, Place, SshPlace};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On ssh hosts")]
#[group(skip)] // Its name is also that of the flags around it.
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Copy this directory to every host, or every node of Slurm, and run there
    #[arg(
        long = "job_dispatch_package",
        alias = "job-dispatch-package",
        short = 'p',
        value_name = "DIR",
        conflicts_with = "job_workspace"
    )]
    pub(super) job_dispatch_package: Option<PathBuf>,
    /// Run in this directory, which is on every host already
    #[arg(long = "job_workspace", alias = "job-workspace", short = 'j', value_name = "DIR")]
    job_workspace: Option<String>,
    /// Network interface for servers, also under MPI and on Slurm [default: PADDLE_NIC of --conf, or all]
    #[arg(long, value_name = "NAME")]
    pub(crate) nics: Option<String>,
    /// Keep on each host only its part of train.list: the lines whose place, modulo the number of
    /// hosts, is the host's
    #[arg(long = "shard_train_list", alias = "shard-train-list")]
    pub(super) shard_train_list: bool,
}

/// Refuses what only means something on ssh hosts, elsewhere.
pub(super) fn refuse_flags(args: &LaunchArgs) -> Result<()> {
    let ssh = &args.ssh;
    refuse(&[
        ("--job_dispatch_package", ssh.job_dispatch_package.is_some()),
        ("--shard_train_list", ssh.shard_train_list),
        ("--root_dir", ssh.reach.root_dir.is_some()),
    ])?;
    refuse_flags_but_package(args)
}

/// As [`refuse_flags`], where a package can be copied too.
pub(super) fn refuse_flags_but_package(args: &LaunchArgs) -> Result<()> {
    let ssh = &args.ssh;
    refuse(&[
        ("--job_workspace", ssh.job_workspace.is_some()),
        ("--ssh_config", ssh.reach.ssh_config.is_some()),
    ])
}

/// Refuses a network interface, where the job does not listen on one of machines that it was given.
pub(super) fn refuse_nics(args: &LaunchArgs) -> Result<()> {
    let message = "this flag is for jobs on ssh hosts, under MPI and on Slurm: elsewhere there is \
                   nothing to choose";
    refuse_given(&[("--nics", args.ssh.nics.is_some())], message)
}

/// Refuses the name of another machine's paddle, where this one or that of the image is run.
pub(super) fn refuse_remote_paddle(args: &LaunchArgs) -> Result<()> {
    let message = "this flag is for jobs on ssh hosts and on Slurm: elsewhere this paddle is run, \
                   or that of the image";
    refuse_given(&[("--remote_paddle", args.ssh.reach.remote_paddle.is_some())], message)
}

fn refuse(given: &[(&'static str, bool)]) -> Result<()> {
    refuse_given(given, "this flag is for ssh hosts: name them by --conf or --hosts")
}

pub(super) fn build(args: &LaunchArgs) -> std::result::Result<Built, Refusal> {
    super::mpi::refuse_flags(args)?;
    super::slurm::refuse_flags(args)?;
    super::submission::refuse_visible_processes(args)?;
    let conf = args.ssh.reach.conf()?;
    let (package, source) = package(args)?;
    let place = match (&source, &package) {
        (Some(source), _) => source.clone(),
        (None, Package::Present(directory)) => PathBuf::from(directory),
        (None, Package::Dispatch(_)) => PathBuf::new(),
    };
    let count = u32::try_from(conf.hosts.len()).unwrap_or(u32::MAX);
    let counts = Counts { trainers: count, pservers: count, ports: conf.ports };
    let mut spec = spec(args, &place, &counts)?;
    spec.use_gpu = args.use_gpu.or(conf.use_gpu);
    trainer::set_elsewhere(&mut spec, args)?;
    if let Some(source) = &source {
        let here = program::Whereabouts { workspace: source, search_path: None };
        program::check(&spec.program, here)?;
    }
    let place = Place::Ssh(SshPlace {
        hosts: conf.hosts,
        root_dir: conf.root_dir,
        nic: args.ssh.nics.clone().unwrap_or(conf.nic),
        ld_library_path: conf.ld_library_path,
        paddle: args.ssh.reach.remote_paddle(),
        ssh_config: args.ssh.reach.ssh_config()?,
        shard_train_list: args.ssh.shard_train_list,
        may_ask: may_ask() && !args.detach,
        results: workspace(args)?,
    });
    Ok(Built { submission: submission(spec, place, package)?, package: source })
}

/// A directory here that is copied to other machines.
pub(super) fn dispatched(args: &LaunchArgs, package: &Path) -> Result<(Package, PathBuf)> {
    let source = package.canonicalize().map_err(|source| {
        Error::io("no such package", source).with("job_dispatch_package", package.display())
    })?;
    // Logs of earlier jobs stay here.
    Ok((Package::Dispatch(Manifest::scan(&source, &[&args.log_dir])?), source))
}

/// The package, and the directory here that it is copied from.
fn package(args: &LaunchArgs) -> Result<(Package, Option<PathBuf>)> {
    match (&args.ssh.job_dispatch_package, &args.ssh.job_workspace) {
        (Some(package), _) => {
            let (package, source) = dispatched(args, package)?;
            Ok((package, Some(source)))
        }
        (None, Some(workspace)) => {
            check_directory(workspace).map_err(|error| error.with("flag", "--job_workspace"))?;
            path_text(Path::new(workspace)).map(|path| (Package::Present(path), None))
        }
        (None, None) => {
            let message = "say where the program is: --job_dispatch_package DIR to copy it to the \
                           hosts, or --job_workspace DIR where it is already";
            Err(Error::invalid(message))
        }
    }
}
