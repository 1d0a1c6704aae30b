//! `paddle master` as a process: ready, killed with no warning, back again, and stopped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contract::port::Endpoint;
use contract::ready::Ready;
use contract::role::Role;
use contract::secret::Secret;
use master::client::{Blocking, ClientConfig, Next, fresh_incarnation};
use master::records::{ReadOptions, Records};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "one per job";

/// A running master, killed when dropped.
struct Process {
    child: Child,
    port: u16,
}

impl Process {
    /// Starts a master in `folder` and waits until it serves.
    fn start(folder: &Path, port: u16) -> Self {
        let mut child = command(folder)
            .args(["master", "--nics=lo", "--dataset", "lines-*", "--chunk_per_task=2"])
            .args(["--chunk_bytes=100", "--state_dir=state", "--passes=1", "--task_timeout=1h"])
            .arg(format!("--port={port}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = Ready::parse(&line).unwrap().expect("the first line says that it is ready");
        assert_eq!(ready.role, Role::Master);
        Process { child, port: ready.ports.first }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.port).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.current_dir(folder).env("PADDLE_JOB_TOKEN", TOKEN);
    command
}

fn status(folder: &Path, endpoint: &Endpoint, format: &str) -> String {
    let endpoint = format!("--endpoint={endpoint}");
    let output =
        command(folder).args(["master", "status", &endpoint, "-o", format]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_master_that_is_killed_at_every_task_deals_every_record_out_once() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..40).map(|line| format!("record {file} {line}\n")).collect();
        std::fs::write(folder.path().join(format!("lines-{file}")), lines).unwrap();
    }
    let mut process = Process::start(folder.path(), 0);
    let (port, endpoint) = (process.port, process.endpoint());
    let config = ClientConfig {
        name: "trainer 0".to_owned(),
        token: Some(Secret::new(TOKEN)),
        ..ClientConfig::new(fresh_incarnation())
    };
    let client = Blocking::connect(config, &endpoint, None).unwrap();
    let mut records = Vec::new();
    loop {
        let task = match client.next_task(PATIENCE).unwrap() {
            Next::Task(task) => task,
            Next::PassOver(over) => {
                assert_eq!(over.set_aside, 0);
                break;
            }
            other => panic!("{other:?}"),
        };
        // SIGKILL, between the lease and the end of the task.
        drop(process);
        process = Process::start(folder.path(), port);
        let lease = task.lease();
        let mut reader = Records::open(task.pieces, ReadOptions::default()).unwrap();
        while let Some(record) = reader.read().unwrap() {
            records.push(String::from_utf8(record.to_vec()).unwrap());
        }
        assert!(client.finish(lease, None).unwrap(), "the lease survived");
    }
    assert_eq!(client.next_task(PATIENCE).unwrap(), Next::AllOver);
    let expected: Vec<String> =
        (0..120).map(|line| format!("record {} {}", line / 40, line % 40)).collect();
    assert_eq!(records, expected);
}

#[test]
fn status_shows_the_queue_and_sigterm_ends_it_well() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lines-0"), "a line of text\n".repeat(50)).unwrap();
    let mut process = Process::start(folder.path(), 0);
    let endpoint = process.endpoint();
    insta::assert_snapshot!(status(folder.path(), &endpoint, "text"), @r"
    PASS    TASKS  TODO  PENDING  DONE  SET ASIDE
    0 of 1  4      4     0        0     0
    ");
    insta::assert_snapshot!("status_as_json", status(folder.path(), &endpoint, "json"));
    let stranger = Command::new(env!("CARGO_BIN_EXE_paddle"))
        .args(["master", "status", &format!("--endpoint={endpoint}")])
        .output()
        .unwrap();
    assert_eq!(stranger.status.code(), Some(1), "without the token: {stranger:?}");
    let pid = process.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(process.child.wait().unwrap().success());
}
