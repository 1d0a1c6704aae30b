//! Jobs that are ended from outside, and what must not be left.

use crate::backend::job::{Harness, Job};
use contract::state::JobState;
use scheduler::Backend;

pub(crate) fn a_kill_lets_programs_finish(harness: &dyn Harness) {
    let script = "trap 'echo saved > saved-$PADDLE_TRAINER_ID; exit 0' TERM; \
                  touch started-$PADDLE_TRAINER_ID; while :; do sleep 0.01; done";
    let job = Job::new(harness, 2, script);
    job.submit();
    for rank in 0..2 {
        job.await_file(rank, &format!("started-{rank}"));
    }
    job.block(job.jobs.kill(job.id(), false)).unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Killed, Some(143)), "{record:#?}");
    for rank in 0..2 {
        assert_eq!(job.file(rank, &format!("saved-{rank}")), b"saved\n");
    }
    // A job that has ended already is no error.
    job.block(job.jobs.kill(job.id(), false)).unwrap();
}

pub(crate) fn a_forced_kill_waits_for_nobody(harness: &dyn Harness) {
    let script = "trap 'touch asked' TERM; touch started; while :; do sleep 0.01; done";
    let job = Job::new(harness, 1, script).with(|spec| spec.grace_seconds = 100_000);
    job.submit().await_file(0, "started");
    job.block(job.jobs.kill(job.id(), false)).unwrap();
    job.await_file(0, "asked");
    job.block(job.jobs.kill(job.id(), true)).unwrap();
    assert_eq!(job.await_end().state, JobState::Killed);
}

pub(crate) fn a_job_is_killed_while_it_starts(harness: &dyn Harness) {
    let job = Job::new(harness, 2, "exec sleep 1000");
    job.submit();
    job.block(job.jobs.kill(job.id(), false)).unwrap();
    assert_eq!(job.await_end().state, JobState::Killed);
}

pub(crate) fn a_leashed_job_ends_with_its_leash(harness: &dyn Harness) {
    let script = "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & \
                  touch started-$PADDLE_TRAINER_ID; sleep 1000";
    let job = Job::new(harness, 2, script);
    let leash = job.block(job.jobs.submit_leashed(&job.submission, None)).unwrap();
    for rank in 0..2 {
        job.await_file(rank, &format!("started-{rank}"));
    }
    // Whoever asks about it does not keep it alive.
    job.await_state(JobState::Running);
    drop(leash);
    assert_eq!(job.await_end().state, JobState::Killed);
    // A submitter that is killed says nothing any more: its job is gone.
    let job = Job::new(harness, 1, "touch started; exec sleep 1000");
    let submitter = tokio::runtime::Runtime::new().unwrap();
    let leash = submitter.block_on(job.jobs.submit_leashed(&job.submission, None)).unwrap();
    job.await_file(0, "started");
    submitter.shutdown_background();
    drop(leash);
    let record = job.await_end();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("gone"), "{}", record.reason);
}

/// Two forks and a session of its own: neither parent, group nor session lead to it.
pub(crate) fn daemons_of_programs_end_with_the_job(harness: &dyn Harness) {
    let daemon = "(setsid sh -c 'sleep 1000 & echo $! > daemon-$PADDLE_TRAINER_ID' &)";
    let wait = "until [ -s daemon-$PADDLE_TRAINER_ID ]; do sleep 0.01; done";
    Job::new(harness, 1, &format!("{daemon}; {wait}; echo done")).succeed();
    let failed = Job::new(harness, 1, &format!("{daemon}; {wait}; exit 9")).run();
    assert_eq!(failed.exit_code, Some(9), "{failed:#?}");
}
