//! A submission as a Volcano job: which pods start together, and what follows when one ends. Pure.
//!
//! Pods of a role are a task. An elastic job has its first trainer, without which nothing goes on, in
//! a task of its own: when that has finished the job is complete, when it fails the job fails, and of
//! the others some may come and go.

use super::peers::label;
use super::plan::{check, labels, name, pod};
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Submission};
use contract::Result;
use contract::job::{FaultTolerance, JobSpec, Priority};
use contract::role::Role;
use serde_json::{Value, json};

/// A variable of the pods for their own command line: how often Volcano has restarted the job.
const ROUND: &str = "VC_JOB_ROUND";
/// The task with all trainers of an elastic job but the first.
const MORE: &str = "more";

/// The Volcano job.
pub(super) fn job(submission: &Submission, place: &KubernetesPlace) -> Result<Value> {
    check(submission, place)?;
    let spec = &submission.spec;
    let tasks = tasks(spec);
    let least: u32 = tasks.iter().map(|task| task.least).sum();
    let tasks: Vec<Value> =
        tasks.into_iter().map(|task| task.render(submission, place)).collect::<Result<_>>()?;
    let mut job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name(&submission.id).as_str(), "labels": labels(submission)},
        "spec": {
            "minAvailable": least,
            "schedulerName": "volcano",
            "queue": if spec.queue.is_empty() { "default" } else { &spec.queue },
            // The job fails when it reaches this number, before it is started again.
            "maxRetry": spec.restarts.saturating_add(1),
            "plugins": {"svc": ["--publish-not-ready-addresses=true"]},
            "tasks": tasks,
        },
    });
    if spec.fault_tolerance.is_none() {
        // A pod's number in its task is its rank.
        job["spec"]["plugins"]["env"] = json!([]);
    }
    if let Some(class) = priority_class(spec.priority) {
        job["spec"]["priorityClassName"] = json!(class);
    }
    Ok(job)
}

/// The name of a replica's pod.
pub(super) fn pod_name(submission: &Submission, id: ReplicaId) -> String {
    let job = name(&submission.id);
    let is_elastic = submission.spec.fault_tolerance.is_some();
    match (id.role, id.rank) {
        (Role::Trainer, 1..) if is_elastic => format!("{job}-{MORE}-{}", id.rank - 1),
        (role, rank) => job.replica(role, rank),
    }
}

/// How many trainers a Volcano job has, if it is there.
pub(super) fn trainers(job: &Value) -> Option<u32> {
    let own = [Role::Trainer.to_string(), MORE.to_owned()];
    let tasks = job["spec"]["tasks"].as_array()?.iter();
    let tasks = tasks.filter(|task| own.iter().any(|name| task["name"] == name.as_str()));
    let count = tasks.filter_map(|task| task["replicas"].as_u64()).sum::<u64>();
    u32::try_from(count).ok()
}

/// What changes of an elastic job that is to have another number of trainers. Lists are replaced as a
/// whole; of a task nothing but the number of its replicas can change.
pub(super) fn resize(job: &Value, trainers: u32) -> Value {
    let mut tasks = job["spec"]["tasks"].clone();
    for task in tasks.as_array_mut().into_iter().flatten().filter(|task| task["name"] == MORE) {
        task["replicas"] = json!(trainers.saturating_sub(1));
    }
    json!({"spec": {"tasks": tasks}})
}

/// Pods that are alike.
struct Task {
    name: String,
    role: Role,
    replicas: u32,
    /// How many of them have to fit before any starts.
    least: u32,
    policies: Value,
}

fn tasks(spec: &JobSpec) -> Vec<Task> {
    let mut tasks = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| spec.replicas(*role) > 0) {
        let (name, replicas) = (role.to_string(), spec.replicas(role));
        let policies = match role {
            // Its program was started again in its pod as often as was asked for. The pod stays,
            // with its exit code and its log.
            Role::Trainer => json!([
                {"event": "TaskCompleted", "action": "CompleteJob"},
                {"event": "PodFailed", "action": "TerminateJob"},
                {"event": "PodEvicted", "action": again(spec)},
            ]),
            Role::Pserver | Role::Master => {
                let lost = json!({"events": ["PodFailed", "PodEvicted"], "action": again(spec)});
                // The first that fits counts. With 2 it was asked for something that is not there,
                // such as a checkpoint: started again it would begin with whatever there is.
                let hopeless = json!({"exitCode": 2, "action": "TerminateJob"});
                if spec.restarts > 0 { json!([hopeless, lost]) } else { json!([lost]) }
            }
        };
        tasks.push(Task { name, role, replicas, least: replicas, policies });
    }
    if let (Some(FaultTolerance { min_trainers, .. }), Some(first)) =
        (spec.fault_tolerance, tasks.iter_mut().find(|task| task.role == Role::Trainer))
    {
        (first.replicas, first.least) = (1, 1);
        // Without a policy a pod that is lost is made again, and one that has failed stays so.
        tasks.push(Task {
            name: MORE.to_owned(),
            role: Role::Trainer,
            replicas: spec.trainers - 1,
            least: min_trainers.saturating_sub(1),
            policies: json!([]),
        });
    }
    tasks
}

impl Task {
    fn render(self, submission: &Submission, place: &KubernetesPlace) -> Result<Value> {
        let mut labels = labels(submission);
        labels[label(self.role)] = json!(name(&submission.id).as_str());
        let mut pod = pod(submission, place, self.role)?;
        // Volcano keeps that of the job to itself.
        if let Some(class) = priority_class(submission.spec.priority) {
            pod["priorityClassName"] = json!(class);
        }
        count_rounds(&mut pod["containers"][0]);
        Ok(json!({
            "name": self.name,
            "replicas": self.replicas,
            "minAvailable": self.least,
            "policies": self.policies,
            "template": {
                "metadata": {"labels": labels},
                "spec": pod,
            },
        }))
    }
}

/// Tells a container how often Volcano has started the job before.
fn count_rounds(container: &mut Value) {
    let path = "metadata.annotations['volcano.sh/job-retry-count']";
    let variable = json!({"name": ROUND, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    if let Some(variables) = container["env"].as_array_mut() {
        variables.push(variable);
    }
    if let Some(words) = container["command"].as_array_mut() {
        words.insert(1, json!(format!("--round=$({ROUND})")));
    }
}

/// What follows the loss of a pod, or of a server: all start again from the newest checkpoint that
/// all servers have.
fn again(spec: &JobSpec) -> &'static str {
    if spec.restarts > 0 { "RestartJob" } else { "TerminateJob" }
}

pub(super) fn priority_class(priority: Priority) -> Option<&'static str> {
    match priority {
        Priority::Low => Some("paddle-low"),
        Priority::Normal => None,
        Priority::High => Some("paddle-high"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::{Package, sample};

    fn elastic() -> Submission {
        let spec = JobSpec {
            trainers: 3,
            pservers: 2,
            master: true,
            image: "paddlecloud/paddle:v1".into(),
            fault_tolerance: Some(FaultTolerance { min_trainers: 2, max_trainers: 5 }),
            ..JobSpec::default()
        };
        Submission { package: Package::Present("/workspace".into()), ..sample(spec) }
    }

    #[test]
    fn the_first_trainer_of_an_elastic_job_decides() {
        let submission = elastic();
        let job = job(&submission, &KubernetesPlace::default()).unwrap();
        let text = |task: &Value| {
            let part = |name: &str| task[name].to_string();
            ["name", "replicas", "minAvailable"].map(part).join(" ")
        };
        let tasks = job["spec"]["tasks"].as_array().unwrap();
        let shown: Vec<String> = tasks.iter().map(text).collect();
        let expected = ["\"master\" 1 1", "\"pserver\" 2 2", "\"trainer\" 1 1", "\"more\" 2 1"];
        assert_eq!(shown, expected);
        assert_eq!(tasks[3]["policies"], json!([]));
        assert!(job["spec"]["plugins"]["env"].is_null(), "its number is not its rank");
        assert_eq!(job["spec"]["minAvailable"], 5);
        assert_eq!(trainers(&job), Some(3));
        let name = |rank| pod_name(&submission, ReplicaId::new(Role::Trainer, rank));
        assert_eq!((name(0), name(1)), ("job-1-trainer-0".into(), "job-1-more-0".into()));
    }

    #[test]
    fn the_manifest_of_an_elastic_job_has_more_trainers_in_a_task_of_their_own() {
        let job = job(&elastic(), &KubernetesPlace::default()).unwrap();
        insta::assert_snapshot!(serde_yaml_ng::to_string(&job).unwrap());
    }

    #[test]
    fn scaling_changes_one_number() {
        let before = job(&elastic(), &KubernetesPlace::default()).unwrap();
        let mut after = before.clone();
        after["spec"]["tasks"] = resize(&before, 5)["spec"]["tasks"].clone();
        assert_eq!(trainers(&after), Some(5));
        after["spec"]["tasks"][3]["replicas"] = json!(2);
        assert_eq!(before, after);
    }
}
