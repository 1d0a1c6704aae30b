//! This machine as a place for jobs: one node, reached through the loopback interface.

pub mod sandbox;
pub mod trial;

pub(crate) mod plan;

use crate::jobs::Paddle;
use crate::plan::Node;
use crate::submission::{LocalPlace, Package, Submission};
use crate::supervisor::gpu;
use crate::supervisor::host::Host;
use contract::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where replicas on this machine find each other.
const ADDRESS: &str = "127.0.0.1";
/// The interface of that address; nobody outside reaches servers that listen on it.
const INTERFACE: &str = "lo";
/// How long a supervisor on this machine may take to answer. It may have to wait for the end of
/// one before it.
const PATIENCE: Duration = Duration::from_secs(60);

/// This machine. `directory` is the job's.
pub(crate) fn node(submission: &Submission, directory: &Path, paddle: &Paddle) -> Result<Node> {
    let workspace = match &submission.package {
        Package::Present(path) => PathBuf::from(path),
        Package::Dispatch(_) => directory.join("package"),
    };
    if !workspace.is_absolute() && !workspace.starts_with("<job>") {
        let message = "the package of a local job is a directory of this machine: use its absolute \
                       path";
        return Err(Error::invalid(message).with("package", workspace.display()));
    }
    Ok(Node {
        name: "localhost".to_owned(),
        address: ADDRESS.to_owned(),
        nic: INTERFACE.to_owned(),
        paddle: paddle.program.to_string_lossy().into_owned(),
        workspace,
        directory: directory.join("machine"),
        owns_workspace: false,
        env: BTreeMap::new(),
    })
}

/// Starts a supervisor on this machine.
pub(crate) async fn open(place: &LocalPlace, node: &Node, paddle: &Paddle) -> Result<Host> {
    let isolates = place.isolates || place.sandbox.is_some();
    let command = supervise(paddle, &node.directory, isolates, &place.environment);
    Host::open(&node.name, command, PATIENCE).await
}

/// The command of a supervisor on this machine.
pub(crate) fn supervise(
    paddle: &Paddle,
    directory: &Path,
    isolates: bool,
    environment: &BTreeMap<String, String>,
) -> Command {
    let mut command = Command::new(&paddle.program);
    command.arg("supervise").arg("--directory").arg(directory);
    // The directory is in the job's, which is among those of other jobs.
    let jobs = directory.ancestors().nth(2).unwrap_or(directory);
    command.arg("--gpus").arg(jobs.join(gpu::LOCKS));
    if isolates {
        command.arg("--namespace");
    }
    command.env_clear().envs(environment);
    command
}
