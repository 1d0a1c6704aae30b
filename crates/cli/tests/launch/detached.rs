//! Jobs that go on without their launcher, and the commands by which they are found again.

use super::job::{Ended, Job, signal, spawn, wait_until};
use super::processes::{arguments, processes_with};
use std::io::{BufRead, BufReader, Read};

/// A detached job whose trainer runs this script; its id.
fn detach(job: &Job, flags: &[&str], script: &str) -> String {
    let mut all = vec!["--detach"];
    all.extend(flags);
    let ended = job.run(job.launch(&all, script));
    assert_eq!(ended.code, 0, "{ended:?}");
    let id = ended.stdout.trim().to_owned();
    assert!(ended.stderr.contains(&format!("paddle attach {id}")), "{ended:?}");
    id
}

fn paddle(job: &Job, line: &str) -> Ended {
    job.run(job.paddle(&line.split(' ').collect::<Vec<_>>()))
}

const WAIT: &str = "echo hello $PADDLE_TRAINER_ID; touch started; \
                    until [ -e go ]; do sleep 0.01; done; echo bye; exit 3";

#[test]
fn a_detached_job_is_followed_to_its_end_and_forgotten() {
    let job = Job::new();
    let id = detach(&job, &["--name=demo"], WAIT);
    job.await_file("started");
    let listed = paddle(&job, "jobs");
    assert!(listed.stdout.contains(&id) && listed.stdout.contains("local"), "{listed:?}");
    let attached = spawn(job.paddle(&["attach", "demo"]));
    job.write("go", "");
    let ended = job.finish(attached);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "trainer-0 | hello 0\ntrainer-0 | bye\n"));
    assert!(ended.stderr.starts_with("paddle attach: failed after "), "{ended:?}");
    // The beginning of an id will do.
    let again = paddle(&job, &format!("attach {} --quiet -o json", &id[..id.len() - 2]));
    let record: scheduler::JobRecord = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((again.code, record.exit_code, record.id), (3, Some(3), id.clone()));
    assert!(paddle(&job, "jobs").stdout.contains("failed"));
    assert_eq!(paddle(&job, &format!("jobs --forget {id}")).code, 0);
    assert_eq!(paddle(&job, "jobs --all -o json").stdout, "[]\n");
    assert_eq!(paddle(&job, &format!("attach {id}")).code, 1);
}

#[test]
fn logs_are_printed_whole_in_part_and_as_they_come() {
    let job = Job::new();
    let script = "printf 'one\\ntwo\\nthree\\n'; touch started; \
                  until [ -e go ]; do sleep 0.01; done; printf 'four\\377'";
    let id = detach(&job, &[], script);
    job.await_file("started");
    wait_until("the lines are there", || {
        paddle(&job, &format!("logs {id} -r trainer-0")).stdout == "one\ntwo\nthree\n"
    });
    let last = paddle(&job, &format!("logs {id} -n 2"));
    assert_eq!(last.stdout, "trainer-0 | two\ntrainer-0 | three\n", "{last:?}");
    let mut followed = spawn(job.paddle(&["logs", &id, "--follow", "--lines=1"]));
    let mut printed = BufReader::new(followed.stdout.take().unwrap());
    let mut lines = String::new();
    printed.read_line(&mut lines).unwrap();
    job.write("go", "");
    printed.read_to_string(&mut lines).unwrap();
    assert_eq!(lines, "trainer-0 | three\ntrainer-0 | four\u{fffd}\n");
    assert_eq!(job.finish(followed).code, 0);
    let raw = job.paddle(&["logs", &id, "-r", "trainer-0"]).output().unwrap().stdout;
    assert_eq!(raw, b"one\ntwo\nthree\nfour\xff");
    let none = paddle(&job, &format!("logs {id} -r trainer-1"));
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("there_are: trainer-0"), "{none:?}");
}

#[test]
fn leaving_does_not_end_the_job_and_killing_does() {
    let job = Job::new();
    let id = detach(
        &job,
        &[],
        "trap 'echo saved; exit 0' TERM; touch started; while :; do sleep 0.01; done",
    );
    job.await_file("started");
    let attached = spawn(job.paddle(&["attach", &id]));
    wait_until("signals are listened to", || catches_interrupts(attached.id()));
    signal(attached.id(), "INT");
    let output = attached.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    wait_until("the job runs on", || paddle(&job, "jobs").stdout.contains("running"));
    let killed = job.run_to_the_end(job.paddle(&["kill", &id]));
    assert_eq!((killed.code, killed.stdout), (0, format!("{id}: killed\n")));
    let said = paddle(&job, &format!("logs {id} -r trainer-0")).stdout;
    assert!(said.ends_with("saved\n"), "{said}");
}

/// Whether a process has said what SIGINT, the second of the signals, shall do.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_deaf_job_is_killed_by_force() {
    let job = Job::new();
    let id =
        detach(&job, &["--grace=1h"], "trap '' TERM; touch started; while :; do sleep 0.01; done");
    job.await_file("started");
    let killed = job.run_to_the_end(job.paddle(&["kill", "--force", &id]));
    assert_eq!((killed.code, killed.stdout), (0, format!("{id}: killed\n")));
}

#[test]
fn a_detached_job_survives_its_conductor() {
    let job = Job::new();
    let script = "echo attempt $PADDLE_ATTEMPT; touch started-$PADDLE_ATTEMPT; \
                  until [ -e go ]; do sleep 0.01; done";
    let id = detach(&job, &["--restarts=1"], script);
    job.await_file("started-0");
    // What a conductor has not taken in yet when it is killed is in the replica's own log alone.
    wait_until("the line is kept", || paddle(&job, &format!("logs {id}")).stdout.contains('0'));
    let marker = job.folder().to_str().unwrap();
    let is_conductor = |pid: &u32| arguments(*pid).contains("\0--guarded\0");
    let conductor = processes_with(marker).into_iter().find(is_conductor).unwrap();
    signal(conductor, "KILL");
    job.await_file("started-1");
    job.write("go", "");
    let ended = job.run_to_the_end(job.paddle(&["attach", &id]));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.stdout, "trainer-0 | attempt 0\ntrainer-0 | attempt 1\n");
}

#[test]
fn two_jobs_do_not_share_a_log_directory() {
    let job = Job::new();
    let id = detach(&job, &[], "touch started; sleep 1000");
    job.await_file("started");
    let second = job.run(job.launch(&[], "true"));
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains("another job is writing to this log directory"), "{second:?}");
    assert_eq!(job.run_to_the_end(job.paddle(&["kill", &id])).code, 0);
}

#[test]
fn a_name_means_a_job_that_runs_where_one_is_to_end() {
    let job = Job::new();
    let running = detach(&job, &["--name=one", "--log_dir=log1"], WAIT);
    let ended = detach(&job, &["--name=one", "--log_dir=log2"], "true");
    assert_eq!(paddle(&job, &format!("attach {ended}")).code, 0);
    let killed = job.run_to_the_end(job.paddle(&["kill", "one"]));
    assert_eq!(killed.stdout, format!("{running}: killed\n"), "{killed:?}");
}

#[test]
fn a_job_whose_cluster_does_not_answer_stays_in_the_list() {
    let job = Job::new();
    let kubeconfig = job.folder().join("kubeconfig");
    // Nobody answers there, and nobody refuses.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{
            "name": "c",
            "cluster": {"server": format!("http://{}", silent.local_addr().unwrap())},
        }],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let place = scheduler::submission::KubernetesPlace {
        kubeconfig: Some(kubeconfig),
        namespace: "default".to_owned(),
        ..Default::default()
    };
    job.write(".jobs/.kubernetes/far-k3x2aa.json", &serde_json::to_string(&place).unwrap());
    let id = detach(&job, &["--name=near"], WAIT);
    let listed = paddle(&job, "jobs");
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains(&id), "{listed:?}");
    let line = listed.stdout.lines().find(|line| line.starts_with("far-k3x2aa")).unwrap();
    assert!(line.contains("not known: "), "{listed:?}");
    // Who names a job asks about no other.
    assert_eq!(job.run_to_the_end(job.paddle(&["kill", &id])).code, 0);
}

#[test]
fn a_word_that_means_no_job_or_several_is_refused() {
    let job = Job::new();
    detach(&job, &["--name=one", "--log_dir=log1"], "true");
    detach(&job, &["--name=one", "--log_dir=log2"], "true");
    let none = paddle(&job, "attach two");
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("there is no such job on this machine"), "{none:?}");
    let several = paddle(&job, "attach on");
    assert_eq!(several.code, 2);
    assert!(several.stderr.contains("more than one job begins so"), "{several:?}");
    assert_eq!(paddle(&job, "attach one").code, 0, "the newest of a name");
}
