//! Jobs whose own machinery is killed.

use crate::backend::job::{Harness, Job, signal};
use crate::backend::processes::arguments;
use contract::state::{JobState, State};
use scheduler::Backend;
use scheduler::record::{Ending, Verdict};
use scheduler::ssh::package::Manifest;
use scheduler::submission::{Package, Place};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// The script of a trainer that finishes only when it is started again.
const UNTIL_THE_SECOND: &str = "echo attempt $PADDLE_ATTEMPT; touch started-$PADDLE_TRAINER_ID; \
                                if [ $PADDLE_ATTEMPT = 0 ]; then exec sleep 1000; fi";

/// The inner process: the guard has no lock, and waits for this one.
fn kill_conductor(job: &Job<'_>) {
    let conductors = job.processes_running("--guarded");
    assert_eq!(conductors.len(), 1, "one conductor at a time");
    signal(conductors[0], "KILL");
}

/// The guard first, so that it cannot replace the conductor.
fn kill_conductor_and_guard(job: &Job<'_>) {
    let conductors = job.processes_running("--guarded");
    let guards = job.processes_running("conduct");
    for pid in guards.iter().filter(|pid| !conductors.contains(pid)).chain(&conductors) {
        signal(*pid, "KILL");
    }
    job.wait_until("conductor and guard are gone", || job.processes_running("conduct").is_empty());
}

/// Both are stopped, so that nobody replaces anybody.
pub(crate) fn a_kill_ends_a_job_whose_conductor_is_stopped(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "touch started; exec sleep 1000");
    job.submit().await_file(0, "started");
    for pid in job.processes_running("conduct") {
        assert!(signal(pid, "STOP"));
    }
    job.block(job.jobs.kill(job.id(), true)).unwrap();
    assert_eq!(job.await_end().state, JobState::Killed);
}

/// As a power failure may leave it.
pub(crate) fn a_job_whose_record_is_lost_begins_anew(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "touch started; [ -e again ] || exec sleep 1000");
    let job = job.with(|spec| spec.restarts = 1);
    job.submit().await_file(0, "started");
    kill_conductor_and_guard(&job);
    job.write(0, "again", "");
    std::fs::write(job.directory().join("state.json"), "").unwrap();
    assert_eq!(job.await_end().state, JobState::Succeeded);
}

pub(crate) fn a_killed_conductor_is_replaced_and_the_job_finishes(harness: &dyn Harness) {
    let job = Job::new(harness, 2, UNTIL_THE_SECOND).with(|spec| spec.restarts = 1);
    job.submit();
    for rank in 0..2 {
        let name = format!("trainer-{rank}");
        job.wait_until("a first line", || job.text(&name) == "attempt 0\n");
    }
    kill_conductor(&job);
    let record = job.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert_eq!(record.conductors, 2, "{record:#?}");
    for rank in 0..2 {
        assert_eq!(job.text(&format!("trainer-{rank}")), "attempt 0\nattempt 1\n");
    }
}

pub(crate) fn a_job_that_lost_conductor_and_guard_is_revived_by_a_list(harness: &dyn Harness) {
    let job = Job::new(harness, 1, UNTIL_THE_SECOND).with(|spec| spec.restarts = 1);
    job.submit().await_file(0, "started-0");
    kill_conductor_and_guard(&job);
    let list = job.block(job.jobs.list("test", None)).unwrap();
    assert!(!list[0].state.is_final(), "lost is not gone: {list:?}");
    let record = job.await_end();
    assert_eq!((record.state, record.conductors), (JobState::Succeeded, 2), "{record:#?}");
}

/// Whether the record is left or not: a program that was not to be restarted never runs twice.
pub(crate) fn without_restarts_a_killed_conductor_fails_the_job(harness: &dyn Harness) {
    for takes_record in [false, true] {
        let job = Job::new(harness, 1, UNTIL_THE_SECOND);
        job.submit();
        job.wait_until("a first line", || job.text("trainer-0") == "attempt 0\n");
        match takes_record {
            false => kill_conductor(&job),
            true => {
                kill_conductor_and_guard(&job);
                std::fs::write(job.directory().join("state.json"), "").unwrap();
            }
        }
        let record = job.await_end();
        assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
        assert!(record.reason.contains("restarts is 0"), "{}", record.reason);
        assert_eq!(job.text("trainer-0"), "attempt 0\n");
    }
}

/// A conductor that dies after the last trainer has finished leaves nothing to be trained.
pub(crate) fn an_end_that_was_decided_stays_decided(harness: &dyn Harness) {
    let job = Job::new(harness, 1, UNTIL_THE_SECOND).with(|spec| spec.restarts = 1);
    job.submit();
    job.wait_until("a first line", || job.text("trainer-0") == "attempt 0\n");
    kill_conductor_and_guard(&job);
    let state = job.directory().join("state.json");
    let mut record = scheduler::JobRecord::read(&state).unwrap();
    let verdict = Verdict {
        state: JobState::Succeeded,
        exit_code: 0,
        reason: "all trainers finished".to_owned(),
        culprit: None,
    };
    record.ending = Some(Ending { verdict, since_ms: record.changed_ms, is_forced: false });
    record.write(&state, false).unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Succeeded, Some(0)), "{record:#?}");
    assert_eq!(job.text("trainer-0"), "attempt 0\n");
}

/// Guard and keeper at once: nobody is left who would end what they kept.
pub(crate) fn processes_of_a_supervisor_that_was_killed_as_a_whole_are_found(
    harness: &dyn Harness,
) {
    let kill = |job: &Job<'_>| {
        job.submit().await_file(0, "started-0");
        // Stopped first, so that none can react to the death of another.
        let supervisors = job.processes_running("supervise");
        for name in ["STOP", "KILL"] {
            for pid in &supervisors {
                signal(*pid, name);
            }
        }
        job.await_end()
    };
    let record = kill(&Job::new(harness, 1, UNTIL_THE_SECOND).with(|spec| spec.restarts = 3));
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    let job = Job::new(harness, 1, UNTIL_THE_SECOND);
    if job.submission.place.name() == "local" {
        let record = kill(&job);
        assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    }
}

/// A workspace on a host gets its files from the next conductor.
pub(crate) fn a_conductor_that_dies_before_hosts_are_ready_leaves_the_rest_to_the_next(
    harness: &dyn Harness,
) {
    let mut job = Job::new(harness, 1, "cat nodefile trainer_count train.list");
    let folder = job.folder().to_owned();
    let Place::Ssh(place) = &mut job.submission.place else { return };
    place.shard_train_list = true;
    place.paddle = folder.join("paddle").to_str().unwrap().to_owned();
    let script = format!(
        "#!/bin/sh\nif [ $1 = node ]; then touch {folder}/asked; until [ -e {folder}/go ]; do \
         sleep 0.01; done; fi\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_paddle"),
        folder = folder.display(),
    );
    write_script(&job, &script);
    job.write(0, "train.list", "a\nb\n");
    job.submit();
    job.wait_until("the host is asked", || folder.join("asked").exists());
    kill_conductor(&job);
    std::fs::write(folder.join("go"), "").unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.conductors), (JobState::Succeeded, 2), "{record:#?}");
    assert_eq!(job.text("trainer-0"), "0\n1\na\nb\n");
}

/// A host whose supervisor does not come at first is reached again, with the copy that it has.
pub(crate) fn a_package_is_copied_once_however_often_a_host_is_reached(harness: &dyn Harness) {
    let mut job = Job::new(harness, 2, "cat part");
    let source = job.folder().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("part"), "copied\n").unwrap();
    let folder = job.folder().to_owned();
    let Place::Ssh(place) = &mut job.submission.place else { return };
    // Every process of the job has the folder in its arguments.
    place.root_dir = format!("~{}", folder.display());
    place.paddle = folder.join("paddle").to_str().unwrap().to_owned();
    let script = format!(
        "#!/bin/sh\nif [ $1 = supervise ] && mkdir {}/failed 2>/dev/null; then exit 1; fi\n\
         exec {} \"$@\"\n",
        folder.display(),
        env!("CARGO_BIN_EXE_paddle"),
    );
    write_script(&job, &script);
    job.submission.package = Package::Dispatch(Manifest::scan(&source, &[]).unwrap());
    let job = job.with(|spec| spec.restarts = 1);
    job.block(job.jobs.submit(&job.submission, Some(&source))).unwrap();
    let record = job.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert!(folder.join("failed").exists());
    assert_eq!(job.text("trainer-1"), "copied\n");
}

/// What takes the place of `paddle` on hosts.
fn write_script(job: &Job<'_>, script: &str) {
    let path = job.folder().join("paddle");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}

/// The supervisor takes its machine's replicas with it; with restarts the job goes on.
pub(crate) fn a_killed_supervisor_is_a_fault_like_any_other(harness: &dyn Harness) {
    let kill = |job: &Job<'_>| {
        job.submit().await_file(0, "started-0");
        let supervisors = job.processes_running("supervise");
        // That of mpirun runs no replica: it is not the one to kill here.
        let victim = supervisors.iter().find(|pid| !arguments(**pid).contains("/mpirun\0"));
        let victim = victim.unwrap();
        signal(*victim, "KILL");
        job.await_end()
    };
    let record = kill(&Job::new(harness, 1, UNTIL_THE_SECOND).with(|spec| spec.restarts = 1));
    assert_eq!((record.state, record.rounds), (JobState::Succeeded, 1), "{record:#?}");
    let record = kill(&Job::new(harness, 1, UNTIL_THE_SECOND));
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("is lost with its host"), "{}", record.reason);
}
