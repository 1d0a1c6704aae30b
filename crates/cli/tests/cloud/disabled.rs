//! Somebody who may not use the cloud any more: nothing of theirs goes on.

use super::server::{Server, wait_until};
use super::user::User;
use contract::state::JobState;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

const JOBS: &str = "/api/v2/datacenters/local/jobs";
const ENDLESS: &str = "while :; do echo line; sleep 0.02; done";

/// Follows until the server ends it, on a thread; whether it ended in the middle.
fn follow(user: &User, path: &str) -> std::thread::JoinHandle<bool> {
    let call = ureq::get(format!("{}{path}", user.url()));
    let response = call.header("Authorization", user.authorization()).call().unwrap();
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    assert!(lines.next().unwrap().is_ok(), "it has begun");
    std::thread::spawn(move || lines.any(|line| line.is_err()))
}

fn change(server: &Server, name: &str, change: &Value) {
    let path = format!("/api/v2/users/{name}");
    let json = ("Content-Type", "application/json");
    let answer = server.admin().send_with("PATCH", &path, json, change.to_string().as_bytes());
    let _: Value = answer.read();
}

/// The state of a job, as an administrator sees it.
fn state(server: &Server, uid: &str) -> JobState {
    server.admin().job(uid).job.state
}

#[test]
fn a_user_who_is_disabled_is_cut_off_and_their_jobs_end() {
    let server = Server::with_config("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let (wu, eve) = (server.user("wu"), server.user("eve"));
    let running = wu.submit("running", ENDLESS).uid;
    wu.wait_until("running", JobState::Running);
    let waiting = wu.submit("waiting", ENDLESS).uid;
    let others = eve.submit("others", "true").uid;
    let streams = [
        follow(&wu, &format!("{JOBS}/running/logs?follow=true")),
        follow(&wu, &format!("{JOBS}?watch=true")),
    ];
    change(&server, "wu", &json!({"is_enabled": false}));
    for stream in streams {
        assert!(stream.join().unwrap(), "a stream is broken off, so that nobody takes it for all");
    }
    assert_eq!(wu.get(JOBS).status, 401);
    assert_eq!(state(&server, &waiting), JobState::Killed);
    wait_until("the job to end", || state(&server, &running) == JobState::Killed);
    let why: Value = server.admin().get(&format!("{JOBS}/{waiting}/why")).read();
    assert!(why["sentence"].as_str().unwrap().contains("admin disabled its user"), "{why}");
    // There is room for others again.
    wait_until("the next job", || state(&server, &others) == JobState::Succeeded);
}

#[test]
fn jobs_of_a_disabled_user_go_on_if_that_is_asked_for() {
    let server = Server::start();
    let wu = server.user("wu");
    let script = "while [ ! -e ../../go ]; do sleep 0.02; done";
    let uid = wu.submit("job", script).uid;
    wu.wait_until("job", JobState::Running);
    change(&server, "wu", &json!({"is_enabled": false, "keeps_jobs": true}));
    assert_eq!(state(&server, &uid), JobState::Running);
    std::fs::write(server.data().join("files/local/home/wu/go"), "").unwrap();
    wait_until("the job to succeed", || state(&server, &uid) == JobState::Succeeded);
    let refused = server.admin().send_with(
        "PATCH",
        "/api/v2/users/wu",
        ("Content-Type", "application/json"),
        br#"{"keeps_jobs": true}"#,
    );
    assert!(refused.refusal(400).contains("keeps_jobs"), "{refused:?}");
}

#[test]
fn a_token_that_is_revoked_ends_what_is_followed_with_it_and_nothing_else() {
    let server = Server::start();
    let wu = server.user("wu");
    wu.submit("job", ENDLESS);
    wu.wait_until("job", JobState::Running);
    let body = json!({"label": "script", "ttl_seconds": 3600});
    let token: Value = wu.post("/api/v2/tokens", &body).read();
    let script = wu.with_token(token["token"].as_str().unwrap());
    let path = format!("{JOBS}/job/logs?follow=true");
    let (own, scripts) = (follow(&wu, &path), follow(&script, &path));
    let tokens: Vec<Value> = wu.get("/api/v2/tokens").read();
    let id = tokens.iter().find(|token| token["label"] == "script").unwrap()["id"].clone();
    assert_eq!(wu.delete(&format!("/api/v2/tokens/{}", id.as_str().unwrap())).status, 204);
    assert!(scripts.join().unwrap());
    // The other one sees the end of the job.
    wu.kill("job");
    assert!(!own.join().unwrap());
}
