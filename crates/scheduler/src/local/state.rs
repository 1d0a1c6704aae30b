//! What the directory of a job says about it, in our words. Pure.

use crate::Observation;
use crate::conductor::record::JobRecord;
use contract::state::{JobState, ReplicaState, State};

/// A job whose conductor lives or not, and its record, if it has written one.
pub(super) fn observation(is_alive: bool, record: Option<JobRecord>) -> Observation {
    let Some(mut record) = record else {
        let (state, reason) = match is_alive {
            true => (JobState::Pending, String::new()),
            false => (JobState::Failed, "it died before anything was started".to_owned()),
        };
        return Observation { state, reason, exit_code: None, replicas: Vec::new() };
    };
    if !is_alive && !record.state.is_final() {
        // Its supervisor has taken the replicas down with it.
        record.state = JobState::Failed;
        record.reason = "the process that ran the job died, and all replicas with it".to_owned();
        for replica in record.replicas.iter_mut().filter(|replica| !replica.state.is_final()) {
            replica.state = ReplicaState::Killed;
        }
    }
    let JobRecord { state, reason, exit_code, replicas, .. } = record;
    Observation { state, reason, exit_code, replicas }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_conductor_died_has_failed_whatever_it_wrote_last() {
        let record = JobRecord {
            version: 1,
            job: "ctr".to_owned(),
            state: JobState::Running,
            reason: String::new(),
            culprit: None,
            exit_code: None,
            began_ms: 0,
            ended_ms: None,
            ending: None,
            replicas: Vec::new(),
        };
        assert_eq!(observation(true, Some(record.clone())).state, JobState::Running);
        let seen = observation(false, Some(record.clone()));
        assert_eq!(seen.state, JobState::Failed);
        assert!(seen.reason.contains("died"), "{}", seen.reason);
        let done = JobRecord { state: JobState::Succeeded, ..record };
        assert_eq!(observation(false, Some(done)).state, JobState::Succeeded);
        assert_eq!(observation(true, None).state, JobState::Pending);
        assert_eq!(observation(false, None).state, JobState::Failed);
    }
}
