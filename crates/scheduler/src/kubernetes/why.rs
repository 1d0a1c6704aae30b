//! Why a job waits, for people: numbers where there are any, else the cluster's own words. Pure.

use super::state::{Seen, is_going, millis, name_of, unmade, unscheduled};
use crate::record::ReplicaRecord;
use crate::replica::ReplicaId;
use contract::job::JobSpec;
use contract::quantity::Quantity;
use contract::role::Role;
use contract::state::ReplicaState;
use serde_json::Value;

/// What the first replica says of which there is anything to say. Without a gang some pods may have a
/// node, and too little is left for the others.
pub(super) fn why_starting(spec: &JobSpec, replicas: &[ReplicaRecord], seen: &Seen) -> String {
    let told = replicas.iter().find_map(|own| Some((own.replica, own.message.as_ref()?)));
    let told = told.map(|(replica, message)| format!("{replica}: {message}"));
    let is_waiting = replicas.iter().any(|own| own.state == ReplicaState::Pending);
    let said = told.as_deref().unwrap_or_default();
    let mut reasons = Vec::from_iter(held(seen));
    reasons.extend(if is_waiting { shortages(spec, seen, said) } else { Vec::new() });
    reasons.extend(told);
    reasons.join("; ")
}

/// What is asked for beside what there is, and what the cluster says.
pub(super) fn why_pending(spec: &JobSpec, seen: &Seen) -> String {
    let said = gang(&seen.group);
    let mut reasons = Vec::from_iter(held(seen));
    reasons.extend(shortages(spec, seen, said.unwrap_or_default()));
    reasons.extend(said.map(str::to_owned));
    // A pod that could not even be made, for a quota of the namespace.
    let status = &seen.job["status"]["state"];
    reasons.extend(status["message"].as_str().filter(|text| !text.is_empty()).map(str::to_owned));
    let makers = Role::ALL.map(|role| ReplicaId::new(role, 0));
    reasons.extend(makers.iter().find_map(|first| unmade(seen, *first)));
    // Volcano may not have looked at the job as a whole since, or has said the same of it.
    let of_pod = seen.pods.iter().find_map(unscheduled);
    reasons.extend(of_pod.filter(|words| !said.unwrap_or_default().contains(words)));
    if reasons.is_empty() {
        reasons.push(match seen.group["status"]["phase"].as_str() {
            Some("Pending") => format!("waiting for a place in the queue {}", queue(&seen.job)),
            _ => "waiting for the scheduler".to_owned(),
        });
    }
    reasons.join("; ")
}

/// A pod that has to go before another takes its name, and is on a node of which nobody hears whether
/// its program has ended.
fn held(seen: &Seen) -> Option<String> {
    let silent = |node: &&Value| {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "Unknown")
    };
    let silent: Vec<&str> = seen.nodes.iter().filter(silent).map(name_of).collect();
    let node = |pod: &Value| silent.iter().find(|node| pod["spec"]["nodeName"] == **node).copied();
    let (pod, node) =
        seen.pods.iter().filter(|pod| is_going(pod)).find_map(|pod| Some((pod, node(pod)?)))?;
    let pod = name_of(pod);
    Some(format!(
        "the pod {pod} cannot be removed while its node {node} does not answer: bring the node back, or \
         take it out of the cluster (kubectl delete node {node})"
    ))
}

/// The queue of a Volcano job.
pub(super) fn queue(job: &Value) -> &str {
    job["spec"]["queue"].as_str().unwrap_or("default")
}

/// What Volcano says of why the pods of a job have no nodes. It says the same of a job whose pods are
/// still to be made, or have just ended: then nothing of it is of use.
fn gang(group: &Value) -> Option<&str> {
    let conditions = group["status"]["conditions"].as_array()?.iter();
    let standing = conditions.filter(|one| one["status"] == "True");
    let newest = standing.max_by_key(|one| millis(&one["lastTransitionTime"]))?;
    let said = newest["message"].as_str().filter(|_| newest["type"] == "Unschedulable")?;
    let is_of_use = !said.contains("tasks in gang") || said.contains("Origin reason");
    is_of_use.then_some(said)
}

/// Resources of which the whole job asks for more than its queue may have or all nodes have together,
/// or than other jobs leave, and those of which the scheduler says that there are too few.
fn shortages(spec: &JobSpec, seen: &Seen, said: &str) -> Vec<String> {
    let mut all = Vec::new();
    let nodes: Vec<&Value> = seen.nodes.iter().filter(|node| is_usable(node)).collect();
    for name in ["cpu", "memory", "nvidia.com/gpu"] {
        let Some(asked) = asked(spec, name) else { continue };
        all.extend(queue_shortage(&seen.queue, name, asked));
        if nodes.is_empty() {
            continue;
        }
        let there = nodes.iter().try_fold(Quantity::ZERO, |sum, node| {
            let amount = node["status"]["allocatable"][name].as_str().unwrap_or("0");
            sum.checked_add(amount.parse().ok()?)
        });
        let used = seen.neighbours.iter().flat_map(|pod| requests(pod, name));
        let used = used.fold(Quantity::ZERO, |sum, own| sum.checked_add(own).unwrap_or(sum));
        let Some(there) = there else { continue };
        let count = nodes.len();
        if asked > there {
            all.push(format!("the job asks for {name} {asked}, and {count} nodes have {there}"));
        } else if asked.checked_add(used).is_none_or(|both| both > there) {
            let have =
                format!("{count} nodes have {there}, of which {used} are in use by other jobs");
            all.push(format!("the job asks for {name} {asked}, and {have}"));
        } else if said.contains(&format!("Insufficient {name}")) {
            let have = format!("{count} nodes have {there}, of which too little is free");
            all.push(format!("the job asks for {name} {asked}, and {have}"));
        }
    }
    all
}

/// What the replicas of a job that have to start together ask for; `None` if that is no number.
fn asked(spec: &JobSpec, name: &str) -> Option<Quantity> {
    Role::ALL.iter().try_fold(Quantity::ZERO, |sum, role| {
        let resources = spec.resources.of(*role);
        let one = match name {
            "cpu" => resources.cpu,
            "memory" => resources.memory,
            _ => Some(resources.gpu),
        };
        // An elastic job starts with fewer trainers.
        let count = match (role, spec.fault_tolerance) {
            (Role::Trainer, Some(tolerance)) => tolerance.min_trainers,
            _ => spec.replicas(*role),
        };
        let own = one.unwrap_or(Quantity::ZERO).checked_mul(count.into())?;
        sum.checked_add(own)
    })
}

/// What a queue may have too little of, where it has a limit.
fn queue_shortage(queue: &Value, name: &str, asked: Quantity) -> Option<String> {
    let amount = |value: &Value| value[name].as_str()?.parse::<Quantity>().ok();
    let most = amount(&queue["spec"]["capability"])?;
    let used = amount(&queue["status"]["allocated"]).unwrap_or(Quantity::ZERO);
    let queue = queue["metadata"]["name"].as_str().unwrap_or_default();
    let told = format!("the job asks for {name} {asked}, and the queue {queue} may have {most}");
    match asked.checked_add(used) {
        _ if asked > most => Some(told),
        Some(both) if both <= most => None,
        _ => Some(format!("{told}, of which {used} are in use")),
    }
}

/// Whether pods are put on a node: it is ready, and nobody has closed it.
fn is_usable(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.find(|one| one["type"] == "Ready");
    node["spec"]["unschedulable"] != true && is_ready.is_none_or(|one| one["status"] == "True")
}

/// What the containers of a pod have asked for.
fn requests(pod: &Value, name: &str) -> Vec<Quantity> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let asked = containers.filter_map(|one| one["resources"]["requests"][name].as_str());
    asked.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    /// A job of so many trainers, each with so many processors.
    fn job(trainers: u32, cpu: u32) -> JobSpec {
        let mut spec = JobSpec { trainers, ..JobSpec::default() };
        spec.resources.trainer.cpu = Some(Quantity::whole(cpu));
        spec
    }

    fn group(conditions: &[(&str, &str, &str)]) -> Value {
        let condition = |(kind, since, message): &(&str, &str, &str)| {
            let since = format!("2026-01-01T10:00:{since}Z");
            json!({"type": kind, "status": "True", "lastTransitionTime": since, "message": message})
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        json!({"status": {"phase": "Inqueue", "conditions": conditions}})
    }

    const NO_PODS: &str = "1/0 tasks in gang unschedulable: pod group is not ready, 1 minAvailable";
    const FULL: &str = "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 \
                        minAvailable; Pending: 2 Unschedulable. Origin reason is job-1-trainer-0: \
                        0/3 nodes are unavailable: 3 Insufficient cpu.";

    #[test]
    fn what_does_not_fit_is_told_in_numbers() {
        let mut spec = job(3, 4);
        spec.pservers = 2;
        spec.resources.pserver.cpu = Some(Quantity::whole(1));
        let node = json!({"status": {"allocatable": {"cpu": "2", "memory": "8Gi"}}});
        let seen = Seen {
            group: group(&[("Unschedulable", "01", FULL)]),
            nodes: vec![node.clone(), node],
            ..Seen::default()
        };
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "3"}}}]}});
        let closed =
            json!({"spec": {"unschedulable": true}, "status": {"allocatable": {"cpu": "64"}}});
        let nodes = seen.nodes.iter().cloned().chain([closed]).collect();
        let busy = Seen { nodes, neighbours: vec![pod], ..Seen::default() };
        insta::assert_snapshot!(why_pending(&job(1, 2), &busy), @"the job asks for cpu 2, and 2 nodes have 4, of which 3 are in use by other jobs");
        insta::assert_snapshot!(why_pending(&spec, &seen), @"the job asks for cpu 14, and 2 nodes have 4; 2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. Origin reason is job-1-trainer-0: 0/3 nodes are unavailable: 3 Insufficient cpu.");
        // Without a gang, the servers of such a job are placed, and the trainers are not.
        let name = |role| ReplicaId::new(role, 0);
        let own = |role| ReplicaRecord::pending(name(role), String::new(), PathBuf::new());
        let placed = ReplicaRecord { state: ReplicaState::Running, ..own(Role::Pserver) };
        let why = |trainer| why_starting(&spec, &[placed.clone(), trainer], &seen);
        insta::assert_snapshot!(why(own(Role::Trainer)), @"the job asks for cpu 14, and 2 nodes have 4");
        let starting = ReplicaRecord { state: ReplicaState::Starting, ..own(Role::Trainer) };
        assert_eq!(why(starting), "");
    }

    #[test]
    fn a_queue_that_may_not_have_as_much_is_named() {
        let queue = json!({
            "metadata": {"name": "small"},
            "spec": {"capability": {"cpu": "4"}},
            "status": {"allocated": {"cpu": "3", "memory": "0"}},
        });
        let seen = Seen { queue, ..Seen::default() };
        insta::assert_snapshot!(why_pending(&job(2, 4), &seen), @"the job asks for cpu 8, and the queue small may have 4");
        insta::assert_snapshot!(why_pending(&job(1, 2), &seen), @"the job asks for cpu 2, and the queue small may have 4, of which 3 are in use");
        insta::assert_snapshot!(why_pending(&job(1, 1), &seen), @"waiting for the scheduler");
    }

    #[test]
    fn volcanos_words_count_while_they_say_something() {
        let waits = |conditions: &[(&str, &str, &str)]| {
            let seen = Seen { group: group(conditions), ..Seen::default() };
            why_pending(&job(1, 1), &seen)
        };
        assert_eq!(waits(&[("Unschedulable", "01", NO_PODS)]), "waiting for the scheduler");
        assert_eq!(waits(&[("Unschedulable", "01", FULL)]), FULL);
        let past = [("Unschedulable", "01", FULL), ("Scheduled", "02", "")];
        assert_eq!(waits(&past), "waiting for the scheduler");
        let other = "queue resource quota insufficient";
        assert_eq!(waits(&[("Unschedulable", "01", other)]), other);
        let outside = Seen {
            group: json!({"status": {"phase": "Pending"}}),
            job: json!({"spec": {"queue": "small"}}),
            ..Seen::default()
        };
        let expected = "waiting for a place in the queue small";
        assert_eq!(why_pending(&job(1, 1), &outside), expected);
    }

    #[test]
    fn a_pod_that_is_held_by_a_lost_node_is_named() {
        let node = |name: &str, ready: &str| {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            json!({"metadata": {"name": name}, "status": {"conditions": conditions}})
        };
        let pod = |node: &str, ending: Value| {
            let metadata = json!({"name": format!("on-{node}"), "deletionTimestamp": ending});
            json!({"metadata": metadata, "spec": {"nodeName": node}})
        };
        let ending = json!("2026-01-01T00:00:00Z");
        let check = |pods: Vec<Value>, expected: &str| {
            let nodes = vec![node("a", "True"), node("b", "Unknown")];
            let seen = Seen { nodes, pods, ..Seen::default() };
            let why = why_pending(&JobSpec::default(), &seen);
            assert!(why.starts_with(expected), "{why}");
        };
        let held = "the pod on-b cannot be removed while its node b does not answer";
        check(vec![pod("a", ending.clone()), pod("b", ending.clone())], held);
        check(vec![pod("a", ending), pod("b", Value::Null)], "waiting for the scheduler");
    }

    /// The pods of a job are there, and Volcano has only spoken of the time before.
    #[test]
    fn a_pod_without_a_node_says_why() {
        let missing = "0/3 nodes are unavailable: 3 looking up PVC default/none: \
                       persistentvolumeclaim \"none\" not found.";
        let pod = json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": missing},
        ]}});
        let before = [("Unschedulable", "01", NO_PODS), ("Scheduled", "01", "")];
        let seen = Seen { group: group(&before), pods: vec![pod.clone()], ..Seen::default() };
        assert_eq!(why_pending(&job(1, 1), &seen), missing);
        let whole =
            format!("1/1 tasks in gang unschedulable. Origin reason is trainer-0: {missing}");
        let group = group(&[("Unschedulable", "01", &whole)]);
        let seen = Seen { group, pods: vec![pod], ..Seen::default() };
        assert_eq!(why_pending(&job(1, 1), &seen), whole);
    }
}
