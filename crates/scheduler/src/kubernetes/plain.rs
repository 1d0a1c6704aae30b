//! A submission as objects that every cluster has, for clusters without Volcano: a StatefulSet of
//! servers, an Indexed Job of trainers, and a headless Service by which they find each other. Pure.
//!
//! Names and addresses of pods are those of a Volcano job. What only Volcano does is different: pods
//! start one by one, as they fit; no pod is started again with all others, so a server or a pod that
//! is lost ends the job; and nothing in the cluster knows that servers are no longer needed when the
//! trainers have finished, so whoever looks at the job next removes them.

use super::peers::label;
use super::plan::{labels, name, pod};
use super::state::{Seen, first_failed, is_going, is_over, name_of};
use super::volcano::priority_class;
use crate::record::{JobRecord, Verdict};
use crate::submission::{KubernetesPlace, Submission};
use contract::role::Role;
use contract::state::JobState;
use contract::{Error, Kind, Result};
use serde_json::{Value, json};

/// Refuses what only Volcano can do, by its name.
pub(super) fn check(submission: &Submission) -> Result<()> {
    let spec = &submission.spec;
    let refuse = |field: &'static str, value: String, why: &str| {
        let message = format!(
            "{field} cannot be honoured on a Kubernetes cluster without Volcano: {why}, or install \
             Volcano"
        );
        Err(Error::new(Kind::Unsupported, message).with("field", field).with("value", value))
    };
    if !spec.queue.is_empty() {
        return refuse("queue", spec.queue.clone(), "queues are Volcano's, leave --queue out");
    }
    if let Some(tolerance) = spec.fault_tolerance {
        let range = format!("{} to {}", tolerance.min_trainers, tolerance.max_trainers);
        let why = "nobody there starts some trainers and not others, leave --min_trainers and \
                   --max_trainers out";
        return refuse("fault_tolerance", range, why);
    }
    Ok(())
}

/// What people should know of a job there.
pub(super) fn notes(submission: &Submission) -> Vec<String> {
    let mut notes = vec!["without Volcano pods start one by one, as they fit".to_owned()];
    if submission.spec.restarts > 0 {
        let note = "without Volcano only a trainer's program is started again in its pod: a server \
                    or a pod that is lost ends the job";
        notes.push(note.to_owned());
    }
    notes
}

/// The Service, the StatefulSets of servers and the Job of trainers, in the order in which they are
/// made.
pub(super) fn objects(submission: &Submission, place: &KubernetesPlace) -> Result<Vec<Value>> {
    super::plan::check(submission, place)?;
    check(submission)?;
    let spec = &submission.spec;
    let mut all = vec![service(submission)];
    for role in [Role::Master, Role::Pserver] {
        if spec.replicas(role) > 0 {
            all.push(servers(submission, place, role)?);
        }
    }
    all.push(trainers(submission, place)?);
    Ok(all)
}

/// The name of the object that makes the pods of a role. A pod's own is this and its rank.
pub(super) fn controller(job: &str, role: Role) -> String {
    format!("{job}-{role}")
}

/// How a job has ended, if it has and nobody has noted it.
pub(super) fn verdict(seen: &Seen, record: &JobRecord) -> Option<Verdict> {
    if seen.trainers.is_null() || record.ending.is_some() {
        return None;
    }
    if let Some(first) = first_failed(&record.replicas) {
        return Some(Verdict {
            state: JobState::Failed,
            exit_code: first.exit_code.unwrap_or(1),
            reason: format!("{} failed: {}", first.replica, first.reason()),
            culprit: Some(first.replica),
        });
    }
    let conditions = seen.trainers["status"]["conditions"].as_array();
    let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
    let is =
        |word: &str| conditions.iter().find(|one| one["type"] == word && one["status"] == "True");
    if let Some(condition) = is("Failed") {
        let said = condition["message"].as_str().unwrap_or_default();
        return Some(Verdict {
            state: JobState::Failed,
            exit_code: 1,
            reason: format!("the pod of a trainer was lost: {said}"),
            culprit: None,
        });
    }
    if is("Complete").is_some() {
        return Some(Verdict {
            state: JobState::Succeeded,
            exit_code: 0,
            reason: "all trainers finished".to_owned(),
            culprit: None,
        });
    }
    // Its StatefulSet makes another one, which has none of its values.
    let lost = seen.pods.iter().find(|pod| is_going(pod) && !is_trainer(pod))?;
    let name = name_of(lost);
    let replica = name.strip_prefix(name_of(&seen.secret)).and_then(|rest| rest.strip_prefix('-'));
    Some(Verdict {
        state: JobState::Failed,
        exit_code: 1,
        reason: format!("the server's pod {name} was deleted before the job was over"),
        culprit: replica.and_then(|text| text.parse().ok()),
    })
}

fn is_trainer(pod: &Value) -> bool {
    pod["metadata"]["labels"][label(Role::Trainer)].is_string()
}

/// Whether nothing of a job runs whose end was decided. Trainers that have ended are kept, for what
/// they printed.
pub(super) fn is_at_rest(seen: &Seen) -> bool {
    let is_kept = |pod: &Value| !seen.trainers.is_null() && is_trainer(pod) && is_over(pod);
    seen.pods.iter().all(is_kept)
}

fn service(submission: &Submission) -> Value {
    let job = name(&submission.id);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": job.as_str(), "labels": labels(submission)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {super::plan::JOB_LABEL: job.as_str()},
        },
    })
}

/// The template of a role's pods.
fn template(submission: &Submission, place: &KubernetesPlace, role: Role) -> Result<Value> {
    let job = name(&submission.id);
    let mut labels = labels(submission);
    labels[label(role)] = json!(job.as_str());
    let mut pod = pod(submission, place, role)?;
    if let Some(class) = priority_class(submission.spec.priority) {
        pod["priorityClassName"] = json!(class);
    }
    Ok(json!({"metadata": {"labels": labels}, "spec": pod}))
}

fn servers(submission: &Submission, place: &KubernetesPlace, role: Role) -> Result<Value> {
    let job = name(&submission.id);
    let mut template = template(submission, place, role)?;
    // The only one that a StatefulSet may have. A server that is back has lost its values, which
    // trainers notice.
    template["spec"]["restartPolicy"] = json!("Always");
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": controller(job.as_str(), role), "labels": labels(submission)},
        "spec": {
            "serviceName": job.as_str(),
            "replicas": submission.spec.replicas(role),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {label(role): job.as_str()}},
            "template": template,
        },
    }))
}

fn trainers(submission: &Submission, place: &KubernetesPlace) -> Result<Value> {
    let (job, count) = (name(&submission.id), submission.spec.trainers);
    let mut template = template(submission, place, Role::Trainer)?;
    // With the name that the Job gives each pod this is its address.
    template["spec"]["subdomain"] = json!(job.as_str());
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": controller(job.as_str(), Role::Trainer), "labels": labels(submission)},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            // Its program was started again in its pod as often as was asked for.
            "backoffLimit": 0,
            "template": template,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaId;
    use crate::submission::{Package, sample};
    use contract::job::{FaultTolerance, JobSpec, Priority};

    fn submission(spec: JobSpec) -> Submission {
        let spec = JobSpec { image: "paddlecloud/paddle:v1".into(), ..spec };
        Submission { package: Package::Present("/workspace".into()), ..sample(spec) }
    }

    #[test]
    fn a_job_is_a_service_stateful_servers_and_indexed_trainers() {
        let spec = JobSpec {
            trainers: 2,
            pservers: 2,
            master: true,
            priority: Priority::High,
            time_limit_seconds: Some(60),
            ..JobSpec::default()
        };
        let all = objects(&submission(spec), &KubernetesPlace::default()).unwrap();
        let text = |one: &Value| format!("{} {}", one["kind"], one["metadata"]["name"]);
        let shown: Vec<String> = all.iter().map(text).collect();
        let expected = [
            "\"Service\" \"job-1\"",
            "\"StatefulSet\" \"job-1-master\"",
            "\"StatefulSet\" \"job-1-pserver\"",
            "\"Job\" \"job-1-trainer\"",
        ];
        assert_eq!(shown, expected);
        let (service, servers, trainers) = (&all[0]["spec"], &all[2]["spec"], &all[3]["spec"]);
        assert_eq!(service["clusterIP"], "None");
        assert_eq!(service["selector"], json!({"paddlecloud/job": "job-1"}));
        assert_eq!((&servers["replicas"], &servers["serviceName"]), (&json!(2), &json!("job-1")));
        assert_eq!(servers["template"]["spec"]["restartPolicy"], "Always");
        assert!(servers["template"]["spec"]["activeDeadlineSeconds"].is_null());
        assert_eq!(trainers["completionMode"], "Indexed");
        assert_eq!((&trainers["completions"], &trainers["parallelism"]), (&json!(2), &json!(2)));
        let pod = &trainers["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], &pod["subdomain"]), (&json!("Never"), &json!("job-1")));
        assert_eq!(pod["activeDeadlineSeconds"], 60);
        assert_eq!(pod["priorityClassName"], "paddle-high");
        assert!(!pod.to_string().contains("VC_JOB_ROUND"), "only Volcano counts rounds");
        let manifests: Vec<String> =
            all.iter().map(|one| serde_yaml_ng::to_string(one).unwrap()).collect();
        insta::assert_snapshot!(manifests.join("---\n"));
    }

    #[test]
    fn what_only_volcano_can_do_is_refused_by_name() {
        let refused = |field: &str, change: fn(&mut JobSpec)| {
            let mut submission = submission(JobSpec { master: true, ..JobSpec::default() });
            change(&mut submission.spec);
            let error = objects(&submission, &KubernetesPlace::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(error.to_string().contains(&format!("field: {field}")), "{error}");
        };
        refused("queue", |spec| spec.queue = "fast".into());
        refused("fault_tolerance", |spec| {
            spec.fault_tolerance = Some(FaultTolerance { min_trainers: 1, max_trainers: 2 });
        });
    }

    fn trainers_job(condition: &str) -> Value {
        let condition = json!({"type": condition, "status": "True", "message": "backoff limit"});
        json!({"status": {"conditions": [condition]}})
    }

    fn pod_of(role: Role, phase: &str, status: &Value) -> Value {
        let name = format!("job-1-{role}-0");
        let mut status = json!({"phase": phase, "containerStatuses": [status]});
        status["containerStatuses"][0]["name"] = json!(super::super::plan::CONTAINER);
        json!({
            "metadata": {"name": format!("{name}-x"), "labels": {label(role): "job-1"}},
            "spec": {"nodeName": "node1", "hostname": name, "restartPolicy": "Always"},
            "status": status,
        })
    }

    fn check_verdict(seen: &Seen, expected: Option<(JobState, i32, &str)>) {
        let spec = JobSpec { trainers: 1, pservers: 1, ..JobSpec::default() };
        let record = super::super::state::record(&sample(spec), &KubernetesPlace::default(), seen);
        assert!(!contract::state::State::is_final(record.state), "{record:#?}");
        let found = verdict(seen, &record);
        let shown = found.as_ref().map(|own| (own.state, own.exit_code, own.reason.as_str()));
        assert_eq!(shown, expected, "{record:#?}");
    }

    #[test]
    fn an_end_is_seen_from_the_trainers_or_from_a_server_that_failed() {
        let up = json!({"state": {"running": {}}, "restartCount": 0});
        let (server, trainer) =
            (pod_of(Role::Pserver, "Running", &up), pod_of(Role::Trainer, "Running", &up));
        let seen = |trainers: Value, pods: Vec<Value>| Seen { trainers, pods, ..Seen::default() };
        let both = vec![server, trainer.clone()];
        check_verdict(&seen(json!({"status": {}}), both.clone()), None);
        let done = (JobState::Succeeded, 0, "all trainers finished");
        check_verdict(&seen(trainers_job("Complete"), both.clone()), Some(done));
        let lost = (JobState::Failed, 1, "the pod of a trainer was lost: backoff limit");
        check_verdict(&seen(trainers_job("Failed"), both), Some(lost));
        let ended = json!({"exitCode": 137, "message": "exit code 137: killed"});
        let back = json!({"state": {"running": {}}, "lastState": {"terminated": ended}, "restartCount": 1});
        let crashed = vec![pod_of(Role::Pserver, "Running", &back), trainer];
        let record_of = seen(json!({"status": {}}), crashed);
        let failed = (JobState::Failed, 137, "pserver-0 failed: exit code 137: killed");
        check_verdict(&record_of, Some(failed));
    }

    #[test]
    fn a_server_that_all_trainers_have_left_has_not_failed() {
        let up = json!({"state": {"running": {}}, "restartCount": 0});
        let ended = json!({"exitCode": 0});
        let back = json!({"state": {"running": {}}, "lastState": {"terminated": ended}, "restartCount": 1});
        for server in [json!({"state": {"terminated": ended}}), back] {
            let server = pod_of(Role::Pserver, "Running", &server);
            let pods = vec![server, pod_of(Role::Trainer, "Running", &up)];
            let seen = Seen { trainers: json!({"status": {}}), pods, ..Seen::default() };
            check_verdict(&seen, None);
        }
    }

    #[test]
    fn a_server_whose_pod_is_deleted_ends_a_job_that_is_not_over() {
        let up = json!({"state": {"running": {}}, "restartCount": 0});
        let mut server = pod_of(Role::Pserver, "Running", &up);
        server["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        server["metadata"]["name"] = json!("job-1-pserver-0");
        let pods = vec![server, pod_of(Role::Trainer, "Running", &up)];
        let secret = json!({"metadata": {"name": "job-1"}});
        let seen = |trainers: Value| Seen {
            trainers,
            pods: pods.clone(),
            secret: secret.clone(),
            ..Seen::default()
        };
        let why = "the server's pod job-1-pserver-0 was deleted before the job was over";
        check_verdict(&seen(json!({"status": {}})), Some((JobState::Failed, 1, why)));
        let done = (JobState::Succeeded, 0, "all trainers finished");
        check_verdict(&seen(trainers_job("Complete")), Some(done));
    }

    #[test]
    fn ended_trainers_are_kept_and_servers_are_not() {
        let ended = json!({"state": {"terminated": {"exitCode": 0}}});
        let up = json!({"state": {"running": {}}});
        let check = |trainers: Value, pods: Vec<Value>, expected: bool| {
            assert_eq!(is_at_rest(&Seen { trainers, pods, ..Seen::default() }), expected);
        };
        let trainer = pod_of(Role::Trainer, "Succeeded", &ended);
        let server = pod_of(Role::Pserver, "Running", &up);
        check(trainers_job("Complete"), vec![trainer.clone()], true);
        check(trainers_job("Complete"), vec![trainer.clone(), server], false);
        check(trainers_job("Complete"), vec![pod_of(Role::Trainer, "Running", &up)], false);
        check(Value::Null, vec![trainer], false);
        check(Value::Null, Vec::new(), true);
    }

    #[test]
    fn names_are_those_of_a_volcano_job() {
        let submission = submission(JobSpec { pservers: 1, ..JobSpec::default() });
        let job = name(&submission.id);
        for role in [Role::Pserver, Role::Trainer] {
            let own = format!("{}-0", controller(job.as_str(), role));
            assert_eq!(own, super::super::volcano::pod_name(&submission, ReplicaId::new(role, 0)));
        }
    }
}
