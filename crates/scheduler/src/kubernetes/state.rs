//! What the cluster says about a job, in our words. Pure: objects in, a record out.

use super::plan::{self, CONTAINER};
use super::why::{why_pending, why_starting};
use super::{plain, volcano};
use crate::record::{Ending, JobRecord, ReplicaRecord, Verdict};
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Submission};
use crate::supervisor::limits::too_much;
use contract::exit;
use contract::quantity::Quantity;
use contract::role::Role;
use contract::state::{JobState, ReplicaState, State};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that the cluster knows of one job. Objects are as the API server sends them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The Secret.
    pub(super) secret: Value,
    /// The Volcano job; null before it is made, and after it was deleted.
    pub(super) job: Value,
    /// The Job of the trainers, for a job without Volcano; else null.
    pub(super) trainers: Value,
    /// Its PodGroup, in which Volcano says why it waits.
    pub(super) group: Value,
    /// Its queue of Volcano, where that may be looked at.
    pub(super) queue: Value,
    /// Its pods.
    pub(super) pods: Vec<Value>,
    /// The nodes of the cluster, where they may be looked at.
    pub(super) nodes: Vec<Value>,
    /// The newest warning about each pod, and about what makes the pods, by the object's name.
    pub(super) warnings: BTreeMap<String, Value>,
    /// All pods of other jobs of ours that are on nodes, for a job that waits.
    pub(super) neighbours: Vec<Value>,
}

/// On the Secret: the end of the job that was decided here, an [`Ending`] as JSON.
pub(super) const ENDING: &str = "paddlecloud/ending";

/// What is said of a replica whose time was over.
const TIME_OVER: &str = "ended after its time limit";

/// Volcano's word for the phase of a job, in ours. `Running` is refined by the pods.
const PHASES: [(&str, JobState); 10] = [
    ("Pending", JobState::Pending),
    ("Running", JobState::Running),
    ("Restarting", JobState::Starting),
    ("Completing", JobState::Running),
    ("Completed", JobState::Succeeded),
    ("Aborting", JobState::Running),
    ("Aborted", JobState::Failed),
    ("Terminating", JobState::Running),
    ("Terminated", JobState::Failed),
    ("Failed", JobState::Failed),
];

/// The record of a job.
pub(super) fn record(submission: &Submission, place: &KubernetesPlace, seen: &Seen) -> JobRecord {
    let made = millis(&seen.secret["metadata"]["creationTimestamp"]).unwrap_or(0);
    let mut notes = plan::notes(submission, place);
    if !seen.trainers.is_null() {
        notes.extend(plain::notes(submission));
    }
    let mut record = JobRecord {
        rounds: number(&seen.job["status"]["retryCount"]),
        notes,
        trainers: trainers(submission, seen),
        replicas: replicas(submission, seen),
        ..JobRecord::new(submission, made)
    };
    record.revision = revision(seen);
    // From here on the cluster looks after it, also while it waits.
    let is_made = !seen.job.is_null() || !seen.trainers.is_null();
    record.conductors = u32::from(is_made);
    let ending = seen.secret["metadata"]["annotations"][ENDING].as_str();
    record.ending = ending.and_then(|text| serde_json::from_str(text).ok());
    match record.ending.clone() {
        Some(ending) if seen.job.is_null() && plain::is_at_rest(seen) => ended(&mut record, ending),
        Some(ending) if ending.verdict.state == JobState::Succeeded => {
            record.state = JobState::Running;
        }
        Some(_) => record.state = JobState::Killing,
        None if !is_made => {
            "waiting for the cluster to make the job's pods".clone_into(&mut record.reason);
        }
        None => phase(&mut record, submission, seen),
    }
    if record.state.is_final() {
        for replica in record.replicas.iter_mut().filter(|own| !own.state.is_final()) {
            replica.state = ReplicaState::Killed;
        }
        let last = record.replicas.iter().filter_map(|replica| replica.ended_ms).max();
        let since = millis(&seen.job["status"]["state"]["lastTransitionTime"]);
        record.ended_ms = record.ended_ms.or(since).or(last).or(Some(made));
        record.changed_ms = record.ended_ms.unwrap_or(made);
    }
    record
}

fn ended(record: &mut JobRecord, Ending { verdict, since_ms, .. }: Ending) {
    record.state = verdict.state;
    record.exit_code = Some(verdict.exit_code);
    record.reason = verdict.reason;
    record.culprit = verdict.culprit;
    record.ended_ms = Some(since_ms);
}

/// The end of a job that somebody asked for.
pub(super) fn killed() -> Verdict {
    let reason = exit::reason(KILLED_CODE);
    Verdict { state: JobState::Killed, exit_code: KILLED_CODE, reason, culprit: None }
}

/// 128 + SIGTERM.
const KILLED_CODE: i32 = 143;

fn phase(record: &mut JobRecord, submission: &Submission, seen: &Seen) {
    let status = &seen.job["status"]["state"];
    let word = status["phase"].as_str().unwrap_or("Pending");
    let known = PHASES.iter().find(|(known, _)| *known == word);
    record.state = known.map_or(JobState::Pending, |(_, state)| *state);
    if !seen.trainers.is_null() && record.replicas.iter().all(is_up) {
        record.state = JobState::Running;
    }
    let is_placed = |own: &ReplicaRecord| own.state != ReplicaState::Pending;
    match record.state {
        // To Volcano a job waits until all its pods run.
        JobState::Pending if record.replicas.iter().any(is_placed) => {
            record.state = JobState::Starting;
            record.reason = why_starting(&submission.spec, &record.replicas, seen);
        }
        JobState::Pending => record.reason = why_pending(&submission.spec, seen),
        JobState::Running if !record.replicas.iter().all(is_up) => {
            record.state = JobState::Starting;
            record.reason = why_starting(&submission.spec, &record.replicas, seen);
        }
        JobState::Succeeded => {
            record.exit_code = Some(0);
            "all trainers finished".clone_into(&mut record.reason);
        }
        JobState::Failed => verdict(record, status),
        _ => {}
    }
}

fn is_up(own: &ReplicaRecord) -> bool {
    own.state != ReplicaState::Pending && own.state != ReplicaState::Starting
}

/// Whose failure ended the job: the pod that failed first and was kept.
fn verdict(record: &mut JobRecord, status: &Value) {
    let first = first_failed(&record.replicas).cloned();
    record.exit_code = Some(first.as_ref().and_then(|own| own.exit_code).unwrap_or(1));
    record.culprit = first.as_ref().map(|own| own.replica);
    record.reason = match first {
        Some(own) => {
            let mut reason = format!("{} failed: {}", own.replica, own.reason());
            // Then it may only be what followed.
            let gone = record.replicas.iter().find(|other| other.state == ReplicaState::Pending);
            if let (Some(gone), Some(KILLED_CODE)) = (gone, own.exit_code) {
                let why =
                    "its node was drained or lost, somebody deleted it, or it was ended for this";
                reason = format!("{reason}; the pod of {} is gone: {why}", gone.replica);
            }
            reason
        }
        None => {
            let message = status["message"].as_str().filter(|text| !text.is_empty());
            let gone = match record.rounds {
                // Of pods that have failed at least one would be there.
                0 => "a pod was removed before the job was over: its node was drained or lost, or \
                      somebody deleted it"
                    .to_owned(),
                rounds => {
                    format!("the job failed again after {rounds} restarts, and its pods are gone")
                }
            };
            [Some(gone.as_str()), message].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
    };
}

/// The replica that failed first. One whose time was over counts before all others, which are ended for
/// it, often in the same second.
pub(super) fn first_failed(replicas: &[ReplicaRecord]) -> Option<&ReplicaRecord> {
    let is_late = |own: &ReplicaRecord| {
        own.message.as_ref().is_some_and(|message| message.starts_with(TIME_OVER))
    };
    let failed = replicas.iter().filter(|own| own.state == ReplicaState::Failed);
    failed.min_by_key(|own| (!is_late(own), own.ended_ms))
}

/// How many trainers are wanted now.
fn trainers(submission: &Submission, seen: &Seen) -> u32 {
    volcano::trainers(&seen.job).unwrap_or(submission.spec.trainers)
}

fn replicas(submission: &Submission, seen: &Seen) -> Vec<ReplicaRecord> {
    let round = number(&seen.job["status"]["retryCount"]);
    let count = |role: Role| match role {
        Role::Trainer => trainers(submission, seen),
        role => submission.spec.replicas(role),
    };
    let of_role = |role: Role| (0..count(role)).map(move |rank| ReplicaId::new(role, rank));
    let all = Role::ALL.into_iter().flat_map(of_role);
    all.map(|id| {
        let pod = volcano::pod_name(submission, id);
        let found = pod_of(seen, &pod);
        // People find its output by this name: `kubectl logs NAME`.
        let log = PathBuf::from(&pod);
        let record = ReplicaRecord::pending(id, pod, log);
        let record = ReplicaRecord { attempt: round, ..record };
        let Some(pod) = found else { return ReplicaRecord { message: unmade(seen, id), ..record } };
        let mut record = replica(record, pod);
        let is_on_its_way = matches!(record.state, ReplicaState::Pending | ReplicaState::Starting);
        if is_on_its_way && record.message.is_none() {
            record.message = pod_warning(seen, pod).or_else(|| unscheduled(pod));
        }
        record
    })
    .collect()
}

/// The pod of a replica. Those of an Indexed Job have names by chance, and a host name by their rank.
pub(super) fn pod_of<'a>(seen: &'a Seen, name: &str) -> Option<&'a Value> {
    let is_it = |own: &&Value| own["metadata"]["name"] == name || own["spec"]["hostname"] == name;
    seen.pods.iter().find(is_it)
}

/// Whether an object was deleted, and only waits for what belongs to it.
pub(super) fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Reasons why a pod has no node: nothing of them counts once it has one.
const UNPLACED: [&str; 2] = ["FailedScheduling", "Unschedulable"];
/// The steps of a pod to its first container: a node, then volumes and an address.
const STEPS: [&str; 2] = ["PodScheduled", "PodReadyToStartContainers"];

/// What the cluster warns of a pod. What was wrong before its last step is not any more: a pod that
/// had to wait for room may well fetch its image for a long time.
fn pod_warning(seen: &Seen, pod: &Value) -> Option<String> {
    let event = seen.warnings.get(name_of(pod))?;
    let is_placed = pod["spec"]["nodeName"].is_string();
    if is_placed && UNPLACED.iter().any(|reason| event["reason"] == *reason) {
        return None;
    }
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let steps = conditions
        .filter(|one| one["status"] == "True" && STEPS.iter().any(|step| one["type"] == *step));
    let last_step = steps.filter_map(|one| millis(&one["lastTransitionTime"])).max();
    let times =
        [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
    let said = times.into_iter().find_map(millis);
    let is_past = matches!((said, last_step), (Some(said), Some(step)) if said <= step);
    if is_past { None } else { warning(seen, name_of(pod)) }
}

/// What the cluster warns of, such as a volume that cannot be mounted.
fn warning(seen: &Seen, about: &str) -> Option<String> {
    let event = seen.warnings.get(about)?;
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    Some(format!("{}: {}", text("reason"), said(text("message"))))
}

/// Why the pod of a replica cannot be made, such as a quota of the namespace.
pub(super) fn unmade(seen: &Seen, id: ReplicaId) -> Option<String> {
    let job = name_of(&seen.secret);
    let maker = plain::controller(job, id.role);
    warning(seen, if seen.trainers.is_null() { job } else { &maker })
}

/// The words of an error that Volcano prints as the structure it has in Go.
fn said(message: &str) -> String {
    const BEGIN: &str = "Message:\"";
    let Some((_, rest)) = message.split_once(BEGIN) else { return message.to_owned() };
    let mut is_escaped = false;
    let is_end = |letter: char| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    };
    let end = rest.find(is_end).unwrap_or(rest.len());
    rest[..end].replace("\\\"", "\"")
}

/// Why a pod has no node yet, in the words of the scheduler.
pub(super) fn unscheduled(pod: &Value) -> Option<String> {
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let told = conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    told["message"].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn replica(mut record: ReplicaRecord, pod: &Value) -> ReplicaRecord {
    let status = &pod["status"];
    record.state = match status["phase"].as_str().unwrap_or_default() {
        "Running" => ReplicaState::Running,
        "Succeeded" => ReplicaState::Succeeded,
        "Failed" => ReplicaState::Failed,
        _ if pod["spec"]["nodeName"].is_string() => ReplicaState::Starting,
        _ => ReplicaState::Pending,
    };
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        record.host = node.to_owned();
    }
    record.started_ms = millis(&status["startTime"]);
    let container = container(pod);
    let mut ended = &container["state"]["terminated"];
    // A server of a StatefulSet that has ended is started again: not as the one it was.
    let is_endless = pod["spec"]["restartPolicy"] == "Always";
    if is_endless && container["restartCount"].as_u64().is_some_and(|count| count > 0) {
        ended = &container["lastState"]["terminated"];
    }
    // One that ends with 0 has seen all trainers leave.
    let has_failed = ended["exitCode"].as_i64().is_some_and(|code| code != 0);
    if is_endless && has_failed && !is_going(pod) {
        record.state = ReplicaState::Failed;
    }
    if let Some(code) = ended["exitCode"].as_i64() {
        record.exit_code = i32::try_from(code).ok();
        record.ended_ms = millis(&ended["finishedAt"]);
        record.message = ended["message"].as_str().map(str::to_owned);
        if ended["reason"] == "OOMKilled" {
            record.message = Some(too_much_memory(pod));
        }
    }
    // An eviction, or the end of its time.
    if let (Some(reason), "Failed") = (status["reason"].as_str(), phase_of(pod)) {
        let message = status["message"].as_str().unwrap_or_default();
        record.message = Some(format!("{reason}: {message}"));
    }
    if let (Some(seconds), true) =
        (pod["spec"]["activeDeadlineSeconds"].as_u64(), status["reason"] == "DeadlineExceeded")
    {
        record.exit_code = Some(1);
        record.message = Some(format!("{TIME_OVER} of {seconds} s (time_limit_seconds)"));
    }
    let waiting = &container["state"]["waiting"];
    if let Some(reason) = waiting["reason"].as_str().filter(|word| *word != "ContainerCreating") {
        let message = waiting["message"].as_str().unwrap_or_default();
        record.message = Some(format!("{reason}: {message}"));
    }
    record
}

fn too_much_memory(pod: &Value) -> String {
    let limit = pod["spec"]["containers"][0]["resources"]["limits"]["memory"].as_str();
    match limit.and_then(|text| text.parse::<Quantity>().ok()) {
        Some(limit) => too_much(limit.bytes(), None),
        None => "killed: its node has no memory left: ask for more memory".to_owned(),
    }
}

/// The state of our container in a pod.
pub(super) fn container(pod: &Value) -> Value {
    let all = pod["status"]["containerStatuses"].as_array();
    let own = all.and_then(|all| all.iter().find(|one| one["name"] == CONTAINER));
    own.cloned().unwrap_or_default()
}

/// Whether everything in a pod has ended.
pub(super) fn is_over(pod: &Value) -> bool {
    matches!(phase_of(pod), "Succeeded" | "Failed")
}

pub(super) fn phase_of(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// Grows with every change: versions of objects count all writes of the cluster.
fn revision(seen: &Seen) -> u64 {
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok())
    };
    let objects = [&seen.secret, &seen.job, &seen.trainers, &seen.group];
    let objects = objects.into_iter().chain(&seen.pods);
    objects.filter_map(version).max().unwrap_or(0)
}

pub(super) fn millis(time: &Value) -> Option<u64> {
    let moment: Timestamp = time.as_str()?.parse().ok()?;
    u64::try_from(moment.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::sample;
    use contract::job::JobSpec;
    use serde_json::json;

    fn check(seen: &Seen, expected: (JobState, Option<i32>, &str)) {
        let spec = JobSpec { trainers: 1, pservers: 1, ..JobSpec::default() };
        let record = record(&sample(spec), &KubernetesPlace::default(), seen);
        let (state, code, words) = expected;
        assert_eq!((record.state, record.exit_code), (state, code), "{record:#?}");
        assert!(record.reason.contains(words), "{}", record.reason);
    }

    fn job(phase: &str) -> Value {
        json!({"status": {"state": {"phase": phase}}})
    }

    fn pod(name: &str, phase: &str, state: &Value) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "node1"},
            "status": {"phase": phase, "containerStatuses": [{"name": CONTAINER, "state": state}]},
        })
    }

    #[test]
    fn every_phase_of_volcano_has_a_state() {
        for (word, state) in PHASES {
            let state = if word == "Pending" { JobState::Starting } else { state };
            let pods = vec![
                pod("job-1-pserver-0", "Running", &json!({})),
                pod("job-1-trainer-0", "Running", &json!({})),
            ];
            let code = match state {
                JobState::Succeeded => Some(0),
                JobState::Failed => Some(1),
                _ => None,
            };
            check(&Seen { job: job(word), pods, ..Seen::default() }, (state, code, ""));
        }
    }

    #[test]
    fn a_failure_names_the_replica_and_has_its_exit_code() {
        let ended = json!({"terminated": {"exitCode": 42, "message": "exit code 42: it failed"}});
        let pods = vec![pod("job-1-trainer-0", "Failed", &ended)];
        let expected = (JobState::Failed, Some(42), "trainer-0 failed: exit code 42");
        check(&Seen { job: job("Terminated"), pods, ..Seen::default() }, expected);
    }

    /// All that is left of it may be what followed.
    #[test]
    fn a_pod_that_was_removed_is_named() {
        let ended =
            json!({"terminated": {"exitCode": 143, "message": "exit code 143: terminated"}});
        let pods = vec![pod("job-1-trainer-0", "Failed", &ended)];
        let seen = |pods| Seen { job: job("Terminated"), pods, ..Seen::default() };
        let told = "terminated; the pod of pserver-0 is gone: its node was drained or lost";
        check(&seen(pods), (JobState::Failed, Some(143), told));
        let told = "a pod was removed before the job was over: its node was drained";
        check(&seen(Vec::new()), (JobState::Failed, Some(1), told));
    }

    /// Volcano ends the servers in the same second.
    #[test]
    fn the_time_limit_is_the_reason_and_not_what_it_ends() {
        let at = "2026-01-01T10:00:00Z";
        let ended = |code: i32| json!({"terminated": {"exitCode": code, "finishedAt": at}});
        let mut late = pod("job-1-trainer-0", "Failed", &ended(143));
        late["spec"]["activeDeadlineSeconds"] = json!(4);
        late["status"]["reason"] = json!("DeadlineExceeded");
        let pods = vec![pod("job-1-pserver-0", "Failed", &ended(143)), late];
        let expected = (JobState::Failed, Some(1), "trainer-0 failed: ended after its time limit");
        check(&Seen { job: job("Terminated"), pods, ..Seen::default() }, expected);
    }

    #[test]
    fn a_pod_that_cannot_start_says_why() {
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
        let pods = vec![
            pod("job-1-trainer-0", "Pending", &waiting),
            pod("job-1-pserver-0", "Running", &json!({})),
        ];
        let expected = (JobState::Starting, None, "trainer-0: ErrImagePull: no such image");
        check(&Seen { job: job("Running"), pods, ..Seen::default() }, expected);
    }

    #[test]
    fn what_a_pod_was_warned_of_before_its_last_step_is_past() {
        let check = |reason: &str, said: &str, expected: Option<&str>| {
            let mut fetching = pod(
                "job-1-trainer-0",
                "Pending",
                &json!({"waiting": {"reason": "ContainerCreating"}}),
            );
            fetching["status"]["conditions"] = json!([
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z"},
                {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": "2026-01-01T10:00:09Z"},
            ]);
            let event = json!({"reason": reason, "message": "no", "lastTimestamp": said});
            let up = pod("job-1-pserver-0", "Running", &json!({}));
            let seen = Seen {
                job: job("Running"),
                pods: vec![fetching, up],
                warnings: BTreeMap::from([("job-1-trainer-0".to_owned(), event)]),
                ..Seen::default()
            };
            let submission = sample(JobSpec { trainers: 1, pservers: 1, ..JobSpec::default() });
            let record = record(&submission, &KubernetesPlace::default(), &seen);
            let stuck = super::super::verdict::stuck(&submission, &record);
            assert_eq!(stuck.as_deref(), expected, "{reason}: {record:#?}");
        };
        check("FailedScheduling", "2026-01-01T10:00:30Z", None);
        check("FailedMount", "2026-01-01T10:00:05Z", None);
        check("FailedMount", "2026-01-01T10:02:00Z", Some("trainer-0"));
    }

    #[test]
    fn a_pod_that_cannot_be_made_says_why() {
        let volcano = "Error creating pods: [failed to create pod job-1-trainer-0, err: \
                       &errors.StatusError{ErrStatus:v1.Status{Status:\"Failure\", Message:\"pods \
                       \\\"job-1-trainer-0\\\" is forbidden: exceeded quota: small\", Code:403}}]";
        let warned = |maker: &str, message: &str| {
            let event = json!({"reason": "FailedCreate", "message": message});
            BTreeMap::from([(maker.to_owned(), event)])
        };
        let secret = json!({"metadata": {"name": "job-1"}});
        let up = pod("job-1-pserver-0", "Running", &json!({}));
        let told = "FailedCreate: pods \"job-1-trainer-0\" is forbidden: exceeded quota: small";
        let seen = |pods: Vec<Value>| Seen {
            secret: secret.clone(),
            job: job("Pending"),
            pods,
            warnings: warned("job-1", volcano),
            ..Seen::default()
        };
        check(&seen(Vec::new()), (JobState::Pending, None, told));
        check(&seen(vec![up.clone()]), (JobState::Starting, None, told));
        let plain = Seen {
            secret: secret.clone(),
            trainers: json!({"status": {}}),
            pods: vec![up],
            warnings: warned("job-1-trainer", "Error creating: exceeded quota: small"),
            ..Seen::default()
        };
        let told = "trainer-0: FailedCreate: Error creating: exceeded quota: small";
        check(&plain, (JobState::Starting, None, told));
    }

    #[test]
    fn a_job_that_is_killed_is_so_when_nothing_is_left() {
        let ending = Ending { verdict: killed(), since_ms: 1000, is_forced: false };
        let ending = serde_json::to_string(&ending).unwrap();
        let secret = json!({"metadata": {"annotations": {ENDING: ending}}});
        let seen = |job: Value, pods: Vec<Value>| Seen {
            secret: secret.clone(),
            job,
            pods,
            ..Seen::default()
        };
        let left = vec![pod("job-1-trainer-0", "Running", &json!({}))];
        check(&seen(job("Running"), Vec::new()), (JobState::Killing, None, ""));
        check(&seen(Value::Null, left), (JobState::Killing, None, ""));
        check(&seen(Value::Null, Vec::new()), (JobState::Killed, Some(143), "terminated"));
    }
}
