//! What a job on this machine consists of. Pure.

use crate::Submission;
use crate::conductor::plan::{HostPlan, JobPlan, PORT, Policy, ReplicaPlan};
use crate::replica::ReplicaId;
use crate::server::{self, RESTORE, Server, shifted};
use contract::Result;
use contract::env::Environment;
use contract::port::Endpoint;
use contract::role::Role;
use std::path::Path;

/// Where replicas on this machine find each other.
const ADDRESS: &str = "127.0.0.1";
/// The interface of that address; nobody outside reaches servers that listen on it.
const INTERFACE: &str = "lo";
/// What people look for in a list of processes.
const COMMENT: &str = "paddle_process_by_paddle";

/// Where the master keeps its state, in the job's directory.
pub const MASTER_STATE: &str = "master";

/// The replicas of a job on this machine. `paddle` is the program of the servers.
pub fn plan(submission: &Submission, paddle: &Path) -> Result<JobPlan> {
    let spec = &submission.spec;
    spec.check()?;
    let mut replicas = Vec::new();
    for role in Role::ALL {
        for rank in 0..spec.replicas(role) {
            replicas.push(replica(submission, ReplicaId::new(role, rank), paddle)?);
        }
    }
    let host = HostPlan {
        name: "localhost".to_owned(),
        address: ADDRESS.to_owned(),
        directory: submission.directory.clone(),
    };
    let policy = Policy {
        restarts: submission.restarts,
        ready_ms: submission.ready_seconds.saturating_mul(1000),
        ..Policy::default()
    };
    Ok(JobPlan { job: spec.name.clone(), hosts: vec![host], replicas, policy })
}

fn replica(submission: &Submission, id: ReplicaId, paddle: &Path) -> Result<ReplicaPlan> {
    let Submission { spec, log_dir, .. } = submission;
    let own_dir = log_dir.join(id.to_string());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let trainers = usize::try_from(spec.trainers).unwrap_or(usize::MAX);
    let mut environment = Environment {
        address: ADDRESS.to_owned(),
        log_dir: text(&own_dir),
        output_dir: text(&submission.output_dir),
        checkpoint_dir: submission.checkpoint_dir.as_deref().map(text).unwrap_or_default(),
        trainer_hosts: vec![ADDRESS.parse::<Endpoint>()?; trainers],
        token: Some(submission.token.clone()),
        ports: submission.ports,
        ..Environment::of(spec, id.role, id.rank)
    };
    environment.pserver_endpoints = endpoints(submission)?;
    environment.ports.first = match id.role {
        Role::Pserver => shifted(submission.ports, id.rank)?.first,
        Role::Master => 0,
        Role::Trainer => submission.ports.first,
    };
    let argv = match id.role {
        Role::Trainer => program(submission),
        Role::Pserver => pserver(submission, id.rank, paddle),
        Role::Master => master(submission, paddle),
    };
    let keeps_checkpoints = id.role == Role::Pserver && submission.checkpoint_dir.is_some();
    Ok(ReplicaPlan {
        id,
        host: 0,
        argv,
        again: server::again(keeps_checkpoints, submission.restore),
        environment,
        extra: spec.env.clone(),
        directory: spec.package.clone().into(),
        log: log_dir.join(format!("{id}.log")),
        metrics: (id.role == Role::Trainer).then(|| own_dir.join("metrics.jsonl")),
    })
}

/// Where the servers will be, if that can be told already.
fn endpoints(submission: &Submission) -> Result<Vec<Endpoint>> {
    if submission.ports.first == 0 {
        return Ok(Vec::new());
    }
    let endpoint = |rank| Endpoint::new(ADDRESS, shifted(submission.ports, rank)?.first);
    (0..submission.spec.pservers).map(endpoint).collect()
}

fn program(submission: &Submission) -> Vec<String> {
    match submission.program.is_empty() {
        true => ["/bin/sh", "-c", &submission.spec.entry].map(str::to_owned).to_vec(),
        false => submission.program.clone(),
    }
}

fn pserver(submission: &Submission, rank: u32, paddle: &Path) -> Vec<String> {
    let Submission { spec, ports, .. } = submission;
    let server = Server {
        paddle: &paddle.to_string_lossy(),
        nic: INTERFACE,
        ports: *ports,
        place: (rank, spec.pservers),
        trainers: spec.trainers,
        comment: COMMENT,
    };
    let mut argv = server.argv();
    argv.extend(submission.restore.then(|| RESTORE.to_owned()));
    argv
}

fn master(submission: &Submission, paddle: &Path) -> Vec<String> {
    let mut argv = vec![
        paddle.to_string_lossy().into_owned(),
        "master".to_owned(),
        format!("--nics={INTERFACE}"),
        format!("--port={PORT}"),
        format!("--passes={}", submission.master_passes),
        format!("--state_dir={}", submission.directory.join(MASTER_STATE).display()),
    ];
    argv.extend(submission.dataset.iter().map(|pattern| format!("--dataset={pattern}")));
    argv
}
