//! What the ranks of one `mpirun` run together, and the command line of an `mpirun`. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use contract::Result;
use contract::env::Environment;
use contract::job::JobSpec;
use contract::port::{Endpoint, Ports};
use contract::role::Role;
use contract::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::ReplicaId;
use crate::conductor::plan::{HostPlan, JobPlan, Policy, ReplicaPlan};
use crate::server::{self, RESTORE, Server, shifted};

/// A rank as it introduces itself to rank 0. Machines may differ, so each says its own paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The name of its machine.
    pub machine: String,
    /// Its number among the ranks on that machine.
    pub local_rank: u32,
    /// How others reach it. Empty until rank 0 has seen its connection, unless it listens on one
    /// interface only.
    pub address: String,
    /// The program `paddle`.
    pub paddle: String,
    /// The command of its trainer.
    pub program: Vec<String>,
    /// Where the trainer runs.
    pub workspace: PathBuf,
    /// Where logs go.
    pub log_dir: PathBuf,
}

/// What is the same for all ranks.
#[derive(Debug)]
pub struct Job<'a> {
    /// What was asked for; the numbers of replicas follow from the ranks.
    pub spec: &'a JobSpec,
    /// The ports of the first server of a machine.
    pub ports: Ports,
    /// The interface that servers listen on; empty for all.
    pub nic: &'a str,
    /// The secret, for the replicas of rank 0 alone: other ranks know it and add it themselves,
    /// because what they are told can be read on its way.
    pub token: &'a Secret,
    /// Where servers keep checkpoints: a directory that all machines share.
    pub checkpoint_dir: Option<&'a str>,
    /// Whether servers begin with the newest checkpoint.
    pub restore: bool,
    /// What is done about failures and ends.
    pub policy: Policy,
}

/// The text by which people find the servers of such jobs.
const COMMENT: &str = "paddle_cluster_pserver";

/// One server and one trainer for each rank.
pub fn plan(job: &Job<'_>, members: &[Member]) -> Result<JobPlan> {
    let endpoints = match job.ports.first {
        0 => Vec::new(),
        _ => members.iter().map(|member| endpoint(job, member)).collect::<Result<_>>()?,
    };
    let mut replicas = Vec::new();
    for role in [Role::Pserver, Role::Trainer] {
        for rank in (0..).take(members.len()) {
            replicas.push(replica(job, members, ReplicaId::new(role, rank), &endpoints)?);
        }
    }
    let hosts = members.iter().enumerate().map(|(rank, member)| HostPlan {
        name: format!("{} (rank {rank})", member.machine),
        address: member.address.clone(),
        directory: directory(member, rank),
    });
    let plan = JobPlan {
        job: job.spec.name.clone(),
        hosts: hosts.collect(),
        replicas,
        policy: job.policy,
    };
    Ok(plan)
}

/// A rank's own directory, which its supervisor locks.
pub fn directory(member: &Member, rank: usize) -> PathBuf {
    member.log_dir.join(format!(".rank-{rank}"))
}

fn ports(job: &Job<'_>, member: &Member) -> Result<Ports> {
    shifted(job.ports, member.local_rank).map_err(|error| error.with("machine", &member.machine))
}

fn endpoint(job: &Job<'_>, member: &Member) -> Result<Endpoint> {
    Endpoint::new(&member.address, ports(job, member)?.first)
}

fn replica(
    job: &Job<'_>,
    members: &[Member],
    id: ReplicaId,
    endpoints: &[Endpoint],
) -> Result<ReplicaPlan> {
    let member = &members[id.rank as usize];
    let own_dir = member.log_dir.join(id.to_string());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let is_trainer = id.role == Role::Trainer;
    let trainer_hosts = members.iter().map(|member| member.address.parse());
    let environment = Environment {
        package: text(&member.workspace),
        address: member.address.clone(),
        log_dir: text(&own_dir),
        output_dir: text(&member.workspace.join("output")),
        checkpoint_dir: job.checkpoint_dir.unwrap_or_default().to_owned(),
        trainers: count,
        pservers: count,
        pserver_endpoints: endpoints.to_vec(),
        trainer_hosts: trainer_hosts.collect::<Result<_>>()?,
        ports: if is_trainer { job.ports } else { ports(job, member)? },
        is_local: false,
        token: (id.rank == 0).then(|| job.token.clone()),
        ..Environment::of(job.spec, id.role, id.rank)
    };
    let keeps_checkpoints = !is_trainer && job.checkpoint_dir.is_some();
    Ok(ReplicaPlan {
        id,
        host: id.rank as usize,
        argv: if is_trainer { member.program.clone() } else { pserver(job, members, id.rank) },
        again: server::again(keeps_checkpoints, job.restore),
        environment,
        extra: job.spec.env.clone(),
        directory: member.workspace.clone(),
        log: member.log_dir.join(format!("{id}.log")),
        metrics: is_trainer.then(|| own_dir.join("metrics.jsonl")),
    })
}

fn pserver(job: &Job<'_>, members: &[Member], rank: u32) -> Vec<String> {
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let server = Server {
        paddle: &members[rank as usize].paddle,
        nic: job.nic,
        ports: job.ports,
        place: (rank, count),
        trainers: count,
        comment: COMMENT,
    };
    let mut argv = server.argv();
    argv.extend(job.restore.then(|| RESTORE.to_owned()));
    argv
}

/// An `mpirun` that starts the ranks.
#[derive(Debug, Default)]
pub struct Mpirun {
    /// How many ranks.
    pub ranks: u32,
    /// The list of machines, if there is one.
    pub hostfile: Option<PathBuf>,
    /// More arguments for `mpirun`.
    pub arguments: Vec<String>,
    /// Whether the user is root and has not told Open MPI that this is meant.
    pub is_root: bool,
    /// The variables to export to all ranks, by name: their values are in the environment alone.
    pub exported: Vec<String>,
    /// What each rank runs: `paddle launch --mpi …`.
    pub command: Vec<String>,
}

impl Mpirun {
    /// The command line.
    pub fn argv(&self) -> Vec<String> {
        let mut argv = vec!["mpirun".to_owned()];
        if let Some(hostfile) = &self.hostfile {
            argv.extend(["-hostfile".to_owned(), hostfile.to_string_lossy().into_owned()]);
        }
        argv.extend(["-n".to_owned(), self.ranks.to_string()]);
        if self.is_root {
            argv.push("--allow-run-as-root".to_owned());
        }
        for name in &self.exported {
            argv.extend(["-x".to_owned(), name.clone()]);
        }
        argv.extend_from_slice(&self.arguments);
        argv.extend_from_slice(&self.command);
        argv
    }
}

/// A shell that runs the rest of its arguments with standard error going to its first, and passes
/// SIGTERM on as SIGUSR1. `mpirun` gives that to all ranks at once, while at SIGTERM it waits a
/// second, and kills them a second later: too little for a trainer that saves its model.
pub const SHELL: [&str; 3] = [
    "sh",
    "-c",
    r#"setsid "$@" 2> "$0" & pid=$!
trap 'kill -USR1 $pid' TERM
wait $pid; code=$?
while kill -0 $pid 2> /dev/null; do wait $pid; code=$?; done
exit $code"#,
];

/// Variables that rank 0 leaves out of what it tells another rank, to be added there.
pub(super) fn complete(env: &mut BTreeMap<String, String>, token: &Secret) {
    env.insert("PADDLE_JOB_TOKEN".to_owned(), token.expose().to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(machine: &str, local_rank: u32) -> Member {
        Member {
            machine: machine.into(),
            local_rank,
            address: if machine == "a" { "10.0.0.1" } else { "10.0.0.2" }.into(),
            paddle: "/opt/bin/paddle".into(),
            program: vec!["python".into(), "train.py".into()],
            workspace: "/home/tutorial".into(),
            log_dir: "/home/tutorial/log".into(),
        }
    }

    #[test]
    fn ranks_that_share_a_machine_have_ports_of_their_own() {
        let spec = JobSpec { name: "word2vec".into(), ..JobSpec::default() };
        let token = Secret::new("sesame");
        let job = Job {
            spec: &spec,
            ports: Ports::default(),
            nic: "",
            token: &token,
            checkpoint_dir: None,
            restore: false,
            policy: Policy::default(),
        };
        let plan = plan(&job, &[member("a", 0), member("a", 1), member("b", 0)]).unwrap();
        let mut text = String::new();
        for replica in &plan.replicas {
            let start = plan.start(replica, 0, &BTreeMap::new()).unwrap();
            text.push_str(&format!(
                "{} on {}, log {}\n  {}\n  {}\n",
                replica.id,
                plan.hosts[replica.host].name,
                start.log.display(),
                start.argv.join(" "),
                start.env["PADDLE_INIT_PSERVERS"],
            ));
        }
        insta::assert_snapshot!(text);
        // What goes over the network has no token.
        let has_token = |replica: &ReplicaPlan| {
            let start = plan.start(replica, 0, &BTreeMap::new()).unwrap();
            start.env.contains_key("PADDLE_JOB_TOKEN")
        };
        assert!(plan.replicas.iter().all(|replica| has_token(replica) == (replica.host == 0)));
    }

    #[test]
    fn mpirun_is_told_names_of_variables_only() {
        let mpirun = Mpirun {
            ranks: 3,
            hostfile: Some("machines".into()),
            arguments: vec!["--map-by".into(), "node".into()],
            is_root: true,
            exported: vec!["PADDLE_JOB_TOKEN".into()],
            command: ["paddle", "launch", "--mpi", "--", "python", "train.py"]
                .map(str::to_owned)
                .to_vec(),
        };
        insta::assert_snapshot!(mpirun.argv().join(" "), @"mpirun -hostfile machines -n 3 --allow-run-as-root -x PADDLE_JOB_TOKEN --map-by node paddle launch --mpi -- python train.py");
        let smallest = Mpirun { ranks: 2, command: vec!["paddle".into()], ..Mpirun::default() };
        insta::assert_snapshot!(smallest.argv().join(" "), @"mpirun -n 2 paddle");
    }
}
