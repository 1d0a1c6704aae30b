//! `kill -9` of the server in every phase of a job: nothing is lost, nothing runs twice, logs are
//! whole.

use super::server::{Server, wait_for};
use super::user::User;
use contract::state::JobState;
use serde_json::Value;
use std::time::Duration;

/// Prints numbered lines for about a second, and leaves a mark in the home for each run. Waits in
/// the middle for a file if it is told to.
fn script(waits: bool) -> String {
    let gate = if waits { "while [ ! -e ../../go ]; do sleep 0.02; done" } else { ":" };
    format!(
        "echo run >> ../../runs\ni=0\nwhile [ $i -lt 50 ]; do i=$((i+1)); echo line $i; sleep 0.01; \
         done\n{gate}\nwhile [ $i -lt 100 ]; do i=$((i+1)); echo line $i; sleep 0.01; done\n"
    )
}

fn lines() -> String {
    (1..=100).map(|number| format!("line {number}\n")).collect()
}

/// The job has run exactly once, and all it printed is there.
fn check(server: &Server, user: &User, name: &str) {
    user.wait_until(name, JobState::Succeeded);
    assert_eq!(user.log(name, "trainer-0"), lines());
    let runs = server.data().join("files/local/home").join(&user.name).join("runs");
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "run\n");
}

fn open_gate(server: &Server, user: &User) {
    let home = server.data().join("files/local/home").join(&user.name);
    std::fs::write(home.join("go"), "").unwrap();
}

#[test]
fn a_job_survives_the_death_of_the_server_at_any_moment_of_its_life() {
    let mut server = Server::start();
    for (index, delay_ms) in [0, 10, 30, 60, 100, 150, 250, 500, 1000, 1500].iter().enumerate() {
        let user = server.user(&format!("user{index}"));
        user.submit("job", &script(false));
        // Not a wait for something: a moment of its life.
        std::thread::sleep(Duration::from_millis(*delay_ms));
        server.kill();
        server.restart();
        check(&server, &user.at(&server), "job");
    }
}

#[test]
fn a_queued_job_starts_after_the_server_died() {
    let mut server = Server::with_config("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let (first, second) = (server.user("first"), server.user("second"));
    first.submit("first", &script(true));
    first.wait_until("first", JobState::Running);
    second.submit("second", &script(false));
    wait_for("a reason", || {
        second.why("second").contains("it needs 1 replicas, 1 of 1 are in use").then_some(())
    });
    server.kill();
    server.restart();
    let (first, second) = (first.at(&server), second.at(&server));
    assert_eq!(second.job("second").job.state, JobState::Pending);
    open_gate(&server, &first);
    check(&server, &first, "first");
    check(&server, &second, "second");
}

#[test]
fn a_running_job_is_taken_up_again_also_when_it_ended_meanwhile() {
    let mut server = Server::start();
    let user = server.user("wu");
    user.submit("job", &script(true));
    wait_for("its first half", || user.log("job", "trainer-0").contains("line 50").then_some(()));
    server.kill();
    server.restart();
    let user = user.at(&server);
    assert_eq!(user.job("job").job.state, JobState::Running);
    server.kill();
    open_gate(&server, &user);
    // It ends while nobody looks.
    let state = server.data().join("jobs/local");
    let state = std::fs::read_dir(state).unwrap().flatten();
    let state = state.map(|entry| entry.path().join("state.json")).find(|path| path.exists());
    let state = state.unwrap();
    wait_for("its end", || {
        let text = std::fs::read_to_string(&state).ok()?;
        let record: Value = serde_json::from_str(&text).ok()?;
        (record["state"] == "succeeded").then_some(())
    });
    server.restart();
    check(&server, &user.at(&server), "job");
}

#[test]
fn a_request_to_end_a_job_survives_the_death_of_the_server() {
    let mut server = Server::start();
    let user = server.user("wu");
    user.submit("job", "trap '' TERM; while :; do sleep 0.05; done");
    user.wait_until("job", JobState::Running);
    assert_eq!(user.kill("job").state, JobState::Killing);
    server.kill();
    server.restart();
    let user = user.at(&server);
    user.wait_until("job", JobState::Killed);
    assert!(user.why("job").contains("wu asked to end it"), "{}", user.why("job"));
}

#[test]
fn a_server_that_is_told_to_end_leaves_jobs_running() {
    let mut server = Server::start();
    let user = server.user("wu");
    user.submit("job", &script(true));
    user.wait_until("job", JobState::Running);
    assert_eq!(server.stop(), Some(0));
    server.restart();
    let user = user.at(&server);
    assert_eq!(user.job("job").job.state, JobState::Running);
    open_gate(&server, &user);
    check(&server, &user, "job");
}

#[test]
fn a_submission_that_is_repeated_because_its_answer_was_lost_is_one_job() {
    let mut server = Server::start();
    let user = server.user("wu");
    let body = user.submission("job", &script(false), |_| ());
    // The server dies at about the time of the answer, again and again, until it is heard.
    let mut user = user;
    for delay_us in [0_u64, 500, 1000, 2000, 4000, 8000] {
        let (own, sent) = (user.clone(), body.clone());
        let call = std::thread::spawn(move || {
            let _ = own.try_post("/api/v2/datacenters/local/jobs", &sent);
        });
        std::thread::sleep(Duration::from_micros(delay_us));
        server.kill();
        call.join().unwrap();
        server.restart();
        user = user.at(&server);
    }
    let answer = user.submit_body(&body);
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    check(&server, &user, "job");
    let list: Value = user.get("/api/v2/datacenters/local/jobs").read();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}
