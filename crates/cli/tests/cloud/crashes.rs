//! `kill -9` of the server in every phase of a job: nothing is lost, nothing runs twice, logs are
//! whole.

use super::server::{Server, wait_for, wait_until};
use super::user::{User, program_lines};
use contract::api::job::Job;
use contract::api::log::LogPiece;
use contract::state::JobState;
use serde_json::Value;
use std::path::Path;
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

/// How often a test tries to stop a server in the middle of something.
const TRIES: u32 = 30;

#[test]
fn a_job_whose_start_was_interrupted_is_started_once() {
    let mut server = Server::start();
    let mut user = server.user("wu");
    // It takes a while to be laid out.
    let weights = "x".repeat(64 << 20);
    let files = [("train.sh", script(false)), ("weights", weights)];
    let package = user.upload(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let runs = server.data().join("files/local/home/wu/runs");
    for number in 0..TRIES {
        let name = format!("job-{number}");
        let mut body = user.submission(&name, "", |_| ());
        body["package"] = package.clone().into();
        let _ = std::fs::remove_file(&runs);
        let job: Job = user.submit_body(&body).read();
        wait_until("its start", || user.job(&name).job.state != JobState::Pending);
        server.suspend(true);
        let is_interrupted = !server.data().join("jobs/local").join(&job.uid).exists();
        if is_interrupted {
            server.kill();
            assert!(!runs.exists());
            server.restart();
            user = user.at(&server);
        } else {
            server.suspend(false);
        }
        check(&server, &user, &name);
        if is_interrupted {
            return;
        }
    }
    panic!("no start was interrupted");
}

#[test]
fn a_job_whose_end_was_being_written_down_has_its_whole_log() {
    let mut server = Server::start();
    let mut user = server.user("wu");
    let lines = 800_000;
    let script = format!(
        "while [ ! -e ../../go ]; do sleep 0.02; done\n\
         seq -f 'line %09.0f of a long log, of which much is archived after the end' {lines}"
    );
    for number in 0..TRIES {
        let name = format!("job-{number}");
        let job = user.submit(&name, &script);
        user.wait_until(&name, JobState::Running);
        // It ends while the server looks away, which then has all of the log before it.
        server.suspend(true);
        open_gate(&server, &user);
        let state = server.data().join("jobs/local").join(&job.uid).join("state.json");
        wait_until("its end", || is_over(&state));
        let archive = server.data().join("logs/local").join(&job.uid);
        server.suspend(false);
        wait_until("the archive to grow", || bytes_below(&archive) > 1 << 20);
        server.suspend(true);
        let is_interrupted = bytes_below(&archive) < lines * 64;
        if is_interrupted {
            server.kill();
            server.restart();
            user = user.at(&server);
        } else {
            server.suspend(false);
        }
        user.wait_until(&name, JobState::Succeeded);
        let path = format!("/api/v2/datacenters/local/jobs/{name}/logs?follow=true&role=trainer");
        let pieces = user.stream(&path).map(|piece| serde_json::from_str(&piece).unwrap());
        let text: String = pieces.map(|piece: LogPiece| piece.text).collect();
        let text = program_lines(&text);
        let number = |line: &str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        assert!(text.lines().map(number).eq(1..=lines), "{} lines", text.lines().count());
        if is_interrupted {
            return;
        }
        std::fs::remove_file(server.data().join("files/local/home/wu/go")).unwrap();
    }
    panic!("no end was interrupted");
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
        true => bytes_below(&entry.path()),
        false => entry.metadata().map_or(0, |metadata| metadata.len()),
    });
    bytes.sum()
}

/// Whether the backend has written down that a job ended well.
fn is_over(state: &Path) -> bool {
    let text = std::fs::read_to_string(state).unwrap_or_default();
    serde_json::from_str(&text).is_ok_and(|record: Value| record["state"] == "succeeded")
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
    wait_until("its end", || is_over(&state));
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
