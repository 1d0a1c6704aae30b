//! A launch that is watched from its terminal: what is shown, how it is ended, and what it says at
//! the end.

use super::job::{Job, signal, spawn};
use contract::state::JobState;
use std::os::unix::process::CommandExt;

#[test]
fn a_python_file_runs_with_its_flags_and_without_dashes() {
    let job = Job::new();
    job.write("train.py", "import sys\nprint(sys.argv[1:])\n");
    let check = |arguments: &[&str]| {
        let mut all = vec!["launch"];
        all.extend(arguments);
        let ended = job.run_to_the_end(job.paddle(&all));
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stdout, "trainer-0 | ['--trainers', '3', '--', '-n']\n");
    };
    check(&["train.py", "--trainers", "3", "--", "-n"]);
    check(&["--passes=2", "python3", "train.py", "--trainers", "3", "--", "-n"]);
    check(&["--", "python3", "-u", "train.py", "--trainers", "3", "--", "-n"]);
}

#[test]
fn lines_carry_their_replica_and_the_end_is_a_summary() {
    let job = Job::new();
    let ended =
        job.run_to_the_end(job.launch(&["--trainers=2"], "echo one; echo two >&2; printf three"));
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..2 {
        let prefix = format!("trainer-{rank} | ");
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix(&prefix));
        assert_eq!(lines.collect::<Vec<_>>(), ["one", "two", "three"], "{ended:?}");
    }
    assert!(!ended.stdout.contains('\x1b'), "colours only on a terminal: {ended:?}");
    assert!(!ended.stdout.contains("paddle_ready"), "{ended:?}");
    let figures = r#"{"cost": 0.5, "pass": 1, "batch": 7, "samples_per_second": 10.4, "metrics": {"auc": 0.75}}"#;
    let script = format!(
        "mkdir -p $PADDLE_LOG_DIR $PADDLE_OUTPUT_DIR; echo '{figures}' > $PADDLE_LOG_DIR/metrics.jsonl; \
         touch $PADDLE_OUTPUT_DIR/model; echo hello"
    );
    let quiet = job.run_to_the_end(job.launch(&["--quiet"], &script));
    assert_eq!((quiet.code, quiet.stdout.as_str()), (0, ""), "{quiet:?}");
    let folder = job.folder().canonicalize().unwrap();
    let (first, rest) = quiet.stderr.split_once('\n').unwrap();
    assert!(first.starts_with("paddle launch: succeeded in "), "{quiet:?}");
    insta::assert_snapshot!(rest.replace(folder.to_str().unwrap(), "<folder>"), @r"
      speed        10 samples/s
      cost         0.50000  auc 0.75000  (pass 1, batch 7)
      logs         <folder>/log
      model        <folder>/output
    ");
}

#[test]
fn a_failure_is_told_once_with_library_frames_folded() {
    let job = Job::new();
    job.write(
        "train.py",
        "import json, os, time\n\
         if os.environ['PADDLE_TRAINER_ID'] == '1':\n    json.loads('{')\n\
         time.sleep(1000)\n",
    );
    let mut command =
        job.paddle(&["launch", "--allow-idle", "--trainers=2", "--quiet", "train.py"]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = job.run_to_the_end(command);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("trainer-1 failed"), "{ended:?}");
    assert!(ended.stderr.contains("train.py\", line 3, in <module>"), "{ended:?}");
    assert!(ended.stderr.contains("      … 3 frames of libraries\n"), "{ended:?}");
    assert!(ended.stderr.contains("    json.decoder.JSONDecodeError: Expecting"), "{ended:?}");
    assert_eq!(ended.stderr.matches("Traceback").count(), 1, "{ended:?}");
    assert!(job.read("log/trainer-1.log").contains("decoder.py"), "the log has everything");
}

#[test]
fn as_json_the_record_is_all_of_standard_output() {
    let job = Job::new();
    let ended = job.run_to_the_end(job.launch(&["-o", "json"], "echo hello; exit 7"));
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(ended.stderr.contains("trainer-0 | hello"), "{ended:?}");
    let record: scheduler::JobRecord = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(7)));
    assert_eq!(record.culprit, Some("trainer-0".parse().unwrap()));
    let listed = job.run(job.paddle(&["jobs", "--all", "-o", "json"]));
    assert_eq!(listed.stdout, "[]\n", "a job that ended before our eyes is not kept");
}

#[test]
fn a_program_that_is_not_there_stops_the_launch_before_it_begins() {
    let job = Job::new();
    job.write("train.py", "");
    let check = |program: &[&str], code: i32, words: &str| {
        let mut command = job.paddle(&["launch"]);
        command.args(program);
        let ended = job.run(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    };
    check(&["trian.py"], 127, "there is no program `trian.py` here");
    check(&["python3", "trian.py"], 127, "there_are: train.py");
    check(&["no-such-command"], 127, "no such command in PATH");
    check(&["/etc/passwd"], 126, "is not executable");
    assert!(!job.folder().join("log").exists() && !job.folder().join(".jobs").exists());
}

#[test]
fn control_c_lets_programs_finish_and_a_second_one_does_not() {
    let job = Job::new();
    let polite =
        "trap 'echo saved > saved; exit 0' TERM; touch started; while :; do sleep 0.01; done";
    // A terminal sends the signal to everything in the foreground.
    let mut command = job.launch(&["--pservers=1"], polite);
    command.process_group(0);
    let launch = spawn(command);
    job.await_file("started");
    signal(format!("-{}", launch.id()), "INT");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert_eq!(job.read("saved"), "saved\n");
    assert!(ended.stderr.contains("paddle launch: killed after "), "{ended:?}");

    let deaf = "trap 'touch asked' TERM; touch deaf; while :; do sleep 0.01; done";
    let launch = spawn(job.launch(&["--grace=1h"], deaf));
    job.await_file("deaf");
    signal(launch.id(), "TERM");
    job.await_file("asked");
    signal(launch.id(), "TERM");
    assert_eq!(job.finish(launch).code, 143);
}

#[test]
fn what_does_not_end_in_its_grace_is_killed() {
    let job = Job::new();
    let script = "trap '' TERM; touch started; while :; do sleep 0.01; done";
    let launch = job.launch(&["--grace=1"], script);
    // The tests may run under nohup themselves.
    let mut listening = job.command("env", &["--default-signal=HUP"]);
    listening.arg(launch.get_program()).args(launch.get_args());
    let launch = spawn(listening);
    job.await_file("started");
    signal(launch.id(), "HUP");
    assert_eq!(job.finish(launch).code, 129);
}

#[test]
fn under_nohup_a_hang_up_ends_nothing() {
    let job = Job::new();
    let script = "touch started; until [ -e go ]; do sleep 0.01; done; echo done";
    let launch = job.launch(&[], script);
    let mut nohup = job.command("sh", &["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    nohup.arg(launch.get_program()).args(launch.get_args()).process_group(0);
    let launch = spawn(nohup);
    job.await_file("started");
    signal(format!("-{}", launch.id()), "HUP");
    job.write("go", "");
    let ended = job.finish(launch);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "trainer-0 | done\n"), "{ended:?}");
}

#[test]
fn a_killed_launcher_takes_all_down() {
    let job = Job::new();
    let script = "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & \
                  touch started; sleep 1000";
    let launch = spawn(job.launch(&["--pservers=1"], script));
    job.await_file("started");
    signal(launch.id(), "KILL");
    assert_eq!(job.finish(launch).code, 137);
}

#[test]
fn a_job_goes_on_when_nobody_reads_its_output_any_more() {
    let job = Job::new();
    let script = "touch started; until [ -e closed ]; do sleep 0.01; done; seq 100000; touch done";
    let mut launch = spawn(job.launch(&[], script));
    job.await_file("started");
    drop(launch.stdout.take());
    job.write("closed", "");
    assert_eq!(job.finish(launch).code, 0);
    assert!(job.folder().join("done").exists());
}

#[test]
fn a_restart_is_said_and_the_last_failure_is_the_end() {
    let job = Job::new();
    let ended =
        job.run_to_the_end(job.launch(&["--restarts=1"], "echo attempt $PADDLE_ATTEMPT; exit 5"));
    assert_eq!(ended.code, 5, "{ended:?}");
    assert_eq!(job.read("log/trainer-0.log"), "attempt 0\nattempt 1\n");
    let said = "trainer-0 is started again, attempt 1: exited with code 5";
    assert!(ended.stderr.contains(said), "{ended:?}");
    assert!(ended.stderr.contains("trainer-0 failed after 1 of 1 restarts"), "{ended:?}");
}

#[test]
fn checkpoints_of_an_earlier_job_are_not_mistaken_for_those_of_this_one() {
    let job = Job::new();
    // At the top of a disk.
    job.write("kept/lost+found/one", "");
    let flags = ["--pservers=1", "--checkpoint_dir=kept"];
    assert_eq!(job.run(job.launch(&flags, "true")).code, 0);
    job.write("kept/cut-000007/one", "");
    let ended = job.run(job.launch(&flags, "true"));
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("continue it with --restore"), "{ended:?}");
}

/// Restarts are for what dies: they do not turn what was asked for into something else.
#[test]
fn a_checkpoint_that_is_not_there_fails_the_job_whatever_may_be_started_again() {
    let job = Job::new();
    for restore in ["--restore", "--restore=7"] {
        let flags = ["--pservers=2", "--restarts=3", "--checkpoint_dir=kept", restore];
        let ended = job.run(job.launch(&flags, "touch trained"));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("there is no checkpoint"), "{ended:?}");
        assert!(!job.folder().join("trained").exists(), "{ended:?}");
    }
}

#[test]
fn flags_of_servers_and_the_master_reach_them() {
    let job = Job::new();
    job.write("data.txt", "one\ntwo\n");
    let flags = [
        "--pservers=1",
        "--checkpoint_dir=kept",
        "--checkpoint_interval=1h",
        "--master",
        "--dataset=data.txt",
        "--chunk_per_task=1",
        "--task_timeout=1m",
        "--time_limit=1h",
    ];
    let status = format!(
        "{} master status --endpoint $PADDLE_MASTER_ENDPOINT -o json > status",
        env!("CARGO_BIN_EXE_paddle")
    );
    let ended = job.run_to_the_end(job.launch(&flags, &status));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(job.read("status").contains("todo"), "{}", job.read("status"));
}
