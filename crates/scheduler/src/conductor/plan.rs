//! A job as the conductor runs it: which replica on which host, with which command, directory and
//! log. Pure data; backends build it, and `--dry-run` shows it.
//!
//! What is known only once servers serve, their addresses, is filled in when a replica is started.

use crate::replica::ReplicaId;
use crate::supervisor::message::Start;
use contract::Result;
use contract::env::Environment;
use contract::port::Endpoint;
use contract::ready::Ready;
use contract::role::Role;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A job with all its replicas.
#[derive(Debug)]
pub struct JobPlan {
    /// The job's name.
    pub job: String,
    /// Its hosts, each with a supervisor.
    pub hosts: Vec<HostPlan>,
    /// Its replicas, servers first.
    pub replicas: Vec<ReplicaPlan>,
    /// What is done about failures and ends.
    pub policy: Policy,
}

/// A host of a job.
#[derive(Debug)]
pub struct HostPlan {
    /// As people know it.
    pub name: String,
    /// As replicas on other hosts reach it.
    pub address: String,
    /// The job's directory there: its supervisor keeps its lock in it.
    pub directory: PathBuf,
}

/// A replica of a job.
#[derive(Debug)]
pub struct ReplicaPlan {
    /// Which.
    pub id: ReplicaId,
    /// The index of its host.
    pub host: usize,
    /// Program and arguments. In a server's, [`PORT`] stands for its first port: 0 the first time
    /// if the system is to choose, later the one it had.
    pub argv: Vec<String>,
    /// More arguments when it is started again.
    pub again: Vec<String>,
    /// What it is told. Servers' endpoints and the master's are filled in if they are missing; the
    /// attempt always is.
    pub environment: Environment,
    /// The job's own variables.
    pub extra: BTreeMap<String, String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// The file for its output; a relative path begins at `directory`.
    pub log: PathBuf,
    /// A file of JSON lines with its figures.
    pub metrics: Option<PathBuf>,
}

/// Keeps Python from holding its output back: lines are there when they are printed, also the last
/// ones before a crash. A job that sets it itself has its way.
const UNBUFFERED: &str = "PYTHONUNBUFFERED";

/// See [`ReplicaPlan::argv`].
pub const PORT: &str = "{port}";

/// What is done about failures and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How often one rank may be started again after a failure.
    pub restarts: u32,
    /// How long a server may take until it serves.
    pub ready_ms: u64,
    /// How long a replica may take to end after SIGTERM.
    pub grace_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { restarts: 0, ready_ms: 60_000, grace_ms: 5_000 }
    }
}

impl JobPlan {
    /// The plan of one replica.
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaPlan> {
        self.replicas.iter().find(|replica| replica.id == id)
    }

    /// How many replicas of this role it has.
    pub fn count(&self, role: Role) -> usize {
        self.replicas.iter().filter(|replica| replica.id.role == role).count()
    }

    /// What to start, given what the servers said. A server that is started again gets the port it
    /// had: the others know it by that.
    pub fn start(
        &self,
        replica: &ReplicaPlan,
        attempt: u32,
        served: &BTreeMap<ReplicaId, Ready>,
    ) -> Result<Start> {
        let mut environment = replica.environment.clone();
        environment.attempt = attempt;
        if let Some(ready) = served.get(&replica.id) {
            environment.ports.first = ready.ports.first;
        }
        if environment.pserver_endpoints.is_empty() {
            environment.pserver_endpoints = self.endpoints(Role::Pserver, served)?;
            if let (Some(first), Role::Trainer) =
                (environment.pserver_endpoints.first(), replica.id.role)
            {
                environment.ports.first = first.port_or(environment.ports.first);
            }
        }
        if environment.master.is_none() {
            environment.master = self.endpoints(Role::Master, served)?.pop();
        }
        let mut env = replica.extra.clone();
        env.entry(UNBUFFERED.to_owned()).or_insert_with(|| "1".to_owned());
        env.extend(environment.render().into_iter().map(|(name, value)| (name.to_owned(), value)));
        let mut argv = replica.argv.clone();
        if attempt > 0 {
            argv.extend_from_slice(&replica.again);
        }
        if replica.id.is_server() {
            let port = environment.ports.first.to_string();
            argv.iter_mut().for_each(|argument| *argument = argument.replace(PORT, &port));
        }
        Ok(Start {
            replica: replica.id,
            attempt,
            argv,
            env,
            directory: replica.directory.clone(),
            log: replica.log.clone(),
            is_server: replica.id.is_server(),
            metrics: replica.metrics.clone(),
        })
    }

    /// Where the servers of a role are, by rank; empty until all are known.
    fn endpoints(&self, role: Role, served: &BTreeMap<ReplicaId, Ready>) -> Result<Vec<Endpoint>> {
        let mut endpoints = Vec::new();
        for replica in self.replicas.iter().filter(|replica| replica.id.role == role) {
            let Some(ready) = served.get(&replica.id) else { return Ok(Vec::new()) };
            endpoints.push(Endpoint::new(&self.hosts[replica.host].address, ready.ports.first)?);
        }
        Ok(endpoints)
    }
}
