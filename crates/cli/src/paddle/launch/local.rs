//! `paddle launch` on this machine: flags → a submission → a plan and its one supervisor.

use super::args::Args;
use super::quote::quote;
use contract::job::{JobSpec, Resources, RoleResources};
use contract::port::Ports;
use contract::quantity::Quantity;
use contract::secret::Secret;
use contract::{Error, Kind, Result, name};
use scheduler::Submission;
use std::collections::BTreeMap;
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
        dataset: args.dataset.clone(),
        ports: args.ports(Ports { first: 0, ..Ports::default() }),
        restarts: args.restarts,
        ready_seconds: args.ready_timeout,
    })
}

pub(super) fn spec(args: &Args, workspace: &Path) -> Result<JobSpec> {
    let units = Quantity::whole(args.trainer_count.into());
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
        passes: args.passes,
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

fn variable(entry: &str) -> Result<(String, String)> {
    let (name, value) = entry
        .split_once('=')
        .ok_or_else(|| Error::invalid("not a variable: use --env NAME=VALUE").with("env", entry))?;
    Ok((name.to_owned(), value.to_owned()))
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

/// Where the job's record goes.
pub(super) fn state_file(submission: &Submission) -> Result<PathBuf> {
    std::fs::create_dir_all(&submission.directory).map_err(|source| {
        Error::io("cannot make the directory of the logs", source)
            .with("log_dir", submission.directory.display())
    })?;
    Ok(submission.directory.join(scheduler::local::STATE))
}
