//! The local backend's promise: a job outlives its submitter and is found again by its handle.

use super::job::{processes_with, signal, wait_until};
use contract::job::JobSpec;
use contract::port::Ports;
use contract::secret::Secret;
use contract::state::{JobState, State};
use contract::{Kind, Result};
use scheduler::local::Local;
use scheduler::{Backend, Handle, Observation, ReplicaId, Submission};
use std::path::Path;

fn backend() -> Local {
    Local { paddle: env!("CARGO_BIN_EXE_paddle").into() }
}

pub(crate) fn submission(folder: &Path, entry: &str) -> Submission {
    let spec = JobSpec {
        name: "job".to_owned(),
        user: "wuyi".to_owned(),
        datacenter: "local".to_owned(),
        package: folder.to_str().unwrap().to_owned(),
        entry: entry.to_owned(),
        trainers: 2,
        pservers: 1,
        ..JobSpec::default()
    };
    Submission {
        spec,
        program: Vec::new(),
        token: Secret::new("sesame"),
        directory: folder.join("job"),
        log_dir: folder.join("log"),
        output_dir: folder.join("output"),
        checkpoint_dir: None,
        restore: false,
        dataset: Vec::new(),
        master_passes: 0,
        ports: Ports { first: 0, ..Ports::default() },
        restarts: 0,
        ready_seconds: 60,
    }
}

/// Waits on a runtime that is gone afterwards, as that of a submitter that died.
pub(crate) fn block<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

fn observe(handle: &Handle) -> Observation {
    block(backend().observe(handle)).unwrap()
}

pub(crate) fn await_end(backend: &dyn Backend, handle: &Handle) -> Observation {
    let observe = || block(backend.observe(handle)).unwrap();
    wait_until("the job's end", || observe().state.is_final());
    observe()
}

pub(crate) fn trainer(rank: u32) -> ReplicaId {
    ReplicaId::new(contract::role::Role::Trainer, rank)
}

#[test]
fn a_submitted_job_is_found_again_and_its_logs_are_read_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let entry = "echo hello; until [ -e go ]; do sleep 0.01; done; echo bye $PADDLE_JOB_TOKEN";
    let handle = block(backend().submit(&submission(folder.path(), entry))).unwrap();
    let json = serde_json::to_string(&handle).unwrap();
    let handle: Handle = serde_json::from_str(&json).unwrap();
    let logs = |offset| block(backend().logs(&handle, trainer(1), offset)).unwrap();
    wait_until("the first line", || logs(0) == b"hello\n");
    wait_until("the job runs", || observe(&handle).state == JobState::Running);
    assert_eq!(observe(&handle).replicas.len(), 3);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let end = await_end(&backend(), &handle);
    assert_eq!((end.state, end.exit_code), (JobState::Succeeded, Some(0)), "{end:?}");
    assert_eq!(logs(6), b"bye sesame\n");
    assert_eq!(logs(1000), b"");
    let stranger = block(backend().logs(&handle, trainer(7), 0)).unwrap_err();
    assert_eq!(stranger.kind(), Kind::NotFound);
    // An end is no obstacle to asking for it.
    block(backend().kill(&handle)).unwrap();
    assert_eq!(observe(&handle).state, JobState::Succeeded);
    let again = block(backend().submit(&submission(folder.path(), entry))).unwrap_err();
    assert_eq!(again.kind(), Kind::AlreadyExists);
}

#[test]
fn a_failed_job_keeps_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let handle = block(backend().submit(&submission(folder.path(), "exit 9"))).unwrap();
    let end = await_end(&backend(), &handle);
    assert_eq!((end.state, end.exit_code), (JobState::Failed, Some(9)));
    assert!(end.reason.contains("failed: exited with code 9"), "{}", end.reason);
}

#[test]
fn a_job_can_be_killed() {
    let folder = tempfile::tempdir().unwrap();
    let handle = block(backend().submit(&submission(folder.path(), "exec sleep 1000"))).unwrap();
    wait_until("the job runs", || observe(&handle).state == JobState::Running);
    block(backend().kill(&handle)).unwrap();
    assert_eq!(await_end(&backend(), &handle).state, JobState::Killed);
    let marker = folder.path().to_str().unwrap();
    wait_until("nothing is left", || processes_with(marker).is_empty());
}

#[test]
fn a_job_whose_conductor_is_killed_fails_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let handle = block(backend().submit(&submission(folder.path(), "exec sleep 1000"))).unwrap();
    wait_until("the job runs", || observe(&handle).state == JobState::Running);
    let holder = std::fs::read_to_string(folder.path().join("job/conductor.lock")).unwrap();
    signal(holder.trim().parse().unwrap(), "KILL");
    let end = await_end(&backend(), &handle);
    assert_eq!(end.state, JobState::Failed);
    assert!(end.reason.contains("died"), "{}", end.reason);
    let marker = folder.path().to_str().unwrap();
    wait_until("nothing is left", || processes_with(marker).is_empty());
}

#[test]
fn what_is_no_job_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let id = folder.path().join("missing").to_str().unwrap().to_owned();
    let handle = Handle { backend: "local".to_owned(), id };
    assert_eq!(block(backend().observe(&handle)).unwrap_err().kind(), Kind::NotFound);
    let other = Handle { backend: "moon".to_owned(), ..handle };
    assert_eq!(block(backend().observe(&other)).unwrap_err().kind(), Kind::Invalid);
}
