//! `paddle launch` on this machine: flags → a submission → a plan and its one supervisor.

use super::args::Args;
use contract::job::{JobSpec, Resources, RoleResources};
use contract::port::Ports;
use contract::quantity::Quantity;
use contract::secret::Secret;
use contract::{Error, Kind, Result, name};
use scheduler::Submission;
use scheduler::local::plan::MASTER_STATE;
use scheduler::quote::quote;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What the flags ask for.
pub(super) fn submission(args: &Args) -> Result<Submission> {
    let workspace = args.workspace.canonicalize().map_err(|source| {
        Error::io("no such workspace", source).with("workspace", args.workspace.display())
    })?;
    let log_dir = workspace.join(&args.log_dir);
    Ok(Submission {
        spec: spec(args, &workspace)?,
        program: args.program.clone(),
        token: fresh_token()?,
        directory: log_dir.clone(),
        log_dir,
        output_dir: workspace.join(&args.output_dir),
        checkpoint_dir: args.checkpoint_dir.as_ref().map(|folder| workspace.join(folder)),
        restore: args.restore,
        dataset: args.dataset.clone(),
        master_passes: args.passes.unwrap_or(0),
        ports: args.ports(Ports { first: 0, ..Ports::default() }),
        restarts: args.restarts,
        ready_seconds: args.ready_timeout,
    })
}

pub(super) fn spec(args: &Args, workspace: &Path) -> Result<JobSpec> {
    let units = Quantity::whole(args.trainer_count);
    let trainer = match args.use_gpu {
        Some(true) => Resources { gpu: units, ..Resources::default() },
        _ => Resources { cpu: units, ..Resources::default() },
    };
    Ok(JobSpec {
        name: args.name.clone().unwrap_or_else(|| default_name(workspace)),
        user: user(),
        datacenter: "local".to_owned(),
        package: path_text(workspace)?,
        entry: quote(&args.program),
        trainers: args.trainers,
        pservers: args.pservers.unwrap_or(u32::from(args.trainers > 1)),
        master: args.master,
        passes: args.passes.unwrap_or(1),
        mode: args.mode(),
        env: args.env.iter().map(|entry| variable(entry)).collect::<Result<BTreeMap<_, _>>>()?,
        resources: RoleResources { trainer, ..RoleResources::default() },
        ..JobSpec::default()
    })
}

fn path_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("the workspace's path is not UTF-8: rename it")
            .with("workspace", path.display())
    })
}

/// `NAME=VALUE`, or `NAME` alone for the value that this process has.
fn variable(entry: &str) -> Result<(String, String)> {
    if let Some((name, value)) = entry.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = std::env::var(entry).map_err(|_| {
        let message = "this variable has no value here: set it, or use --env NAME=VALUE";
        Error::invalid(message).with("env", entry)
    })?;
    Ok((entry.to_owned(), value))
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
pub(super) fn fresh_token() -> Result<Secret> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::new(Kind::Io, "no random numbers").because(source))?;
    Ok(Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Makes the directory of the logs, in which an earlier job may have left things. Where the job's
/// record goes comes back.
pub(super) fn prepare(submission: &Submission) -> Result<PathBuf> {
    let directory = &submission.directory;
    let refused = |source| {
        Error::io("cannot make the directory of the logs", source)
            .with("log_dir", directory.display())
    };
    std::fs::create_dir_all(directory).map_err(refused)?;
    if !submission.restore {
        refuse_old_checkpoints(submission)?;
        // The tasks that an earlier job has done are not done in this one.
        match std::fs::remove_dir_all(directory.join(MASTER_STATE)) {
            Err(source) if source.kind() != ErrorKind::NotFound => return Err(refused(source)),
            _ => {}
        }
    }
    Ok(directory.join(scheduler::local::STATE))
}

/// A server that is started again restores the newest checkpoint: it must be of this job.
fn refuse_old_checkpoints(submission: &Submission) -> Result<()> {
    let Some(folder) = &submission.checkpoint_dir else { return Ok(()) };
    let is_used = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if !is_used {
        return Ok(());
    }
    let message = "there are checkpoints of an earlier job: continue it with --restore, or choose \
                   an empty directory";
    Err(Error::new(Kind::AlreadyExists, message).with("checkpoint_dir", folder.display()))
}
