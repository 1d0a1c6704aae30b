//! Submitting, listing, forgetting.

use crate::backend::job::{Harness, Job};
use contract::Kind;
use contract::state::JobState;
use scheduler::backend::{Accepted, Backend, Cursor};

pub(crate) fn the_same_job_again_starts_nothing_new(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "echo started; until [ -e go ]; do sleep 0.01; done");
    job.submit().await_state(JobState::Running);
    assert_eq!(job.try_submit().unwrap(), Accepted::Known);
    job.write(0, "go", "");
    assert_eq!(job.await_end().state, JobState::Succeeded);
    assert_eq!(job.try_submit().unwrap(), Accepted::Known);
    assert_eq!(job.text("trainer-0"), "started\n");
    assert_eq!(job.observe().conductors, 1);
}

pub(crate) fn another_job_under_the_same_id_is_a_conflict(harness: &dyn Harness) {
    let mut job = Job::new(harness, 1, "true");
    job.succeed();
    job.submission.spec.passes = Some(7);
    let error = job.try_submit().unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.to_string().contains("job-1"), "{error}");
}

pub(crate) fn a_list_shows_the_jobs_of_one_origin(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "exit 3");
    job.run();
    let list = |origin: &str, since| job.block(job.jobs.list(origin, since)).unwrap();
    let found = list("test", None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].id.as_str(), found[0].state), ("job-1", JobState::Failed));
    assert_eq!(found[0].revision, job.observe().revision);
    assert_eq!(list("other", None), []);
    let changed_ms = job.observe().changed_ms;
    assert_eq!(list("test", Some(changed_ms)).len(), 1);
    assert_eq!(list("test", Some(changed_ms + 1)), []);
}

pub(crate) fn what_is_not_there_is_said_to_be_not_there(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "true");
    let (jobs, start) = (&job.jobs, Cursor::default());
    let replica = "trainer-0".parse().unwrap();
    let missing = Kind::NotFound;
    assert_eq!(job.block(jobs.observe("nothing")).unwrap_err().kind(), missing);
    assert_eq!(job.block(jobs.kill("nothing", false)).unwrap_err().kind(), missing);
    assert_eq!(job.block(jobs.logs("nothing", replica, &start)).unwrap_err().kind(), missing);
    for id in ["../job-1", "", ".x", "a/b", "a\nb"] {
        assert_eq!(job.block(jobs.observe(id)).unwrap_err().kind(), Kind::Invalid, "{id:?}");
    }
    job.succeed();
    let stranger = "trainer-7".parse().unwrap();
    assert_eq!(job.block(jobs.logs(job.id(), stranger, &start)).unwrap_err().kind(), missing);
    let cursor = Cursor("nonsense".to_owned());
    assert_eq!(job.block(jobs.logs(job.id(), replica, &cursor)).unwrap_err().kind(), Kind::Invalid);
}

pub(crate) fn an_ended_job_can_be_forgotten_and_a_running_one_not(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "exec sleep 1000");
    job.submit().await_state(JobState::Running);
    let error = job.block(job.jobs.forget(job.id())).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    job.block(job.jobs.kill(job.id(), true)).unwrap();
    job.await_end();
    job.block(job.jobs.forget(job.id())).unwrap();
    assert_eq!(job.block(job.jobs.observe(job.id())).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(job.try_submit().unwrap(), Accepted::New);
}

pub(crate) fn a_job_whose_launcher_was_killed_is_forgotten_after_a_day(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "exec sleep 1000");
    drop(job.block(job.jobs.submit_leashed(&job.submission, None)).unwrap());
    let mut record = job.await_end();
    let list = || job.block(job.jobs.list("test", None)).unwrap();
    let listed = list();
    assert_eq!(listed[0].state, JobState::Killed, "{listed:?}");
    assert!(listed[0].reason.contains("gone"), "{listed:?}");
    record.ended_ms = Some(1);
    record.write(&job.directory().join("state.json"), false).unwrap();
    assert_eq!(list(), []);
    assert!(!job.directory().exists());
}
