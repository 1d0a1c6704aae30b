//! Ending jobs: those that somebody wants ended, and those of which the cluster does not know that they
//! are over.
//!
//! How a job ends is noted on its Secret first, then what makes its pods is deleted. Whoever did the
//! first may be killed before the second, and a submission may still be making objects of a job that
//! another process ends, so whoever looks at such a job later does the second again.

use super::api::ask;
use super::state::{self, ENDING, Seen, is_going};
use super::view::{kinds, value};
use super::{Kubernetes, place, plain, plan, verdict};
use crate::conductor::now_ms;
use crate::record::{Ending, JobRecord};
use crate::submission::Submission;
use contract::role::Role;
use contract::state::{JobState, State};
use contract::{Error, Kind, Result};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// How long a job that was ended may show no sign of it before that is done again.
const UNENDED: Duration = Duration::from_secs(10);

impl Kubernetes {
    /// Ends a job of which the cluster does not know that it is over.
    pub(super) async fn conclude(
        &self,
        submission: &Submission,
        seen: &Seen,
        record: &JobRecord,
    ) -> Result<()> {
        if let Some(ending) = &record.ending {
            return self.end_again(submission, seen, record, ending).await;
        }
        let (name, namespace) = (plan::name(&submission.id), &place(submission)?.namespace);
        let stuck = verdict::stuck(submission, record);
        let stuck_for = self.view().await?.stuck_for(name.as_str(), stuck);
        let verdict = verdict::too_few(submission, record)
            .or_else(|| plain::verdict(seen, record))
            .or_else(|| verdict::decide(submission, record, stuck_for));
        let Some(verdict) = verdict else { return Ok(()) };
        // Somebody else may have ended it, of which the pods' end was heard first.
        let secrets = self.objects(&kinds().secrets, namespace).await?;
        let secret = value(&ask("look at the job", secrets.get(name.as_str())).await?);
        if secret["metadata"]["annotations"][ENDING].is_string() {
            self.view().await?.put_secret(secret);
            return Ok(());
        }
        if record.conductors == 0 && self.is_made(submission).await? {
            self.view().await?.stuck_for(name.as_str(), None);
            return Ok(());
        }
        let ending = Ending { verdict, since_ms: now_ms(), is_forced: false };
        self.finish(submission, seen, ending, false).await
    }

    /// Whether what makes a job's pods is on the cluster after all. A watch that is silent is not
    /// noticed at once; then everything is listed again.
    async fn is_made(&self, submission: &Submission) -> Result<bool> {
        let (name, namespace) = (plan::name(&submission.id), &place(submission)?.namespace);
        let mut kinds_made =
            vec![(kinds().trainers, plain::controller(name.as_str(), Role::Trainer))];
        if self.has_volcano().await? {
            kinds_made.push((kinds().jobs, name.as_str().to_owned()));
        }
        for (kind, name) in kinds_made {
            let objects = self.objects(&kind, namespace).await?;
            match ask("look at the job", objects.get(&name)).await {
                Ok(_) => return Ok(true),
                // Who may not look at a kind has made none of it.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Forbidden) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Deletes again what a job that was ended still has, if nothing of it is going.
    async fn end_again(
        &self,
        submission: &Submission,
        seen: &Seen,
        record: &JobRecord,
        ending: &Ending,
    ) -> Result<()> {
        let (view, name) = (self.view().await?, plan::name(&submission.id));
        let parts = seen.pods.iter().chain([&seen.job, &seen.trainers]);
        let is_stuck = !record.state.is_final() && !parts.into_iter().any(is_going);
        let stuck_for = view.stuck_for(name.as_str(), is_stuck.then(|| "unended".to_owned()));
        if stuck_for <= UNENDED {
            return Ok(());
        }
        view.stuck_for(name.as_str(), None);
        self.delete_makers(submission, seen, ending).await
    }

    /// Ends a job because somebody wants it ended.
    pub(super) async fn end(&self, id: &str, is_forced: bool) -> Result<()> {
        let (submission, seen) = self.seen(id).await?;
        let record = state::record(&submission, place(&submission)?, &seen);
        if record.state.is_final() {
            return Ok(());
        }
        let was_forced = record.ending.as_ref().is_some_and(|ending| ending.is_forced);
        // What was decided stays decided.
        let verdict = record.ending.map_or_else(state::killed, |ending| ending.verdict);
        let ending = Ending { verdict, since_ms: now_ms(), is_forced };
        self.finish(&submission, &seen, ending, was_forced).await
    }

    /// Notes how a job ends, and ends it.
    async fn finish(
        &self,
        submission: &Submission,
        seen: &Seen,
        ending: Ending,
        was_forced: bool,
    ) -> Result<()> {
        let (name, namespace) = (plan::name(&submission.id), &place(submission)?.namespace);
        let secrets = self.objects(&kinds().secrets, namespace).await?;
        let text = serde_json::to_string(&ending)
            .map_err(|source| Error::invalid("cannot write an end").because(source))?;
        let note = json!({"metadata": {"annotations": { ENDING: text }}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&note));
        let patched = secrets.patch(name.as_str(), &parameters, &patch);
        let secret = ask("end the job", patched).await?;
        self.view().await?.put_secret(value(&secret));
        self.delete_makers(submission, seen, &ending).await?;
        if ending.is_forced {
            let pods = self.objects(&kinds().pods, namespace).await?;
            let selector = format!("{}={name}", plan::JOB_LABEL);
            // With 0 pods are gone at once, and their programs run on for as long as they were
            // given before: only for a node that does not answer.
            let seconds = u32::from(!was_forced);
            let at_once = DeleteParams::default().grace_period(seconds);
            let all = ListParams::default().labels(&selector);
            ask("kill the job's pods", pods.delete_collection(&at_once, &all)).await?;
        }
        Ok(())
    }

    /// Deletes what makes the pods of a job.
    async fn delete_makers(
        &self,
        submission: &Submission,
        seen: &Seen,
        ending: &Ending,
    ) -> Result<()> {
        let (name, namespace) = (plan::name(&submission.id), &place(submission)?.namespace);
        let parameters = DeleteParams::background();
        // What it is made of counts: Volcano may have come or gone since.
        let uses_volcano = match (seen.job.is_null(), seen.trainers.is_null()) {
            (true, true) => self.uses_volcano(place(submission)?).await?,
            (is_plain, _) => !is_plain,
        };
        if uses_volcano {
            let job = (namespace.as_str(), name.as_str());
            return self.delete_one(&kinds().jobs, job, &parameters).await;
        }
        let servers = [Role::Pserver, Role::Master].map(|role| (kinds().servers, role));
        // What trainers have printed is kept with their pods, unless they are to be ended.
        let is_trained = match ending.verdict.culprit {
            Some(culprit) => culprit.role == Role::Trainer,
            None => ending.verdict.state == JobState::Succeeded,
        };
        let trainers = (!is_trained).then(|| (kinds().trainers, Role::Trainer));
        for (kind, role) in servers.into_iter().chain(trainers) {
            let controller = plain::controller(name.as_str(), role);
            self.delete_one(&kind, (namespace, &controller), &parameters).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use crate::backend::Backend;
    use crate::submission::{KubernetesPlace, Place, sample};
    use contract::job::JobSpec;
    use serde_json::Value;

    fn listed(items: &[&Value]) -> (u16, Vec<u8>) {
        let list = json!({
            "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
        });
        (200, list.to_string().into_bytes())
    }

    /// A job without Volcano on a server that lists its Secret, and not its objects, which are there.
    async fn half_seen(ending: Option<&Ending>) -> (fake::Server, Kubernetes, String) {
        let place = KubernetesPlace {
            namespace: "wu".into(),
            volcano: Some(false),
            ..KubernetesPlace::default()
        };
        let one = Submission { place: Place::Kubernetes(place), ..sample(JobSpec::default()) };
        let name = plan::name(&one.id);
        let labels = plan::labels(&one);
        let text = serde_json::to_vec(&one).unwrap();
        let mut annotations = json!({});
        if let Some(ending) = ending {
            annotations[ENDING] = json!(serde_json::to_string(ending).unwrap());
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": name.as_str(), "namespace": "wu", "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations,
            },
            "data": {plan::SUBMISSION_KEY: k8s_openapi::ByteString(text)},
        });
        let trainers = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": plain::controller(name.as_str(), Role::Trainer), "namespace": "wu",
                "labels": labels,
            },
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "job-1-trainer-0-x", "namespace": "wu", "labels": labels},
            "status": {"phase": "Running"},
        });
        let is_watched = ending.is_some();
        let server = fake::Server::start(move |request| {
            let words: Vec<&str> = request.split(' ').collect();
            let path = words[1].split('?').next().unwrap_or_default();
            match (words[0], path.rsplit('/').next().unwrap_or_default()) {
                _ if words[1].contains("watch=true") => (200, Vec::new()),
                ("GET", "secrets") => listed(&[&secret]),
                ("GET", "jobs") if is_watched && path.contains("/batch/") => listed(&[&trainers]),
                ("GET", "pods") if is_watched => listed(&[&pod]),
                ("GET", "jobs" | "pods" | "nodes" | "events") => listed(&[]),
                ("GET", own) if secret["metadata"]["name"] == own => {
                    (200, secret.to_string().into_bytes())
                }
                ("GET", own) if trainers["metadata"]["name"] == own => {
                    (200, trainers.to_string().into_bytes())
                }
                _ => fake::not_found(),
            }
        })
        .await;
        let backend = Kubernetes::new(server.access(), "wu");
        (server, backend, one.id)
    }

    /// As if a job had been stuck in a way for a long time.
    async fn age(backend: &Kubernetes, id: &str, way: &str) {
        let view = backend.view().await.unwrap();
        view.age(plan::name(id).as_str(), way, Duration::from_secs(3600));
    }

    fn changes(server: &fake::Server) -> Vec<String> {
        let all = server.requests().into_iter().filter(|line| !line.starts_with("GET "));
        all.collect()
    }

    /// A watch that has died silently hides a job that runs: it must not be deleted for that.
    #[tokio::test]
    async fn a_job_that_is_only_not_seen_is_not_ended() {
        let (server, backend, id) = half_seen(None).await;
        assert_eq!(backend.observe(&id).await.unwrap().conductors, 0);
        age(&backend, &id, "unmade").await;
        backend.observe(&id).await.unwrap();
        assert!(!backend.observe(&id).await.unwrap().state.is_final());
        assert_eq!(changes(&server), Vec::<String>::new());
    }

    /// Whoever ended it was killed before its objects were deleted.
    #[tokio::test]
    async fn a_job_that_was_ended_and_goes_on_is_ended_again() {
        let ending = Ending { verdict: state::killed(), since_ms: 1, is_forced: false };
        let (server, backend, id) = half_seen(Some(&ending)).await;
        assert_eq!(backend.observe(&id).await.unwrap().state, JobState::Killing);
        assert_eq!(changes(&server), Vec::<String>::new());
        age(&backend, &id, "unended").await;
        backend.observe(&id).await.unwrap();
        let all = changes(&server);
        assert!(
            all.iter().any(|line| line.contains("DELETE") && line.contains("-trainer")),
            "{all:?}"
        );
    }
}
