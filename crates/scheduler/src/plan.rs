//! The replicas of a job on given machines: commands, environments, files, order. Pure, and the
//! same for every place that is made of processes; a place only says what its machines are.
//!
//! Machines may be names that mean something only later (`rank-0` before `mpirun` has chosen one):
//! addresses are texts here, and are put into the replicas' environments as they are. What is
//! known only once servers serve, the ports that the system chose for them, is filled in when a
//! replica is started ([`JobPlan::start`]).

use crate::replica::ReplicaId;
use crate::submission::{CLOUD, Place, Submission};
use crate::supervisor::message::{Confinement, Start};
use crate::{introduction, local};
use contract::api::cluster_train;
use contract::env::{Environment, STAGE};
use contract::job::{JobSpec, Resources};
use contract::port::{Endpoint, Ports};
use contract::ready::Ready;
use contract::role::Role;
use contract::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A machine of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As people know it.
    pub name: String,
    /// As replicas on other machines reach it.
    pub address: String,
    /// The interface that servers listen on; empty for all.
    pub nic: String,
    /// The command `paddle` there.
    pub paddle: String,
    /// Where programs run.
    pub workspace: PathBuf,
    /// Where the job's supervisor and its master keep their state.
    pub directory: PathBuf,
    /// Whether the workspace is this machine's alone. Its first trainer and server then log under
    /// the names that people know, `train.log` and `server.log`.
    pub owns_workspace: bool,
    /// Variables of its replicas, unless the job sets them.
    pub env: BTreeMap<String, String>,
}

/// A job with all its replicas.
#[derive(Debug)]
pub struct JobPlan {
    /// The job's name.
    pub job: String,
    /// Its machines, each with a supervisor.
    pub nodes: Vec<Node>,
    /// Its replicas, servers first.
    pub replicas: Vec<ReplicaPlan>,
    /// What is done about failures and ends.
    pub policy: Policy,
}

/// A replica of a job.
#[derive(Debug)]
pub struct ReplicaPlan {
    /// Its name.
    pub id: ReplicaId,
    /// The index of its machine.
    pub node: usize,
    /// Program and arguments. In a server's, [`PORT`] stands for its first port: 0 the first time
    /// if the system is to choose, later the one it had.
    pub argv: Vec<String>,
    /// More arguments for its first start.
    pub first: Vec<String>,
    /// More arguments when it is started again, and trainers had been started.
    pub again: Vec<String>,
    /// What it is told. Servers' endpoints and the master's are filled in if they are missing; the
    /// attempt always is.
    pub environment: Environment,
    /// The job's own variables.
    pub extra: BTreeMap<String, String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// The file for its output.
    pub log: PathBuf,
    /// A file of JSON lines with its figures.
    pub metrics: Option<PathBuf>,
    /// What it may use.
    pub resources: Resources,
    /// Which part of its machine it sees.
    pub confinement: Confinement,
    /// Whether its log begins with where the job runs.
    pub introduces: bool,
}

/// What is done about failures and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How often one rank may be started again after a failure.
    pub restarts: u32,
    /// How long a server may take until it serves.
    pub ready_ms: u64,
    /// How long a replica may take to end after SIGTERM.
    pub grace_ms: u64,
    /// How long the whole job may take.
    pub time_limit_ms: Option<u64>,
    /// Whether servers without trainers and trainers without data are fine.
    pub allows_idle: bool,
    /// Whether servers keep checkpoints to go back to.
    pub has_checkpoints: bool,
    /// The least number of trainers of an elastic job, which goes on without one that is lost.
    pub min_trainers: Option<u32>,
}

/// Stands for a server's first port in its arguments.
pub const PORT: &str = "{port}";
/// Where the master keeps its state, in the job's directory on its machine.
pub(crate) const MASTER_STATE: &str = "master";
/// Keeps Python from holding its output back: lines are there when they are printed, also the last
/// ones before a crash. A job that sets it itself has its way.
const UNBUFFERED: &str = "PYTHONUNBUFFERED";
/// How long a replica that others wait for may be stopped (SIGSTOP). Shorter than servers wait for a
/// trainer that they do not hear of (60 s): it is started again before they give up.
const STOPPED_SECONDS_MAX: u64 = 45;

/// All replicas of a job on these machines, of which there is at least one. Replicas of a role are
/// dealt out in turn; the master is on the first machine.
///
/// # Errors
/// The spec makes no sense, or ports end past 65535.
pub fn plan(submission: &Submission, nodes: Vec<Node>) -> Result<JobPlan> {
    let spec = &submission.spec;
    spec.check()?;
    if nodes.is_empty() {
        return Err(Error::invalid("a job needs at least one machine"));
    }
    let servers = Servers::place(spec, &nodes)?;
    let mut replicas = Vec::new();
    for role in Role::ALL {
        let count = if role == Role::Trainer { spec.trainers_max() } else { spec.replicas(role) };
        for rank in 0..count {
            replicas.push(replica(submission, &nodes, &servers, ReplicaId::new(role, rank))?);
        }
    }
    Ok(JobPlan { job: spec.name.clone(), nodes, replicas, policy: policy(spec) })
}

/// What is done about failures and ends, as the spec says.
pub(crate) fn policy(spec: &JobSpec) -> Policy {
    Policy {
        restarts: spec.restarts_max(),
        ready_ms: spec.ready_seconds.saturating_mul(1000),
        grace_ms: spec.grace_seconds.saturating_mul(1000),
        time_limit_ms: spec.time_limit_seconds.map(|seconds| seconds.saturating_mul(1000)),
        allows_idle: spec.allow_idle,
        has_checkpoints: !spec.checkpoint.dir.is_empty(),
        min_trainers: spec.fault_tolerance.map(|tolerance| tolerance.min_trainers),
    }
}

/// The machine of a replica.
fn node_of(id: ReplicaId, nodes: usize) -> usize {
    id.rank as usize % nodes
}

/// Ports and endpoints of the parameter servers, by rank.
struct Servers {
    ports: Vec<Ports>,
    /// Their Prometheus ports, if they have any.
    metrics: Vec<Option<u16>>,
    /// Empty if the system chooses their ports.
    endpoints: Vec<Endpoint>,
}

impl Servers {
    /// Servers that share an address have ports one after another. A port that is everybody's is
    /// left out of the endpoints, as in the documents.
    fn place(spec: &JobSpec, nodes: &[Node]) -> Result<Servers> {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        let (mut ports, mut metrics) = (Vec::new(), Vec::new());
        for rank in 0..spec.pservers {
            let node = &nodes[node_of(ReplicaId::new(Role::Pserver, rank), nodes.len())];
            let before = seen.entry(&node.address).or_default();
            let own = shifted(spec.ports, *before);
            ports.push(own.map_err(|error| error.with("host", &node.name))?);
            metrics.push(metrics_port(spec, *before)?);
            *before += 1;
        }
        let is_everybodys = nodes.len() > 1 && ports.iter().all(|own| *own == spec.ports);
        let endpoint = |(rank, ports): (u32, &Ports)| {
            let node = &nodes[node_of(ReplicaId::new(Role::Pserver, rank), nodes.len())];
            let endpoint = Endpoint::new(&node.address, ports.first)?;
            Ok(if is_everybodys { endpoint.without_port() } else { endpoint })
        };
        let endpoints = match spec.ports.first {
            0 => Vec::new(),
            _ => (0..).zip(&ports).map(endpoint).collect::<Result<_>>()?,
        };
        Ok(Servers { ports, metrics, endpoints })
    }
}

fn metrics_port(spec: &JobSpec, before: u32) -> Result<Option<u16>> {
    let Some(first) = spec.metrics_port else { return Ok(None) };
    let port = u16::try_from(u32::from(first) + if first == 0 { 0 } else { before });
    port.map(Some).map_err(|_| {
        let message = "the metrics ports of the servers end past 65535: use a lower one";
        Error::invalid(message).with("metrics_port", first)
    })
}

/// The ports of a server that has `before` others ahead of it at the same address. Port 0 is for
/// the system to choose, for each server anew.
fn shifted(ports: Ports, before: u32) -> Result<Ports> {
    let Ports { first, dense, sparse } = ports;
    let room = u32::from(dense) + u32::from(sparse);
    let port = u32::from(first).saturating_add(before.saturating_mul(room));
    let first = if first == 0 { 0 } else { u16::try_from(port).unwrap_or(u16::MAX) };
    let ports = Ports { first, dense, sparse };
    ports.check().map(|()| ports)
}

fn replica(
    submission: &Submission,
    nodes: &[Node],
    servers: &Servers,
    id: ReplicaId,
) -> Result<ReplicaPlan> {
    let spec = &submission.spec;
    let index = node_of(id, nodes.len());
    let node = &nodes[index];
    let files = Files::of(spec, node, id, nodes.len());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let of_trainer = |rank| &nodes[node_of(ReplicaId::new(Role::Trainer, rank), nodes.len())];
    let trainer_hosts = (0..spec.trainers_max()).map(|rank| of_trainer(rank).address.parse());
    let mut ports = spec.ports;
    match id.role {
        Role::Pserver => ports = servers.ports[id.rank as usize],
        Role::Master => ports.first = 0,
        Role::Trainer => {}
    }
    let environment = Environment {
        package: text(&node.workspace),
        address: node.address.clone(),
        log_dir: text(&files.own_dir),
        output_dir: text(&node.workspace.join(&spec.output_dir)),
        checkpoint_dir: checkpoint_dir(spec, node),
        trainer_hosts: trainer_hosts.collect::<Result<_>>()?,
        pserver_endpoints: servers.endpoints.clone(),
        ports,
        token: Some(submission.token.clone()),
        ..Environment::of(spec, id.role, id.rank)
    };
    let (argv, first, again) = match id.role {
        Role::Trainer => (trainer(spec, node), Vec::new(), Vec::new()),
        Role::Pserver => {
            let (first, again) = restore(spec);
            (pserver(submission, node, servers, id.rank), first, again)
        }
        Role::Master => (master(spec, node), Vec::new(), Vec::new()),
    };
    let mut extra = spec.env.clone();
    let stage = submission.secrets.get(cluster_train::SECRET).filter(|_| id.role == Role::Trainer);
    extra.extend(stage.map(|stage| (STAGE.to_owned(), stage.expose().to_owned())));
    for (name, value) in &node.env {
        extra.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Ok(ReplicaPlan {
        id,
        node: index,
        argv,
        first,
        again,
        environment,
        extra,
        directory: node.workspace.clone(),
        log: files.log,
        metrics: (id.role == Role::Trainer).then(|| files.own_dir.join("metrics.jsonl")),
        resources: *spec.resources.of(id.role),
        confinement: local::plan::confinement(submission, node, id),
        introduces: id.role == Role::Trainer && submission.origin == CLOUD,
    })
}

/// Where a replica writes.
struct Files {
    log: PathBuf,
    /// The directory of its own that it is told.
    own_dir: PathBuf,
}

impl Files {
    fn of(spec: &JobSpec, node: &Node, id: ReplicaId, nodes: usize) -> Files {
        let log_dir = node.workspace.join(&spec.log_dir);
        // Rank 0 … nodes-1 are the first of their role on their machine.
        let is_first = (id.rank as usize) < nodes;
        let known = match id.role {
            Role::Trainer => "train.log",
            Role::Pserver => "server.log",
            Role::Master => "master.log",
        };
        if node.owns_workspace && is_first {
            return Files { log: log_dir.join(known), own_dir: log_dir };
        }
        Files { log: log_dir.join(format!("{id}.log")), own_dir: log_dir.join(id.to_string()) }
    }
}

fn checkpoint_dir(spec: &JobSpec, node: &Node) -> String {
    match spec.checkpoint.dir.as_str() {
        "" => String::new(),
        dir => node.workspace.join(dir).to_string_lossy().into_owned(),
    }
}

fn trainer(spec: &JobSpec, node: &Node) -> Vec<String> {
    if !spec.program.is_empty() {
        return spec.program.clone();
    }
    if spec.topology.is_empty() {
        return ["/bin/sh", "-c", &spec.entry].map(str::to_owned).to_vec();
    }
    let verb = if spec.staged { "cluster_node" } else { "train" };
    let mut argv = vec![node.paddle.clone(), verb.to_owned()];
    argv.push(format!("--config={}", spec.topology));
    argv.extend(spec.topology_flags.iter().cloned());
    argv
}

fn pserver(submission: &Submission, node: &Node, servers: &Servers, rank: u32) -> Vec<String> {
    let spec = &submission.spec;
    let mut argv = vec![node.paddle.clone(), "pserver".to_owned()];
    if !node.nic.is_empty() {
        argv.push(format!("--nics={}", node.nic));
    }
    let Ports { dense, sparse, .. } = spec.ports;
    argv.extend([
        format!("--port={PORT}"),
        format!("--ports_num={dense}"),
        format!("--ports_num_for_sparse={sparse}"),
        format!("--num_gradient_servers={}", spec.trainers_max()),
        format!("--index={rank}"),
        format!("--servers={}", spec.pservers),
        format!("--comment={}", comment(&submission.place)),
    ]);
    let least = spec.fault_tolerance.map(|tolerance| tolerance.min_trainers);
    argv.extend(least.map(|least| format!("--min_trainers={least}")));
    let interval = spec.checkpoint.interval_seconds;
    argv.extend(interval.map(|seconds| format!("--checkpoint_interval={seconds}")));
    argv.extend(servers.metrics[rank as usize].map(|port| format!("--metrics_port={port}")));
    argv
}

/// By this text people find the processes of a job among others.
fn comment(place: &Place) -> &'static str {
    match place {
        Place::Local(_) | Place::Ssh(_) => "paddle_process_by_paddle",
        Place::Mpi(_) | Place::Slurm(_) | Place::Kubernetes(_) => "paddle_cluster_pserver",
    }
}

/// What a server is told about checkpoints at its first start, and when it is started again.
fn restore(spec: &JobSpec) -> (Vec<String>, Vec<String>) {
    let first = spec.checkpoint.restore.map(|restore| format!("--restore={restore}"));
    // Never an error: without a complete checkpoint all servers begin with first values.
    let again = (!spec.checkpoint.dir.is_empty()).then(|| "--restore=common".to_owned());
    (first.into_iter().collect(), again.into_iter().collect())
}

fn master(spec: &JobSpec, node: &Node) -> Vec<String> {
    let mut argv = vec![node.paddle.clone(), "master".to_owned()];
    if !node.nic.is_empty() {
        argv.push(format!("--nics={}", node.nic));
    }
    let data = &spec.data;
    argv.extend([
        format!("--port={PORT}"),
        format!("--passes={}", data.passes),
        format!("--state_dir={}", node.directory.join(MASTER_STATE).display()),
    ]);
    argv.extend(data.chunks_per_task.map(|count| format!("--chunk_per_task={count}")));
    argv.extend(data.task_timeout_seconds.map(|seconds| format!("--task_timeout={seconds}")));
    argv.extend(data.files.iter().map(|pattern| format!("--dataset={pattern}")));
    argv
}

impl JobPlan {
    /// The plan of one replica.
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaPlan> {
        self.replicas.iter().find(|replica| replica.id == id)
    }

    /// What to start, given what the servers said. A server that is started again gets the port it
    /// had: the others know it by that. Before any trainer `has_begun` it also gets what it was told
    /// first: a checkpoint that is asked for is not given up because a server has failed to find it.
    pub fn start(
        &self,
        replica: &ReplicaPlan,
        attempt: u32,
        has_begun: bool,
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
        argv.extend_from_slice(if has_begun { &replica.again } else { &replica.first });
        if replica.id.is_server() {
            let port = environment.ports.first.to_string();
            argv.iter_mut().for_each(|argument| *argument = argument.replace(PORT, &port));
        }
        let preamble = match replica.introduces {
            true => introduction::lines(self, replica),
            false => Vec::new(),
        };
        Ok(Start {
            replica: replica.id,
            attempt,
            argv,
            env,
            directory: replica.directory.clone(),
            log: replica.log.clone(),
            is_server: replica.id.is_server(),
            metrics: replica.metrics.clone(),
            memory_bytes_max: replica.resources.memory.map(|memory| memory.bytes()),
            cpu_milli_max: replica.resources.cpu.map(|cpu| cpu.cores_milli()),
            preamble,
            confinement: replica.confinement.clone(),
            stopped_seconds_max: self.has_servers().then_some(STOPPED_SECONDS_MAX),
        })
    }

    /// Whether replicas wait for each other.
    fn has_servers(&self) -> bool {
        self.replicas.iter().any(|replica| replica.id.is_server())
    }

    /// Where the servers of a role are, by rank; empty until all are known.
    fn endpoints(&self, role: Role, served: &BTreeMap<ReplicaId, Ready>) -> Result<Vec<Endpoint>> {
        let mut endpoints = Vec::new();
        for replica in self.replicas.iter().filter(|replica| replica.id.role == role) {
            let Some(ready) = served.get(&replica.id) else { return Ok(Vec::new()) };
            endpoints.push(Endpoint::new(&self.nodes[replica.node].address, ready.ports.first)?);
        }
        Ok(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::sample as submission;
    use contract::job::Restore;
    use contract::secret::Secret;

    fn node(name: &str, address: &str) -> Node {
        Node {
            name: name.into(),
            address: address.into(),
            nic: "eth0".into(),
            paddle: "paddle".into(),
            workspace: "/home/paddle/JOB".into(),
            directory: "/home/paddle/JOB".into(),
            owns_workspace: true,
            env: [("LD_LIBRARY_PATH".to_owned(), "/usr/local/cuda/lib64".to_owned())].into(),
        }
    }

    fn show(spec: JobSpec, nodes: Vec<Node>) -> String {
        let plan = plan(&submission(spec), nodes).unwrap();
        let mut text = String::new();
        for replica in &plan.replicas {
            let start = plan.start(replica, 0, false, &BTreeMap::new()).unwrap();
            text.push_str(&format!(
                "{} on {} to {}\n  {}\n  PADDLE_INIT_PORT={} PADDLE_INIT_PSERVERS={}\n",
                replica.id,
                plan.nodes[replica.node].name,
                start.log.display(),
                start.argv.join(" "),
                start.env["PADDLE_INIT_PORT"],
                start.env.get("PADDLE_INIT_PSERVERS").map_or("", String::as_str),
            ));
        }
        text
    }

    #[test]
    fn every_machine_gets_a_server_and_a_trainer_as_in_the_original() {
        let ports = Ports { first: 7164, dense: 2, sparse: 2 };
        let spec = JobSpec { trainers: 2, pservers: 2, ports, ..JobSpec::default() };
        let nodes = vec![node("a", "192.168.100.17"), node("b", "192.168.100.18")];
        insta::assert_snapshot!(show(spec, nodes));
    }

    #[test]
    fn any_numbers_are_dealt_out_in_turn_and_servers_of_one_address_share_no_port() {
        let spec = JobSpec {
            trainers: 3,
            pservers: 3,
            master: true,
            metrics_port: Some(9100),
            ..JobSpec::default()
        };
        insta::assert_snapshot!(show(spec, vec![node("a", "10.0.0.1"), node("b", "10.0.0.2")]));
    }

    #[test]
    fn everything_a_trainer_is_told_is_in_its_environment() {
        let mut spec = JobSpec { trainers: 2, pservers: 2, ..JobSpec::default() };
        spec.checkpoint.dir = "/shared/checkpoint".into();
        spec.env.insert("MY_OWN".into(), "value".into());
        let plan = plan(&submission(spec), vec![node("a", "10.0.0.1"), node("b", "10.0.0.2")]);
        let plan = plan.unwrap();
        let start = plan.start(&plan.replicas[3], 2, true, &BTreeMap::new()).unwrap();
        insta::assert_json_snapshot!(start.env);
    }

    #[test]
    fn a_server_is_told_to_restore_what_was_asked_for_and_later_what_all_have() {
        let mut spec = JobSpec { pservers: 1, ..JobSpec::default() };
        spec.checkpoint.dir = "kept".into();
        spec.checkpoint.interval_seconds = Some(5);
        spec.checkpoint.restore = Some(Restore::Cut(7));
        let plan = plan(&submission(spec), vec![node("a", "10.0.0.1")]).unwrap();
        let argv = |attempt, has_begun| {
            plan.start(&plan.replicas[0], attempt, has_begun, &BTreeMap::new()).unwrap().argv
        };
        let first = argv(0, false);
        assert!(first.contains(&"--restore=7".to_owned()), "{first:?}");
        assert!(first.contains(&"--checkpoint_interval=5".to_owned()), "{first:?}");
        assert_eq!(argv(1, false), first, "nothing else was asked for");
        let again = argv(1, true);
        assert!(!again.contains(&"--restore=7".to_owned()), "{again:?}");
        assert_eq!(again.last().unwrap(), "--restore=common");
    }

    #[test]
    fn a_topology_is_trained_by_paddle_train() {
        let spec = JobSpec {
            topology: "trainer_config.py".into(),
            topology_flags: vec!["--dot_period=10".into()],
            ..JobSpec::default()
        };
        let submission = submission(spec);
        let spec = JobSpec { program: Vec::new(), ..submission.spec.clone() };
        let plan = plan(&Submission { spec, ..submission }, vec![node("a", "10.0.0.1")]).unwrap();
        assert_eq!(
            plan.replicas[0].argv.join(" "),
            "paddle train --config=trainer_config.py --dot_period=10"
        );
    }

    #[test]
    fn a_trainer_of_a_staged_job_is_told_where_its_data_is_and_a_server_is_not() {
        let mut submission =
            submission(JobSpec { pservers: 1, staged: true, ..JobSpec::default() });
        submission.spec.program.clear();
        submission.spec.topology = "conf.py".into();
        submission.secrets.insert("stage".into(), Secret::new("{}"));
        let plan = plan(&submission, vec![node("a", "10.0.0.1")]).unwrap();
        let told = |index: usize| {
            let start = plan.start(&plan.replicas[index], 0, false, &BTreeMap::new()).unwrap();
            (start.argv[1].clone(), start.env.get(STAGE).cloned())
        };
        assert_eq!(told(0), ("pserver".into(), None));
        assert_eq!(told(1), ("cluster_node".into(), Some("{}".into())));
    }

    #[test]
    fn servers_at_one_address_have_ports_one_after_another() {
        let ports = Ports { first: 7164, dense: 2, sparse: 1 };
        assert_eq!(shifted(ports, 0).unwrap(), ports);
        assert_eq!(shifted(ports, 2).unwrap().first, 7170);
        assert_eq!(shifted(Ports { first: 0, ..ports }, 7).unwrap().first, 0);
        assert!(shifted(ports, 30_000).is_err() && shifted(ports, u32::MAX).is_err());
    }
}
