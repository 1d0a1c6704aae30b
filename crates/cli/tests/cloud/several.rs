//! Several servers on one Postgres: one runs the jobs, all serve, and any may die.

use super::postgres::Postgres;
use super::server::Server;
use contract::api::job::Job;
use contract::state::JobState;
use serde_json::Value;

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
    sql(&postgres, "UPDATE schema_version SET version = 1");
}

fn sql(postgres: &Postgres, statement: &str) {
    let status = std::process::Command::new("psql")
        .args(["-q", "-d", &postgres.url(), "-c", statement])
        .status();
    assert!(status.unwrap().success());
}
