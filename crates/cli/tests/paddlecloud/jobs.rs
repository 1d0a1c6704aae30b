//! Jobs from their submission to their end.

use super::cloud::{Cloud, wait_until};

#[test]
fn a_job_is_submitted_watched_and_ends() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi@example.com");
    let script = "echo trainer $PADDLE_INIT_TRAINER_ID of $TRAINERS, $GREETING\n";
    let flags = ["-parallelism", "2", "-pservers=1", "-env", "GREETING=hello there"];
    let submitted = home.submit("hello", script, &flags);
    assert_eq!(submitted.stderr.lines().next(), Some("sent 1 of 1 files (61 B)"), "{submitted:?}");
    assert_eq!(submitted.fine(), "hello submitted.\n");
    assert_eq!(home.run(&["wait", "hello"]).fine(), "hello: succeeded\n");
    let jobs = home.run(&["get", "jobs"]).fine();
    let rows: Vec<Vec<&str>> = jobs.lines().map(|row| row.split_whitespace().collect()).collect();
    let header = ["NUM", "NAME", "SUCC", "FAIL", "START", "COMP", "ACTIVE", "STATE", "PSERVERS"];
    assert_eq!(rows[0], header);
    assert_eq!((rows[1][..4].to_vec(), rows[1][6]), (vec!["0", "hello", "2", "0"], "0"));
    assert_eq!(rows[1][7], "Succeeded");
    let wide = home.run(&["get", "jobs", "-o", "wide"]).fine();
    let wide: Vec<Vec<&str>> = wide.lines().map(|row| row.split_whitespace().collect()).collect();
    let header =
        [&header[..], &["TRAINERS", "SUBMITTED", "QUEUE", "EXIT", "UID", "USER", "REASON"]]
            .concat();
    assert_eq!(wide[0], header);
    assert_eq!(wide[1][..7], rows[1][..7]);
    let yaml = home.run(&["get", "jobs", "-o", "yaml"]).fine();
    assert!(yaml.starts_with("- name: hello\n  uid: hello-"), "{yaml}");
    assert!(yaml.contains("\n  state: succeeded\n"), "{yaml}");
    let workers = home.run(&["get", "workers", "hello"]).fine();
    assert!(workers.starts_with("NAME             STATUS     START "), "{workers}");
    assert!(workers.contains("hello-trainer-1  Succeeded  2"), "{workers}");
    let logs = home.run(&["logs", "hello", "-role", "trainer"]).fine();
    let bar = "=".repeat(26);
    assert!(logs.contains(&format!("{bar}hello-trainer-1{bar}\n")), "{logs}");
    assert!(logs.contains("trainer 1 of 2, hello there\n"), "{logs}");
    assert!(!logs.contains("pserver-0="), "{logs}");
    let all = home.run(&["logs", "-all", "hello"]).fine();
    for worker in ["pserver-0", "trainer-0", "trainer-1"] {
        let headings = all.matches(&format!("{bar}hello-{worker}{bar}\n")).count();
        assert_eq!(headings, 1, "{all}");
    }
    let last = home.run(&["logs", "-n", "1", "-w", "hello-trainer-0", "hello"]).fine();
    assert_eq!(last, "trainer 0 of 2, hello there\n");
    let events = home.run(&["events", "hello"]).fine();
    assert!(events.contains("submitted"), "{events}");
    let described = home.run(&["describe", "hello"]).fine();
    assert!(described.contains("env:         GREETING=hello there\n"), "{described}");
}

#[test]
fn a_job_that_fails_says_why_and_the_exit_code_tells() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    let ended = home.submit("broken", "echo no luck\nexit 3\n", &["-follow"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("broken-trainer-0 | no luck\n"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("broken: failed\n"), "{}", ended.stdout);
    let why = home.run(&["why", "broken"]).fine();
    assert!(why.starts_with("failed: ") && why.contains('3'), "{why}");
    assert_eq!(home.run(&["wait", "broken"]).code, 1);
    assert_eq!(home.json(&["get", "jobs", "-o", "json"])[0]["exit_code"], 3);
}

#[test]
fn a_job_is_killed_and_removed_from_history() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.submit("long", "echo begun\nsleep 100\n", &[]).fine();
    wait_until("it has begun", || home.run(&["logs", "long"]).stdout.contains("begun\n"));
    let again = home.submit("long", "echo\n", &[]);
    assert_eq!(again.code, 1, "the name is taken: {again:?}");
    let scaled = home.run(&["scale", "long", "-trainers", "2"]);
    assert!(scaled.stderr.contains("submit it with -faulttolerant"), "{scaled:?}");
    let timeout = home.run(&["wait", "long", "-timeout", "100ms"]);
    assert_eq!(timeout.code, 1, "{timeout:?}");
    assert_eq!(home.run(&["delete", "job", "long"]).code, 1, "it runs");
    assert_eq!(home.run(&["kill", "-wait", "long"]).fine(), "long: killed\n");
    assert_eq!(home.state("long"), "killed");
    assert_eq!(home.run(&["kill", "long"]).fine(), "long had ended already: killed\n");
    let removed = home.run(&["kill", "-rm", "long"]).fine();
    assert_eq!(removed, "long had ended already: killed, and is removed from history\n");
    wait_until("it is removed", || home.run(&["describe", "long"]).code == 1);
    let gone = home.run(&["kill", "long"]);
    assert_eq!(gone.code, 1, "{gone:?}");
}

#[test]
fn a_job_is_run_again_exactly_as_it_was() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.submit("first", "echo version one, $A\n", &["-wait", "-env", "A=1"]).fine();
    // What is here has changed since, and does not matter.
    home.write("package/run.sh", "echo version two\n");
    home.run(&["resubmit", "first", "-jobname", "second", "-wait"]).fine();
    let log = home.run(&["logs", "second", "-w", "trainer-0"]).fine();
    assert!(log.ends_with("version one, 1\n"), "{log}");
    home.run(&["resubmit", "first", "-wait"]).fine();
    let digest =
        |job: &str| home.json(&["describe", job, "-o", "json"])["package"]["digest"].clone();
    assert_eq!(digest("first"), digest("second"));
    assert_eq!(home.json(&["get", "jobs", "-o", "json"]).as_array().unwrap().len(), 3);
    assert_eq!(home.run(&["resubmit", "third"]).code, 1);
}

#[test]
fn jobs_are_those_of_their_user_alone() {
    let cloud = Cloud::start();
    let (wuyi, eve) = (cloud.user("wuyi"), cloud.user("eve"));
    wuyi.submit("mine", "echo secret\n", &["-wait"]).fine();
    assert_eq!(eve.json(&["get", "jobs", "-o", "json"]).as_array().unwrap().len(), 0);
    for verb in ["describe", "logs", "why", "events", "kill", "resubmit"] {
        let ended = eve.run(&[verb, "mine"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{verb}: {ended:?}");
    }
    // Both may have a job of that name.
    eve.submit("mine", "echo mine too\n", &["-wait"]).fine();
}

#[test]
fn a_list_can_be_watched() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    let mut watch = home.command(&["get", "jobs", "-watch"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    assert!(lines.next().unwrap().unwrap().starts_with("NUM"));
    home.submit("short", "exit 0\n", &[]).fine();
    assert!(lines.any(|line| line.unwrap().contains("Succeeded")));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
