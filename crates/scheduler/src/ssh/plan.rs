//! What runs where on a cluster of ssh hosts: one parameter server and one trainer per host, as the
//! original's launcher did. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use contract::env::Environment;
use contract::job::JobSpec;
use contract::port::{Endpoint, Ports};
use contract::role::Role;
use contract::secret::Secret;
use contract::{Error, Result};

use super::conf::Conf;
use super::node::LOG_DIR;
use crate::ReplicaId;
use crate::conductor::plan::{HostPlan, JobPlan, Policy, ReplicaPlan};
use crate::server::{self, RESTORE, Server, shifted};

/// By this text the processes of a job are found among others, as people are used to.
const COMMENT: &str = "paddle_process_by_paddle";
/// Where trainer 0 saves the model, in the job's directory.
pub const OUTPUT_DIR: &str = "output";

/// A job for ssh hosts, with everything that had to be asked of them.
#[derive(Debug)]
pub struct Job<'a> {
    /// What was asked for; the numbers of replicas follow from the hosts.
    pub spec: &'a JobSpec,
    /// Machines and ports.
    pub conf: &'a Conf,
    /// What was found out about each host, in the same order.
    pub nodes: &'a [Node],
    /// How a trainer is started.
    pub trainer: &'a Trainer,
    /// The command `paddle` on the hosts.
    pub paddle: &'a str,
    /// The secret by which the replicas know each other.
    pub token: &'a Secret,
    /// Where servers keep checkpoints: a directory that all hosts share.
    pub checkpoint_dir: Option<&'a str>,
    /// Whether servers begin with the newest checkpoint.
    pub restore: bool,
    /// What is done about failures and ends.
    pub policy: Policy,
}

/// A host as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// How other hosts reach it.
    pub address: String,
    /// The job's directory there.
    pub directory: PathBuf,
    /// Where it looks for commands.
    pub search_path: String,
}

/// How a trainer is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trainer {
    /// By a command of the user's.
    Program(Vec<String>),
    /// By `paddle train`, with these flags.
    Configuration(Vec<String>),
}

/// The whole job.
pub fn plan(job: &Job<'_>) -> Result<JobPlan> {
    check_addresses(job)?;
    let ports = node_ports(job)?;
    let endpoints = endpoints(job, &ports)?;
    let hosts = job.conf.hosts.iter().zip(job.nodes).map(|(host, node)| HostPlan {
        name: host.to_string(),
        address: node.address.clone(),
        directory: node.directory.clone(),
    });
    let mut replicas = Vec::new();
    for (rank, ports) in (0..).zip(&ports) {
        let id = ReplicaId::new(Role::Pserver, rank);
        replicas.push(replica(job, id, *ports, &endpoints)?);
    }
    for rank in (0..).take(job.nodes.len()) {
        let id = ReplicaId::new(Role::Trainer, rank);
        replicas.push(replica(job, id, job.conf.ports, &endpoints)?);
    }
    let plan = JobPlan {
        job: job.spec.name.clone(),
        hosts: hosts.collect(),
        replicas,
        policy: job.policy,
    };
    Ok(plan)
}

/// Loopback addresses mean another machine on every machine.
fn check_addresses(job: &Job<'_>) -> Result<()> {
    let is_loopback = |address: &str| {
        address == "localhost" || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    };
    let loopbacks = job.nodes.iter().filter(|node| is_loopback(&node.address)).count();
    let found = job.conf.hosts.iter().zip(job.nodes).find(|(_, node)| is_loopback(&node.address));
    match found {
        Some((host, node)) if loopbacks < job.nodes.len() => {
            let message = "the other hosts cannot reach this one: name it by an address that they \
                           know";
            Err(Error::invalid(message).with("host", host).with("address", &node.address))
        }
        _ => Ok(()),
    }
}

/// The ports of each server: those of the configuration, further up for each server that shares an
/// address with earlier ones.
fn node_ports(job: &Job<'_>) -> Result<Vec<Ports>> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut all = Vec::new();
    for Node { address, .. } in job.nodes {
        let before = seen.entry(address).or_default();
        let ports = shifted(job.conf.ports, *before);
        all.push(ports.map_err(|error| error.with("host", address))?);
        *before += 1;
    }
    Ok(all)
}

/// Where the servers will be; empty if the system chooses their ports. A port that is everybody's
/// is left out, as in the documents.
fn endpoints(job: &Job<'_>, ports: &[Ports]) -> Result<Vec<Endpoint>> {
    let is_everybodys = ports.iter().all(|ports| *ports == job.conf.ports);
    let endpoint = |(node, ports): (&Node, &Ports)| {
        let endpoint = Endpoint::new(&node.address, ports.first)?;
        Ok(if is_everybodys { endpoint.without_port() } else { endpoint })
    };
    match job.conf.ports.first {
        0 => Ok(Vec::new()),
        _ => job.nodes.iter().zip(ports).map(endpoint).collect(),
    }
}

fn replica(
    job: &Job<'_>,
    id: ReplicaId,
    ports: Ports,
    endpoints: &[Endpoint],
) -> Result<ReplicaPlan> {
    let node = &job.nodes[id.rank as usize];
    let path = |name: &str| node.directory.join(name).to_string_lossy().into_owned();
    let count = u32::try_from(job.nodes.len()).unwrap_or(u32::MAX);
    let hosts = job.nodes.iter().map(|node| node.address.parse());
    let of_spec = Environment::of(job.spec, id.role, id.rank);
    let environment = Environment {
        package: node.directory.to_string_lossy().into_owned(),
        use_gpu: job.conf.use_gpu.unwrap_or(of_spec.use_gpu),
        address: node.address.clone(),
        log_dir: path(LOG_DIR),
        output_dir: path(OUTPUT_DIR),
        checkpoint_dir: job.checkpoint_dir.unwrap_or_default().to_owned(),
        trainers: count,
        pservers: count,
        pserver_endpoints: endpoints.to_vec(),
        trainer_hosts: hosts.collect::<Result<_>>()?,
        ports,
        is_local: false,
        token: Some(job.token.clone()),
        ..of_spec
    };
    let mut extra = job.spec.env.clone();
    if !job.conf.ld_library_path.is_empty() {
        let value = job.conf.ld_library_path.clone();
        extra.entry("LD_LIBRARY_PATH".to_owned()).or_insert(value);
    }
    if let Some((folder, _)) = job.paddle.rsplit_once('/') {
        // What is installed beside a paddle that is not in PATH, its python above all, is meant.
        let path = format!("{folder}:{}", node.search_path);
        extra.entry("PATH".to_owned()).or_insert(path);
    }
    let is_trainer = id.role == Role::Trainer;
    let keeps_checkpoints = !is_trainer && job.checkpoint_dir.is_some();
    Ok(ReplicaPlan {
        id,
        host: id.rank as usize,
        argv: if is_trainer { trainer(job, id.rank, endpoints) } else { pserver(job, id.rank) },
        again: server::again(keeps_checkpoints, job.restore),
        environment,
        extra,
        directory: node.directory.clone(),
        log: Path::new(LOG_DIR).join(if is_trainer { "train.log" } else { "server.log" }),
        metrics: is_trainer.then(|| Path::new(LOG_DIR).join("metrics.jsonl")),
    })
}

fn pserver(job: &Job<'_>, rank: u32) -> Vec<String> {
    let count = u32::try_from(job.nodes.len()).unwrap_or(u32::MAX);
    let server = Server {
        paddle: job.paddle,
        nic: &job.conf.nic,
        ports: job.conf.ports,
        place: (rank, count),
        trainers: count,
        comment: COMMENT,
    };
    let mut argv = server.argv();
    argv.extend(job.restore.then(|| RESTORE.to_owned()));
    argv
}

fn trainer(job: &Job<'_>, rank: u32, endpoints: &[Endpoint]) -> Vec<String> {
    let flags = match job.trainer {
        Trainer::Program(argv) => return argv.clone(),
        Trainer::Configuration(flags) => flags,
    };
    let Ports { first, dense, sparse } = job.conf.ports;
    let mut argv = vec![
        job.paddle.to_owned(),
        "train".to_owned(),
        format!("--num_gradient_servers={}", job.nodes.len()),
        format!("--nics={}", job.conf.nic),
        format!("--port={first}"),
        format!("--ports_num={dense}"),
        format!("--ports_num_for_sparse={sparse}"),
        format!("--comment={COMMENT}"),
    ];
    argv.extend(flags.iter().cloned());
    if !endpoints.is_empty() {
        argv.push(format!("--pservers={}", contract::port::render_endpoints(endpoints)));
    }
    argv.push(format!("--trainer_id={rank}"));
    argv
}

#[cfg(test)]
mod tests {
    use super::super::host::parse_hosts;
    use super::*;

    fn node(address: &str) -> Node {
        Node {
            address: address.into(),
            directory: "/home/paddle/JOB20261116040000".into(),
            search_path: "/usr/bin:/bin".into(),
        }
    }

    fn show(conf: &Conf, nodes: &[Node], trainer: &Trainer) -> Result<String> {
        let spec = JobSpec { name: "ctr".into(), passes: 10, ..JobSpec::default() };
        let token = Secret::new("sesame");
        let plan = plan(&Job {
            spec: &spec,
            conf,
            nodes,
            trainer,
            paddle: "paddle",
            token: &token,
            checkpoint_dir: None,
            restore: false,
            policy: Policy::default(),
        })?;
        let mut text = String::new();
        for replica in &plan.replicas {
            let start = plan.start(replica, 0, &BTreeMap::new())?;
            let host = &plan.hosts[replica.host];
            text.push_str(&format!(
                "{} on {} in {} to {}\n  {}\n  PADDLE_INIT_PORT={} PADDLE_INIT_PSERVERS={} LD_LIBRARY_PATH={}\n",
                replica.id,
                host.name,
                start.directory.display(),
                start.log.display(),
                start.argv.join(" "),
                start.env["PADDLE_INIT_PORT"],
                start.env.get("PADDLE_INIT_PSERVERS").map_or("", String::as_str),
                start.env.get("LD_LIBRARY_PATH").map_or("", String::as_str),
            ));
        }
        Ok(text)
    }

    #[test]
    fn every_host_gets_a_server_and_a_trainer_as_in_the_original() {
        let conf = Conf {
            nic: "eth0".into(),
            ports: Ports { first: 7164, dense: 2, sparse: 2 },
            ld_library_path: "/usr/local/cuda/lib64".into(),
            ..Conf::of(parse_hosts(["root@192.168.100.17", "root@192.168.100.18:9090"]).unwrap())
        };
        let flags = ["--dot_period=10", "--config=trainer_config.py", "--show_layer_stat"];
        let trainer = Trainer::Configuration(flags.map(str::to_owned).to_vec());
        let nodes = [node("192.168.100.17"), node("192.168.100.18")];
        insta::assert_snapshot!(show(&conf, &nodes, &trainer).unwrap());
    }

    #[test]
    fn hosts_that_share_an_address_have_ports_of_their_own() {
        let conf = Conf::of(parse_hosts(["a:2201", "b:2202", "c"]).unwrap());
        let nodes = [node("127.0.0.1"), node("127.0.0.2"), node("127.0.0.1")];
        let trainer = Trainer::Program(vec!["python".into(), "train.py".into()]);
        insta::assert_snapshot!(show(&conf, &nodes, &trainer).unwrap());
    }

    #[test]
    fn everything_a_trainer_is_told_is_in_its_environment() {
        let conf = Conf { use_gpu: Some(true), ..Conf::of(parse_hosts(["a", "b"]).unwrap()) };
        let spec = JobSpec { name: "ctr".into(), user: "ann".into(), ..JobSpec::default() };
        let plan = plan(&Job {
            spec: &spec,
            conf: &conf,
            nodes: &[node("10.0.0.1"), node("10.0.0.2")],
            trainer: &Trainer::Program(vec!["true".into()]),
            paddle: "/opt/venv/bin/paddle",
            token: &Secret::new("sesame"),
            checkpoint_dir: Some("/shared/checkpoint"),
            restore: false,
            policy: Policy::default(),
        })
        .unwrap();
        let start = plan.start(&plan.replicas[3], 0, &BTreeMap::new()).unwrap();
        insta::assert_json_snapshot!(start.env);
        let again = plan.start(&plan.replicas[0], 1, &BTreeMap::new()).unwrap();
        assert_eq!(again.argv.last().unwrap(), "--restore=common");
    }

    #[test]
    fn a_host_that_the_others_cannot_reach_is_refused() {
        let conf = Conf::of(parse_hosts(["localhost", "b"]).unwrap());
        let trainer = Trainer::Program(vec!["true".into()]);
        let error = show(&conf, &[node("127.0.0.1"), node("10.0.0.2")], &trainer).unwrap_err();
        insta::assert_snapshot!(error, @"the other hosts cannot reach this one: name it by an address that they know (host: localhost, address: 127.0.0.1)");
        show(&conf, &[node("127.0.0.1"), node("127.0.0.2")], &trainer).unwrap();
    }
}
