//! `queues:` of a datacenter: named places that a job can be sent to, each with its rules.

use super::{BackendKind, DatacenterConfig};
use contract::api::cluster::{NodeKind, Queue, clock};
use contract::job::{JobSpec, Priority, Resources};
use contract::name::check_queue;
use contract::quantity::Quantity;
use contract::{Error, Kind, Result};
use scheduler::ssh::host::Host;
use serde::Deserialize;

/// One queue.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// Its name, as `--where` and `-queue` take it.
    pub name: String,
    /// The longest time limit of a job in it; jobs must have one then. Absent for none.
    pub time_limit_seconds_max: Option<u64>,
    /// The most trainers of a job.
    pub nodes_max: Option<u32>,
    /// What a node of it is.
    pub node: NodeConfig,
    /// The priorities that jobs may have there; empty for all.
    pub priorities: Vec<Priority>,
    /// Its machines instead of those of the datacenter; with `backend: ssh`.
    pub hosts: Vec<Host>,
    /// Its machines instead of those of the datacenter; with `backend: mpi`.
    pub hostfile: String,
    /// The partition instead of the datacenter's; with `backend: slurm`.
    pub partition: String,
    /// How many processes `mpirun` starts, instead of those of the datacenter; with `backend: mpi`.
    pub ranks: Option<u32>,
}

/// What a node of a queue is. A training of `paddle cluster_train` gets all of it: a part for its
/// parameter server, the rest for its trainer. Other jobs say themselves what they need.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// `cpu` or `gpu`: what trainings compute on there.
    pub kind: NodeKind,
    /// Its cores.
    pub cpu: Option<Quantity>,
    /// Its memory.
    pub memory: Option<Quantity>,
    /// Devices of a trainer on them.
    pub gpu: Option<Quantity>,
    /// The part of the cores for the parameter server; absent for a core, or a quarter of fewer
    /// than four.
    pub pserver_cpu: Option<Quantity>,
    /// The part of the memory for the parameter server; absent for a quarter.
    pub pserver_memory: Option<Quantity>,
}

/// Memory of a trainer, and of a parameter server, where their queue does not say: people cannot
/// ask for more.
const MEMORY: Quantity = Quantity::from_milli((2 << 30) * 1000);

impl NodeConfig {
    /// What the trainer and the parameter server of a training get.
    pub(crate) fn shares(&self) -> (Resources, Resources) {
        let rest = |all: Quantity, part: Option<Quantity>| {
            let part = part.map_or(0, Quantity::cores_milli);
            Quantity::from_milli(all.cores_milli().saturating_sub(part))
        };
        let quarter = |all: Quantity| Quantity::from_milli(all.cores_milli() / 4);
        let server = Resources {
            cpu: self.pserver_cpu.or(self.cpu.map(|all| quarter(all).min(Quantity::whole(1)))),
            memory: self.pserver_memory.or(self.memory.map(quarter)),
            ..Resources::default()
        };
        let trainer = Resources {
            cpu: self.cpu.map(|all| rest(all, server.cpu)),
            memory: Some(self.memory.map_or(MEMORY, |all| rest(all, server.memory))),
            ..Resources::default()
        };
        (trainer, Resources { memory: server.memory.or(Some(MEMORY)), ..server })
    }
}

impl QueueConfig {
    /// What people are shown.
    pub(crate) fn shown(&self) -> Queue {
        Queue {
            name: self.name.clone(),
            time_limit_seconds_max: self.time_limit_seconds_max,
            nodes_max: self.nodes_max,
            kind: self.node.kind,
            priorities: self.priorities.clone(),
        }
    }

    /// Refuses what a queue of this datacenter cannot be.
    pub(super) fn check(&self, datacenter: &DatacenterConfig) -> Result<()> {
        let refuse = |field: &str, why: &str| {
            Err(Error::invalid(format!("queues.{field}: {why}"))
                .with("queue", &self.name)
                .with("datacenter", &datacenter.name))
        };
        check_queue(&self.name)?;
        if self.time_limit_seconds_max == Some(0) {
            return refuse("time_limit_seconds_max", "use at least 1, or leave it out");
        }
        if self.nodes_max == Some(0) {
            return refuse("nodes_max", "use at least 1, or leave it out");
        }
        if self.node.kind == NodeKind::Cpu && self.node.gpu.is_some() {
            return refuse("node.gpu", "a node of kind cpu has no devices");
        }
        let NodeConfig { cpu, memory, pserver_cpu, pserver_memory, .. } = &self.node;
        for (field, part, all) in [
            ("node.pserver_cpu", pserver_cpu, cpu),
            ("node.pserver_memory", pserver_memory, memory),
        ] {
            if *part == Some(Quantity::ZERO) {
                return refuse(field, "use more than 0, or leave it out");
            }
            if part.is_some_and(|part| all.is_some_and(|all| part >= all)) {
                return refuse(
                    field,
                    "it is a part of what the node has: leave some to the trainer",
                );
            }
        }
        if !self.hosts.is_empty() && datacenter.backend != BackendKind::Ssh {
            return refuse("hosts", "only backend ssh has hosts");
        }
        if !self.hostfile.is_empty() && datacenter.backend != BackendKind::Mpi {
            return refuse("hostfile", "only backend mpi has a hostfile");
        }
        if !self.partition.is_empty() && datacenter.backend != BackendKind::Slurm {
            return refuse("partition", "only backend slurm has partitions");
        }
        match self.ranks {
            Some(0) => refuse("ranks", "use at least 1, or leave it out"),
            Some(_) if datacenter.backend != BackendKind::Mpi => {
                refuse("ranks", "only backend mpi has ranks")
            }
            _ => Ok(()),
        }
    }

    /// Refuses a job that breaks its rules, with both numbers.
    pub(crate) fn admit(&self, spec: &JobSpec) -> Result<()> {
        let refuse =
            |kind, message: String| Err(Error::new(kind, message).with("queue", &self.name));
        match (self.time_limit_seconds_max, spec.time_limit_seconds) {
            (Some(most), None) => {
                let message = format!(
                    "jobs in this queue have a time limit of at most {} ({most} seconds), and this \
                     one has none: give it one (time_limit)",
                    clock(most)
                );
                return refuse(Kind::Invalid, message);
            }
            (Some(most), Some(limit)) if limit > most => {
                let message = format!(
                    "jobs in this queue have a time limit of at most {} ({most} seconds), and this \
                     one asks for {} ({limit} seconds)",
                    clock(most),
                    clock(limit)
                );
                return refuse(Kind::Invalid, message);
            }
            _ => {}
        }
        if let Some(most) = self.nodes_max
            && spec.trainers_max() > most
        {
            let asked = spec.trainers_max();
            let message = format!(
                "jobs in this queue have at most {most} trainers, and this one asks for {asked}"
            );
            return refuse(Kind::Invalid, message);
        }
        if !self.priorities.is_empty() && !self.priorities.contains(&spec.priority) {
            let known: Vec<String> = self.priorities.iter().map(Priority::to_string).collect();
            let message = format!(
                "jobs in this queue have the priority {}, and this one asks for {}",
                known.join(" or "),
                spec.priority
            );
            return refuse(Kind::Invalid, message);
        }
        if self.node.kind == NodeKind::Cpu && spec.uses_gpu() {
            let message = "the nodes of this queue have no devices: leave use_gpu out, or use \
                           another queue";
            return refuse(Kind::Invalid, message.to_owned());
        }
        Ok(())
    }
}

impl DatacenterConfig {
    /// Its queue of this name.
    pub(crate) fn queue(&self, name: &str) -> Option<&QueueConfig> {
        self.queues.iter().find(|queue| queue.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(queue: &str, spec: &JobSpec) -> String {
        let queue: QueueConfig = serde_yaml_ng::from_str(queue).unwrap();
        queue.admit(spec).unwrap_err().to_string()
    }

    #[test]
    fn what_breaks_the_rules_of_a_queue_is_refused_with_both_numbers() {
        let spec = JobSpec { trainers: 24, time_limit_seconds: Some(3600), ..JobSpec::default() };
        insta::assert_snapshot!(
            refusal("{name: fcr, time_limit_seconds_max: 1800}", &spec),
            @"jobs in this queue have a time limit of at most 00:30:00 (1800 seconds), and this one asks for 01:00:00 (3600 seconds) (queue: fcr)"
        );
        let endless = JobSpec { time_limit_seconds: None, ..spec.clone() };
        insta::assert_snapshot!(
            refusal("{name: fcr, time_limit_seconds_max: 1800}", &endless),
            @"jobs in this queue have a time limit of at most 00:30:00 (1800 seconds), and this one has none: give it one (time_limit) (queue: fcr)"
        );
        insta::assert_snapshot!(
            refusal("{name: fcr, nodes_max: 8}", &spec),
            @"jobs in this queue have at most 8 trainers, and this one asks for 24 (queue: fcr)"
        );
        insta::assert_snapshot!(
            refusal("{name: slow, priorities: [low, normal]}", &JobSpec { priority: Priority::High, ..spec.clone() }),
            @"jobs in this queue have the priority low or normal, and this one asks for high (queue: slow)"
        );
        let mut gpu = spec;
        gpu.resources.trainer = Resources { gpu: Quantity::whole(1), ..Resources::default() };
        insta::assert_snapshot!(
            refusal("{name: cpu, node: {kind: cpu}}", &gpu),
            @"the nodes of this queue have no devices: leave use_gpu out, or use another queue (queue: cpu)"
        );
    }

    #[test]
    fn a_trainer_and_its_server_share_their_node() {
        let check = |node: &str, trainer: (&str, &str), server: (&str, &str)| {
            let node: NodeConfig = serde_yaml_ng::from_str(node).unwrap();
            let shown = |own: Resources| {
                let text = |amount: Option<Quantity>| {
                    amount.map_or_else(String::new, |amount| amount.to_string())
                };
                (text(own.cpu), text(own.memory))
            };
            let (own, other) = node.shares();
            let owned = |(cpu, memory): (&str, &str)| (cpu.to_owned(), memory.to_owned());
            assert_eq!((shown(own), shown(other)), (owned(trainer), owned(server)));
        };
        check("{cpu: 16, memory: 60Gi}", ("15", "45Gi"), ("1", "15Gi"));
        check("{cpu: 2}", ("1500m", "2Gi"), ("500m", "2Gi"));
        check("{}", ("", "2Gi"), ("", "2Gi"));
        check("{pserver_memory: 8Gi}", ("", "2Gi"), ("", "8Gi"));
        let both = "{cpu: 16, memory: 60Gi, pserver_cpu: 4, pserver_memory: 30Gi}";
        check(both, ("12", "30Gi"), ("4", "30Gi"));
    }

    #[test]
    fn a_queue_has_only_what_its_backend_has() {
        let error = |yaml: &str| {
            let config: DatacenterConfig = serde_yaml_ng::from_str(yaml).unwrap();
            config.queues[0].check(&config).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            error("{name: dc, queues: [{name: a, hostfile: node1}]}"),
            @"queues.hostfile: only backend mpi has a hostfile (queue: a, datacenter: dc)"
        );
        insta::assert_snapshot!(
            error("{name: dc, queues: [{name: a, hosts: [me@here]}]}"),
            @"queues.hosts: only backend ssh has hosts (queue: a, datacenter: dc)"
        );
        insta::assert_snapshot!(
            error("{name: dc, queues: [{name: a, partition: p}]}"),
            @"queues.partition: only backend slurm has partitions (queue: a, datacenter: dc)"
        );
        insta::assert_snapshot!(
            error("{name: dc, queues: [{name: a, node: {memory: 4Gi, pserver_memory: 4Gi}}]}"),
            @"queues.node.pserver_memory: it is a part of what the node has: leave some to the trainer (queue: a, datacenter: dc)"
        );
    }
}
