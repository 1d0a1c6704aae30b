//! The end of a job of which the cluster does not know that it is over. Pure: a record in, and for
//! how long the job has been stuck, a verdict out.
//!
//! A cluster tries for ever to start a pod whose image is not there, and waits for ever for objects
//! that somebody has deleted. A job that waits in a queue may do so; one that has its nodes may not.

use crate::record::{JobRecord, ReplicaRecord, Verdict};
use crate::submission::Submission;
use contract::role::Role;
use contract::state::{JobState, ReplicaState, State};
use std::time::Duration;

/// How long a pod that has a node may fail to start: a registry or a volume may come back.
pub(super) const START_SECONDS: u64 = 600;
/// How long what makes the pods may be missing: it is made after the Secret, and heard of later.
const UNMADE: Duration = Duration::from_secs(30);
/// Against what no waiting helps.
const HOPELESS: [&str; 2] = ["InvalidImageName", "ErrImageNeverPull"];

/// In which way a job is stuck, if it is.
pub(super) fn stuck(submission: &Submission, record: &JobRecord) -> Option<String> {
    if record.state.is_final() || record.ending.is_some() {
        return None;
    }
    if record.conductors == 0 {
        return Some("unmade".to_owned());
    }
    unstarted(submission, record).map(|own| own.replica.to_string())
}

/// How a job ends that has been stuck for so long.
pub(super) fn decide(
    submission: &Submission,
    record: &JobRecord,
    stuck_for: Duration,
) -> Option<Verdict> {
    stuck(submission, record)?;
    if record.conductors == 0 {
        let reason = "what makes the job's pods is not on the cluster: somebody has deleted it, or \
                      whoever submitted the job was killed before it was made";
        return (stuck_for > UNMADE).then(|| Verdict::failed(reason.to_owned()));
    }
    let own = unstarted(submission, record)?;
    let (replica, why) = (own.replica, own.message.as_deref().unwrap_or_default());
    if HOPELESS.iter().any(|word| why.starts_with(word)) {
        return Some(Verdict::failed(format!("{replica} cannot be started: {why}")));
    }
    let is_late = stuck_for > Duration::from_secs(START_SECONDS);
    is_late.then(|| {
        Verdict::failed(format!("{replica} did not start within {START_SECONDS} s: {why}"))
    })
}

/// A replica that has its node, cannot be started there, and cannot be done without.
fn unstarted<'a>(submission: &Submission, record: &'a JobRecord) -> Option<&'a ReplicaRecord> {
    let is_elastic = submission.spec.fault_tolerance.is_some();
    let is_needed = |own: &&ReplicaRecord| {
        !is_elastic || own.replica.role != Role::Trainer || own.replica.rank == 0
    };
    let mut needed = record.replicas.iter().filter(is_needed);
    needed.find(|own| own.state == ReplicaState::Starting && own.message.is_some())
}

/// The end of an elastic job of which so many trainers have failed for good that too few are left.
/// The cluster does not know how many it needs.
pub(super) fn too_few(submission: &Submission, record: &JobRecord) -> Option<Verdict> {
    let least = submission.spec.fault_tolerance?.min_trainers as usize;
    if record.state.is_final() || record.ending.is_some() {
        return None;
    }
    let trainers = record.replicas.iter().filter(|own| own.replica.role == Role::Trainer);
    let (failed, left): (Vec<_>, Vec<_>) =
        trainers.partition(|own| own.state == ReplicaState::Failed);
    let first = failed.into_iter().min_by_key(|own| own.ended_ms)?;
    let has_trained =
        left.iter().any(|own| own.replica.rank == 0 && own.state == ReplicaState::Succeeded);
    if left.len() >= least || has_trained {
        return None;
    }
    Some(Verdict {
        state: JobState::Failed,
        exit_code: first.exit_code.unwrap_or(1),
        reason: format!("{} failed: {}", first.replica, first.reason()),
        culprit: Some(first.replica),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaId;
    use crate::submission::sample;
    use contract::job::{FaultTolerance, JobSpec};

    /// A job of which these replicas are on a node and do not start, for these reasons.
    fn job(spec: JobSpec, waiting: &[(Role, u32, &str)]) -> (Submission, JobRecord) {
        let submission = sample(spec);
        let mut record = JobRecord { conductors: 1, ..JobRecord::new(&submission, 0) };
        record.replicas = waiting
            .iter()
            .map(|(role, rank, why)| ReplicaRecord {
                state: ReplicaState::Starting,
                message: (!why.is_empty()).then(|| (*why).to_owned()),
                ..ReplicaRecord::pending(ReplicaId::new(*role, *rank), String::new(), "".into())
            })
            .collect();
        (submission, record)
    }

    fn check(job: &(Submission, JobRecord), seconds: u64, expected: Option<&str>) {
        let verdict = decide(&job.0, &job.1, Duration::from_secs(seconds));
        assert_eq!(verdict.map(|own| own.reason).as_deref(), expected, "after {seconds} s");
    }

    #[test]
    fn a_pod_that_cannot_start_ends_the_job_after_its_time() {
        let pull = "ErrImagePull: not found";
        let one = job(JobSpec::default(), &[(Role::Trainer, 0, pull)]);
        assert_eq!(stuck(&one.0, &one.1).as_deref(), Some("trainer-0"));
        check(&one, START_SECONDS - 1, None);
        let late = "trainer-0 did not start within 600 s: ErrImagePull: not found";
        check(&one, START_SECONDS + 1, Some(late));
        let wrong = job(JobSpec::default(), &[(Role::Trainer, 0, "InvalidImageName: No:such")]);
        check(&wrong, 0, Some("trainer-0 cannot be started: InvalidImageName: No:such"));
        // An image that is being fetched is no fault, however large it is.
        let busy = job(JobSpec::default(), &[(Role::Trainer, 0, "")]);
        assert_eq!(stuck(&busy.0, &busy.1), None);
        check(&busy, START_SECONDS + 1, None);
    }

    #[test]
    fn an_elastic_job_does_without_a_trainer_that_cannot_start() {
        let fault_tolerance = Some(FaultTolerance { min_trainers: 1, max_trainers: 3 });
        let spec = JobSpec { fault_tolerance, trainers: 2, ..JobSpec::default() };
        let pull = "InvalidImageName: No:such";
        check(&job(spec.clone(), &[(Role::Trainer, 1, pull)]), START_SECONDS + 1, None);
        let first = job(spec, &[(Role::Trainer, 0, pull)]);
        check(&first, 0, Some("trainer-0 cannot be started: InvalidImageName: No:such"));
    }

    #[test]
    fn a_job_whose_objects_are_gone_has_failed() {
        let mut gone = job(JobSpec::default(), &[]);
        gone.1.conductors = 0;
        assert_eq!(stuck(&gone.0, &gone.1).as_deref(), Some("unmade"));
        check(&gone, UNMADE.as_secs() - 1, None);
        let verdict = decide(&gone.0, &gone.1, UNMADE + Duration::from_secs(1)).unwrap();
        assert_eq!((verdict.state, verdict.exit_code), (JobState::Failed, 1));
        assert!(verdict.reason.contains("somebody has deleted it"), "{}", verdict.reason);
        gone.1.state = JobState::Succeeded;
        assert_eq!(stuck(&gone.0, &gone.1), None);
    }
}
