//! What replicas print, while they do and long after.

use super::server::{Server, wait_for};
use super::user::{User, program_lines};
use contract::api::job::Job;
use contract::api::log::LogPiece;
use contract::state::JobState;
use serde_json::Value;

const JOBS: &str = "/api/v2/datacenters/local/jobs";

fn pieces(user: &User, path: &str) -> Vec<LogPiece> {
    user.stream(path).map(|line| serde_json::from_str(&line).unwrap()).collect()
}

fn text_of(pieces: &[LogPiece], worker: &str) -> String {
    let own = pieces.iter().filter(|piece| piece.worker == worker);
    program_lines(&own.map(|piece| piece.text.as_str()).collect::<String>())
}

#[test]
fn logs_are_followed_while_they_are_written_and_kept_after_everything_else_is_gone() {
    let mut server = Server::start();
    let user = server.user("wu");
    let script = "echo first; while [ ! -e ../../go ]; do sleep 0.02; done; echo last";
    let body = user.submission("job", script, |spec| (spec.trainers, spec.pservers) = (2, 1));
    let _: Job = user.submit_body(&body).read();
    let path = format!("{JOBS}/job/logs?follow=true");
    let follower = user.clone();
    let followed = std::thread::spawn(move || pieces(&follower, &path));
    wait_for("the first line", || user.log("job", "trainer-1").contains("first").then_some(()));
    std::fs::write(server.data().join("files/local/home/wu/go"), "").unwrap();
    let all = followed.join().unwrap();
    for worker in ["job-trainer-0", "job-trainer-1"] {
        assert_eq!(text_of(&all, worker), "first\nlast\n", "{all:?}");
    }
    assert!(text_of(&all, "job-pserver-0").contains("paddle_ready"), "{all:?}");
    assert_eq!(all.iter().filter(|piece| piece.is_last).count(), 3);
    user.wait_until("job", JobState::Succeeded);
    server.kill();
    server.restart();
    let user = user.at(&server);
    // The backend has forgotten the job; its logs are there.
    wait_for("the backend to forget", || {
        let jobs = std::fs::read_dir(server.data().join("jobs/local")).unwrap().flatten();
        let names: Vec<_> = jobs.map(|entry| entry.file_name()).collect();
        names.iter().all(|name| name.to_string_lossy().starts_with('.')).then_some(())
    });
    let tail: Vec<LogPiece> =
        user.get(&format!("{JOBS}/job/logs?worker=job-trainer-0&tail=1")).read();
    assert_eq!(text_of(&tail, "job-trainer-0"), "last\n");
    let servers: Vec<LogPiece> = user.get(&format!("{JOBS}/job/logs?role=pserver")).read();
    assert!(servers.iter().all(|piece| piece.worker == "job-pserver-0"));
    assert_eq!(user.delete(&format!("{JOBS}/job")).status, 204);
    assert_eq!(user.get(&format!("{JOBS}/job/logs")).status, 404);
    wait_for("the archive to go", || {
        let logs = server.data().join("logs/local");
        (std::fs::read_dir(logs).unwrap().count() == 0).then_some(())
    });
}

#[test]
fn a_follower_goes_on_where_it_was_by_its_cursors() {
    let server = Server::start();
    let user = server.user("wu");
    user.submit(
        "job",
        "printf 'one\\ntwo\\nthr'; sleep 0.1; printf 'ee\\ngr\\303'; sleep 0.1; printf '\\274n\\n'",
    );
    user.wait_until("job", JobState::Succeeded);
    let whole = user.log("job", "trainer-0");
    assert_eq!(whole, "one\ntwo\nthree\ngrün\n");
    let all: Vec<LogPiece> = user.get(&format!("{JOBS}/job/logs?tail=2")).read();
    assert_eq!(text_of(&all, "job-trainer-0"), "three\ngrün\n");
    let end = all.last().unwrap().cursor.clone();
    let path = format!("{JOBS}/job/logs?cursors=job-trainer-0%3D{end}");
    let rest: Vec<LogPiece> = user.get(&path).read();
    assert_eq!(text_of(&rest, "job-trainer-0"), "");
    for (query, status) in [
        ("worker=job-trainer-9", 404),
        ("worker=../../etc", 404),
        ("cursors=x", 400),
        ("cursors=job-trainer-0%3D-1", 400),
        ("tail=-1", 400),
        ("role=boss", 400),
        ("colour=red", 400),
    ] {
        assert_eq!(user.get(&format!("{JOBS}/job/logs?{query}")).status, status, "{query}");
    }
}

#[test]
fn a_long_log_is_cut_at_its_beginning_and_says_so() {
    let server = Server::with_config("limits: {log_bytes: 1048576}");
    let user = server.user("wu");
    // About 6 MiB.
    user.submit(
        "job",
        "seq -f 'line %012.0f of a log that is far too long for what is kept' 100000",
    );
    user.wait_until("job", JobState::Succeeded);
    let all = pieces(&user, &format!("{JOBS}/job/logs?follow=true"));
    let text = text_of(&all, "job-trainer-0");
    assert!(text.len() < 2 << 20, "{}", text.len());
    assert!(text.contains("line 000000100000 of"), "the end is there");
    assert!(all[0].skipped_bytes > 0, "{:?}", all[0].skipped_bytes);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let number = |line: &str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(lines.windows(2).all(|pair| number(pair[0]) + 1 == number(pair[1])));
}

/// What the server has in memory, in bytes.
fn resident_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_log_that_is_longer_than_what_is_kept_is_followed_without_a_loss() {
    // More than 1 GiB.
    let lines = 14_000_000;
    // A follower may be as far behind as that, whatever else the machine does.
    let server = Server::with_config("limits: {log_bytes: 67108864}");
    let user = server.user("wu");
    let line = "line %012.0f of a log that is far too long for what is kept, so it is cut";
    user.submit("job", &format!("seq -f '{line}' {lines}"));
    let (mut next, mut bytes, mut skipped, mut most, mut pieces) = (1, 0, 0, 0, 0);
    let mut rest = String::new();
    let before = resident_bytes(&server);
    for piece in user.stream(&format!("{JOBS}/job/logs?follow=true&worker=trainer-0")) {
        let piece: LogPiece = serde_json::from_str(&piece).unwrap();
        (bytes, skipped) = (bytes + piece.text.len(), skipped + piece.skipped_bytes);
        rest.push_str(&piece.text);
        let end = rest.rfind('\n').map_or(0, |end| end + 1);
        for line in program_lines(&rest[..end]).lines() {
            let number = line.split(' ').nth(1).and_then(|number| number.parse::<u64>().ok());
            assert_eq!(number, Some(next), "{line} after {bytes} bytes, {skipped} skipped");
            next += 1;
        }
        rest.drain(..end);
        pieces += 1;
        if pieces % 16 == 0 {
            most = most.max(resident_bytes(&server));
            // Others are answered meanwhile.
            assert_eq!(user.get(&format!("{JOBS}?limit=1")).status, 200);
        }
    }
    assert_eq!((next - 1, skipped), (lines, 0));
    let grown = most.saturating_sub(before);
    assert!(grown < 96 << 20, "the server grew by {grown} bytes for {bytes} of log");
    user.wait_until("job", JobState::Succeeded);
}

#[test]
fn a_list_is_watched_as_it_changes() {
    let server = Server::start();
    let user = server.user("wu");
    user.submit("before", "true");
    user.wait_until("before", JobState::Succeeded);
    let mut lines = user.stream(&format!("{JOBS}?watch=true"));
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap()).unwrap();
    assert_eq!(next()["name"], "before");
    user.submit("job", "true");
    let mut states = vec!["".to_owned()];
    while states.last().unwrap() != "succeeded" {
        let change = next();
        if change["name"] == "job" {
            states.push(change["state"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(states.iter().filter(|state| *state == "succeeded").count(), 1);
}
