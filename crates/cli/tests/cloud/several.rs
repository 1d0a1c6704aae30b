//! Several servers on one Postgres: one runs the jobs, all serve, and any may die.

use super::component;
use super::postgres::Postgres;
use super::server::{PATIENCE, Server, wait_until};
use super::slurm_cluster;
use contract::api::job::Job;
use contract::state::JobState;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn two_servers_share_the_work_and_survive_each_other() {
    let Some(postgres) = Postgres::start() else { return };
    let mut first = Server::with("", &["--database", &postgres.url()]);
    let user = first.user("wu");
    let mut second = Server::beside(&first);
    // What one accepted the other knows.
    let script = "echo begun; while [ ! -e ../../go ]; do sleep 0.02; done; echo over";
    let body = user.submission("job", script, |spec| spec.trainers = 2);
    let _: Job = user.at(&second).submit_body(&body).read();
    user.at(&second).wait_until("job", JobState::Running);
    assert_eq!(user.job("job").job.state, JobState::Running);
    // The one that runs the jobs dies: the other takes over.
    first.kill();
    let user = user.at(&second);
    user.submit("next", "echo next");
    user.wait_until("next", JobState::Succeeded);
    std::fs::write(first.data().join("files/local/home/wu/go"), "").unwrap();
    user.wait_until("job", JobState::Succeeded);
    for worker in ["trainer-0", "trainer-1"] {
        assert_eq!(user.log("job", worker), "begun\nover\n");
    }
    // It comes back, and the other one dies.
    first.restart();
    second.kill();
    let user = user.at(&first);
    user.submit("last", "echo last");
    user.wait_until("last", JobState::Succeeded);
    assert_eq!(user.log("last", "trainer-0"), "last\n");
    let list: Value = user.get("/api/v2/datacenters/local/jobs").read();
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[test]
fn jobs_with_processes_on_a_machine_wait_for_a_server_there() {
    let Some(postgres) = Postgres::start() else { return };
    let mut first = Server::with("", &["--database", &postgres.url()]);
    let user = first.user("wu");
    let script = "echo run >> ../../runs; while [ ! -e ../../go ]; do sleep 0.02; done; echo over";
    user.submit("job", script);
    user.wait_until("job", JobState::Running);
    let Some(second) = elsewhere(&first) else { return };
    first.kill();
    let there = user.at(&second);
    there.submit("next", "echo next");
    let why = |name: &str| {
        there.get(&format!("/api/v2/datacenters/local/jobs/{name}/why")).read::<Value>().to_string()
    };
    wait_until("the other machine's server to say so", || {
        why("next").contains("have processes on")
    });
    assert!(second.log().contains("where no server lives"), "{}", second.log());
    assert!(rows(&postgres, "SELECT 1 FROM leases WHERE machine = 'another'") == 0);
    let home = first.data().join("files/local/home/wu");
    std::fs::write(home.join("go"), "").unwrap();
    assert_eq!(there.job("job").job.state, JobState::Running);
    assert_eq!(there.job("next").job.state, JobState::Pending);
    first.restart();
    let user = user.at(&first);
    user.wait_until("job", JobState::Succeeded);
    user.wait_until("next", JobState::Succeeded);
    assert_eq!(user.log("job", "trainer-0"), "over\n");
    assert_eq!(std::fs::read_to_string(home.join("runs")).unwrap(), "run\n");
    wait_until("nothing to be said any more", || !why("next").contains("have processes on"));
    // Where nothing of its jobs is left, any machine may go on.
    wait_until("the first to be done", || {
        rows(&postgres, "SELECT 1 FROM jobs WHERE is_forgotten = 0") == 0
    });
    first.kill();
    there.submit("last", "echo last");
    there.wait_until("last", JobState::Succeeded);
}

/// A conductor belongs to the machine of its server; the nodes of its job do not.
#[test]
fn a_job_on_slurm_is_finished_by_the_server_that_is_left() {
    let (Some(postgres), Some(cluster)) = (Postgres::start(), slurm_cluster::cluster()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "datacenters: [{{name: queue, backend: slurm, slurm: {{conf: {}, partition: main, \
         root_dir: {}, paddle: {}, shares_files: true}}}}]",
        cluster.conf(),
        folder.path().display(),
        env!("CARGO_BIN_EXE_paddle"),
    );
    let mut first = Server::with(&yaml, &["--database", &postgres.url()]);
    let user = first.user("wu").within("queue");
    let script = "echo $PADDLE_ATTEMPT >> ../../attempts\n\
                  while [ ! -e ../../go ]; do sleep 0.02; done\necho over >> ../../overs";
    let body = user.submission("job", script, |spec| spec.restarts = 1);
    let _: Job = user.submit_body(&body).read();
    let home = first.data().join("files/queue/home/wu");
    let attempts = || std::fs::read_to_string(home.join("attempts")).unwrap_or_default();
    wait_until("it to run on a node", || attempts() == "0\n");
    user.wait_until("job", JobState::Running);
    // On what takes itself for another machine, where it is possible.
    let Some(second) = elsewhere(&first) else { return };
    first.kill();
    let jobs = first.data().join("jobs/queue");
    let mut killed = 0;
    wait_until("the first machine's processes to be gone", || {
        let own = conductors(jobs.to_str().unwrap());
        killed += own.len();
        for pid in &own {
            let pid = rustix::process::Pid::from_raw(*pid).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        own.is_empty()
    });
    assert!(killed > 0);
    // The round without a conductor is over, and another one has begun.
    let user = user.at(&second);
    wait_until("another attempt", || attempts() == "0\n1\n");
    std::fs::write(home.join("go"), "").unwrap();
    user.wait_until("job", JobState::Succeeded);
    assert_eq!(std::fs::read_to_string(home.join("overs")).unwrap(), "over\n");
    wait_until("nothing is left in the queue", || {
        cluster.call("squeue", &["--noheader"]).is_empty()
    });
}

/// Another server on the same data and database, on what it takes for another machine; `None`, with a
/// word about it, where the kernel does not permit that.
fn elsewhere(other: &Server) -> Option<Server> {
    let mut server = Server::guest(other);
    let id = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(id.path(), "another\n").unwrap();
    let script = "if [ -e /etc/machine-id ]; then mount --bind \"$0\" /etc/machine-id; \
                  else echo another > /proc/sys/kernel/hostname; fi && exec \"$@\"";
    let command = |rest: &Command| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "sh", "-c", script]).arg(id.path());
        command.arg(rest.get_program()).args(rest.get_args());
        command
    };
    if !command(&Command::new("true")).status().is_ok_and(|status| status.success()) {
        return component::missing("sandbox", "no namespaces of mounts and names here");
    }
    let command = command(&server.command());
    server.run(command);
    Some(server)
}

/// The conductors, and their guards, of the jobs below a directory.
fn conductors(jobs: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_own = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("\0conduct\0") && words.contains(jobs)
    };
    pids.filter(is_own).collect()
}

#[test]
fn a_server_that_is_suspended_while_it_writes_holds_up_no_other() {
    let Some(postgres) = Postgres::start() else { return };
    let mut first = Server::with("", &["--database", &postgres.url()]);
    let user = first.user("wu");
    let second = Server::beside(&first);
    let body = user.submission("job", "echo done", |_| ());
    let pid = rustix::process::Pid::from_raw(i32::try_from(first.pid()).unwrap()).unwrap();
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Ended(&is_over);
        // Changes all the time, until it has stopped in the middle of one.
        for _ in 0..4 {
            scope.spawn(|| {
                let token = json!({"label": "script", "ttl_seconds": 60});
                let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
                let agent: ureq::Agent = config.build().into();
                while !is_over.load(Ordering::Relaxed) {
                    let call = agent.post(format!("{}/api/v2/tokens", user.url()));
                    let call = call.header("Authorization", user.authorization());
                    let _ = call.send(token.to_string().as_bytes());
                }
            });
        }
        let held = "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) \
                    WHERE locktype = 'advisory' AND granted AND state = 'idle in transaction'";
        wait_until("a server that stopped in the middle", || {
            signal(Signal::STOP);
            let is_held = rows(&postgres, held) > 0;
            if !is_held {
                signal(Signal::CONT);
            }
            is_held
        });
        let user = user.at(&second);
        // One that waited for too long is told to come again.
        wait_until("the other server to accept a job", || user.submit_body(&body).status == 201);
        user.wait_until("job", JobState::Succeeded);
        is_over.store(true, Ordering::Relaxed);
        first.kill();
    });
}

#[test]
fn many_submissions_through_two_servers_are_counted_together() {
    let Some(postgres) = Postgres::start() else { return };
    let first = Server::with("quota: {jobs: 10, replicas: 1}", &["--database", &postgres.url()]);
    let second = Server::beside(&first);
    let user = first.user("wu");
    let bodies: Vec<Value> = (0..20)
        .map(|number| {
            user.submission(&format!("job-{number}"), "while :; do sleep 0.05; done", |_| ())
        })
        .collect();
    let accepted = std::thread::scope(|scope| {
        let send = |(index, body): (usize, &Value)| {
            let user = if index % 2 == 0 { user.at(&first) } else { user.at(&second) };
            let body = body.clone();
            scope.spawn(move || user.submit_body(&body).status)
        };
        let calls: Vec<_> = bodies.iter().enumerate().map(send).collect();
        let statuses: Vec<u16> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| [201, 413].contains(status)), "{statuses:?}");
        statuses.iter().filter(|status| **status == 201).count()
    });
    assert_eq!(accepted, 10);
    let list: Value = user.get("/api/v2/datacenters/local/jobs?state=starting,running").read();
    assert!(list["items"].as_array().unwrap().len() <= 1);
}

#[test]
fn a_database_of_another_data_directory_or_a_newer_release_is_refused() {
    let Some(postgres) = Postgres::start() else { return };
    let url = postgres.url();
    let mut first = Server::with("", &["--database", &url]);
    let output = Server::prepared("", &["--database", &url]).command().output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("another data directory"), "{error}");
    first.stop();
    sql(&postgres, "UPDATE schema_version SET version = 1000");
    let output = first.command().output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("newer release"), "{error}");
}

/// Says that a test has ended, also by a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many rows a question has.
fn rows(postgres: &Postgres, question: &str) -> usize {
    let output = Command::new("psql")
        .args(["-q", "-t", "-A", "-d", &postgres.url(), "-c", question])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().count()
}

fn sql(postgres: &Postgres, statement: &str) {
    let status = Command::new("psql").args(["-q", "-d", &postgres.url(), "-c", statement]).status();
    assert!(status.unwrap().success());
}
