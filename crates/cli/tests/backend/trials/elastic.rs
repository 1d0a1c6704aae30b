//! Trainers that join and leave a running job.

use crate::backend::job::{Harness, Job};
use contract::Kind;
use contract::job::{FaultTolerance, JobSpec};
use contract::state::{JobState, ReplicaState};
use scheduler::Backend;

/// Runs until it is told to end.
const UNTIL_TOLD: &str = "touch $MARKER/shared/started-$PADDLE_TRAINER_ID; \
                          while [ ! -e $MARKER/shared/go ]; do sleep 0.02; done";

fn elastic(spec: &mut JobSpec) {
    spec.master = true;
    spec.fault_tolerance = Some(FaultTolerance { min_trainers: 1, max_trainers: 3 });
}

fn await_trainer(job: &Job<'_>, rank: u32) {
    let file = job.shared().join(format!("started-{rank}"));
    job.wait_until(&format!("trainer {rank} runs"), || file.exists());
}

pub(crate) fn trainers_join_and_leave_a_running_job(harness: &dyn Harness) {
    let job = Job::new(harness, 2, UNTIL_TOLD).with(elastic);
    job.submit();
    let scale = |trainers| job.block(job.jobs.scale(job.id(), trainers));
    (0..2).for_each(|rank| await_trainer(&job, rank));
    scale(3).unwrap();
    await_trainer(&job, 2);
    for wrong in [0, 4] {
        assert_eq!(scale(wrong).unwrap_err().kind(), Kind::Invalid);
    }
    scale(1).unwrap();
    let state = |rank: usize| {
        let record = job.observe();
        let name = format!("trainer-{rank}");
        record.replicas.iter().find(|one| one.replica.to_string() == name).unwrap().state
    };
    job.wait_until("trainers 1 and 2 have left", || {
        [1, 2].iter().all(|rank| state(*rank) == ReplicaState::Killed)
    });
    std::fs::remove_file(job.shared().join("started-1")).unwrap();
    scale(2).unwrap();
    await_trainer(&job, 1);
    std::fs::write(job.shared().join("go"), "").unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Succeeded, Some(0)), "{record:#?}");
    assert_eq!((record.trainers, record.rounds), (2, 0), "{record:#?}");
    assert_eq!(scale(1).unwrap_err().kind(), Kind::Conflict);
}

pub(crate) fn a_trainer_that_was_given_up_is_started_again_when_asked_for(harness: &dyn Harness) {
    let script = format!(
        "if [ $PADDLE_TRAINER_ID = 1 ] && [ ! -e $MARKER/shared/mended ]; then exit 127; fi; \
         {UNTIL_TOLD}"
    );
    let job = Job::new(harness, 2, &script).with(elastic);
    job.submit();
    await_trainer(&job, 0);
    let has_failed = |attempt| {
        job.observe()
            .replicas
            .iter()
            .any(|one| (one.state, one.attempt) == (ReplicaState::Failed, attempt))
    };
    job.wait_until("trainer 1 has failed", || has_failed(0));
    // Who asks for the number again wants it to run.
    let scale = || job.block(job.jobs.scale(job.id(), 2)).unwrap();
    scale();
    job.wait_until("trainer 1 has failed once more", || has_failed(1));
    std::fs::write(job.shared().join("mended"), "").unwrap();
    scale();
    await_trainer(&job, 1);
    std::fs::write(job.shared().join("go"), "").unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.rounds), (JobState::Succeeded, 0), "{record:#?}");
}

pub(crate) fn a_job_goes_on_without_a_trainer_that_cannot_run(harness: &dyn Harness) {
    let script = format!("if [ $PADDLE_TRAINER_ID = 1 ]; then exit 127; fi; {UNTIL_TOLD}");
    let job = Job::new(harness, 2, &script).with(elastic);
    job.submit();
    await_trainer(&job, 0);
    let has_failed = || job.observe().replicas.iter().any(|one| one.state == ReplicaState::Failed);
    job.wait_until("trainer 1 has failed", has_failed);
    std::fs::write(job.shared().join("go"), "").unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.rounds), (JobState::Succeeded, 0), "{record:#?}");
    // With a minimum of two it is a failure.
    let job = Job::new(harness, 2, &script).with(|spec| {
        elastic(spec);
        spec.fault_tolerance = Some(FaultTolerance { min_trainers: 2, max_trainers: 3 });
    });
    let record = job.run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(127)), "{record:#?}");
}
