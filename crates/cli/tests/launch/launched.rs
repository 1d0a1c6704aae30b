//! Jobs on ssh hosts and under MPI that outlive their submitter, and are found again by a handle.

use super::backend::{await_end, block, submission, trainer};
use super::component;
use super::job::{processes_with, wait_until};
use super::sshd::machines;
use contract::state::JobState;
use scheduler::launched::{Launched, Place};
use scheduler::{Backend, Submission};
use std::path::Path;

/// A package of its own, and a job of two trainers for it.
fn job(folder: &Path, entry: &str) -> Submission {
    let package = folder.join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("machines"), "127.0.0.1 slots=2\n").unwrap();
    let mut job = submission(folder, entry);
    job.spec.package = package.to_str().unwrap().to_owned();
    job.spec.pservers = 2;
    job.spec.env.insert("MY_OWN".to_owned(), folder.to_str().unwrap().to_owned());
    job
}

fn launched(place: Place) -> Launched {
    Launched::new(env!("CARGO_BIN_EXE_paddle").into(), place)
}

fn ssh() -> Option<Launched> {
    let machines = machines()?;
    let hosts = machines.hosts(3).split(',').map(str::to_owned).collect();
    let flags = vec![format!("--ssh_config={}", machines.ssh_config().display())];
    Some(launched(Place::Ssh { hosts, flags }))
}

fn mpi(folder: &Path) -> Option<Launched> {
    component::find("mpirun")?;
    let hostfile = Some(folder.join("package/machines"));
    let flags = vec![format!("--mpi_port={}", super::mpi::free_port())];
    Some(launched(Place::Mpi { hostfile, flags }))
}

fn check_end(backend: &dyn Backend, job: &Submission) {
    let handle = block(backend.submit(job)).unwrap();
    let logs = |rank| block(backend.logs(&handle, trainer(rank), 0)).unwrap();
    wait_until("both trainers run", || (0..2).all(|rank| logs(rank).starts_with(b"hello")));
    let observe = || block(backend.observe(&handle)).unwrap();
    wait_until("the job runs", || observe().state == JobState::Running);
    assert_eq!(observe().replicas.len(), 4);
    let go = Path::new(&job.spec.env["MY_OWN"]).join("go");
    std::fs::write(go, "").unwrap();
    let end = await_end(backend, &handle);
    assert_eq!((end.state, end.exit_code), (JobState::Failed, Some(7)), "{end:?}");
    assert!(end.reason.contains("trainer-1 failed"), "{end:?}");
    assert_eq!(logs(0), b"hello\nbye 0\n");
}

fn check_kill(backend: &dyn Backend, job: &Submission) {
    let handle = block(backend.submit(job)).unwrap();
    let is_running = || block(backend.observe(&handle)).unwrap().state == JobState::Running;
    wait_until("the job runs", is_running);
    block(backend.kill(&handle)).unwrap();
    assert_eq!(await_end(backend, &handle).state, JobState::Killed);
    let marker = &job.spec.env["MY_OWN"];
    wait_until("nothing is left", || processes_with(marker).is_empty());
}

const ENTRY: &str = "echo hello; until [ -e \"$MY_OWN/go\" ]; do sleep 0.01; done; \
                     echo bye $PADDLE_TRAINER_ID; if [ $PADDLE_TRAINER_ID = 1 ]; then \
                     until [ -e \"$MY_OWN/said\" ]; do sleep 0.01; done; exit 7; fi; \
                     touch \"$MY_OWN/said\"";

#[test]
fn a_job_on_ssh_hosts_is_found_again_and_keeps_its_end() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(backend) = ssh() {
        check_end(&backend, &job(folder.path(), ENTRY));
    }
}

#[test]
fn a_job_under_mpi_is_found_again_and_keeps_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), ENTRY);
    if let Some(backend) = mpi(folder.path()) {
        check_end(&backend, &job);
    }
}

#[test]
fn a_job_on_ssh_hosts_can_be_killed() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(backend) = ssh() {
        check_kill(&backend, &job(folder.path(), "exec sleep 1000"));
    }
}

#[test]
fn a_job_under_mpi_can_be_killed() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path(), "exec sleep 1000");
    if let Some(backend) = mpi(folder.path()) {
        check_kill(&backend, &job);
    }
}
