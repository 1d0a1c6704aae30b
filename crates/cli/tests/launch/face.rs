//! What `paddle launch` prints: plans, wrong calls, the end as JSON.

use super::job::{Job, spawn};
use super::local::Local;
use std::process::Command;

const LOCAL: Local = Local { flags: &[] };

/// Exit code, standard output and standard error of one call, without what differs each time.
fn transcript(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("my_job");
    std::fs::create_dir(&workspace).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.arg("launch").args(args).current_dir(&workspace).env("USER", "wuyi");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let shown = format!(
        "$ paddle launch {}\n{}{}[exit {}]\n",
        args.join(" "),
        text(output.stdout),
        text(output.stderr),
        output.status.code().unwrap(),
    );
    let root = folder.path().canonicalize().unwrap();
    shown
        .replace(root.to_str().unwrap(), "<folder>")
        .replace(env!("CARGO_BIN_EXE_paddle"), "<paddle>")
}

#[test]
fn a_dry_run_shows_every_process_with_its_environment() {
    insta::assert_snapshot!(transcript(&[
        "--dry-run",
        "--trainers=2",
        "--pservers=2",
        "--master",
        "--dataset=data/*.recordio",
        "--async",
        "--passes=3",
        "--trainer_count=4",
        "--checkpoint_dir=checkpoint",
        "--env=MY_OWN=a b",
        "--",
        "python",
        "train.py",
        "--title",
        "two words",
    ]));
}

#[test]
fn a_dry_run_with_fixed_ports_knows_them_and_speaks_json() {
    insta::assert_snapshot!(transcript(&[
        "--dry-run",
        "-o",
        "json",
        "--pservers=2",
        "--port=7164",
        "--ports_num=2",
        "--",
        "./train.sh",
    ]));
}

#[test]
fn a_dry_run_on_ssh_hosts_reaches_nobody() {
    insta::assert_snapshot!(transcript(&[
        "--dry-run",
        "--hosts=root@192.168.100.17,root@192.168.100.18:9090",
        "--job_dispatch_package=.",
        "--root_dir=/home/paddle",
        "--nics=eth0",
        "--dot_period=10",
        "--num_passes=10",
        "--show_layer_stat",
    ]));
}

#[test]
fn a_dry_run_under_mpi_shows_the_mpirun() {
    insta::assert_snapshot!(transcript(&[
        "--dry-run",
        "--backend=mpi",
        "-n",
        "3",
        "--hostfile=/etc/hosts",
        "--mpirun_args=--map-by node",
        "--async",
        "--",
        "python",
        "train.py",
        "-n",
        "3",
    ]));
}

#[test]
fn wrong_calls_for_clusters_say_what_to_do() {
    let calls: [&[&str]; 11] = [
        &["--hosts=a,b"],
        &["--hosts=a,a", "-p", ".", "--", "true"],
        &["--hosts=a", "-p", ".", "-j", "/x", "--", "true"],
        &["--hosts=a", "-j", "x", "--", "true"],
        &["--hosts=a", "-j", "/x", "--config=trainer_config.py"],
        &["--hosts=a", "-j", "/x", "--trainer_id=1"],
        &["--hosts=a", "-j", "/x", "--lr=1", "--", "true"],
        &["--hosts=a", "--trainers=2", "-j", "/x", "--", "true"],
        &["--backend=ssh", "--", "true"],
        &["--backend=mpi", "--", "true"],
        &["--backend=mpi", "-n", "2", "--hostfile=missing", "--", "true"],
    ];
    insta::assert_snapshot!(calls.map(transcript).concat());
}

#[test]
fn wrong_calls_say_what_to_do() {
    let calls: [&[&str]; 9] = [
        &[],
        &["--trainers=2", "--"],
        &["--trainers=0", "--", "true"],
        &["--sync", "--async", "--", "true"],
        &["--mode=fast", "--", "true"],
        &["--env=MINE", "--", "true"],
        &["--env=PADDLE_PORT=1", "--", "true"],
        &["--workspace=missing", "--", "true"],
        &["--pservers=2", "--port=65533", "--", "true"],
    ];
    insta::assert_snapshot!(calls.map(transcript).concat());
}

#[test]
fn the_help_page_is_complete() {
    insta::assert_snapshot!(transcript(&["--help"]));
}

#[test]
fn as_json_the_record_is_all_of_standard_output() {
    let job = Job::new(&LOCAL, 1);
    let metrics = r#"echo '{"cost": 0.5, "pass": 1}' > $PADDLE_LOG_DIR/metrics.jsonl"#;
    let script = format!("mkdir -p $PADDLE_LOG_DIR; {metrics}; echo hello; exit 7");
    let ended = job.run(&["-o", "json"], &script);
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(ended.stderr.contains("trainer-0 | hello"), "{ended:?}");
    let record: scheduler::JobRecord = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(record.state, contract::state::JobState::Failed);
    assert_eq!(record.exit_code, Some(7));
    assert_eq!(record.culprit, Some("trainer-0".parse().unwrap()));
    let trainer = record.replica("trainer-0".parse().unwrap()).unwrap();
    assert_eq!(trainer.metrics, Some(serde_json::json!({"cost": 0.5, "pass": 1})));
    let written = std::fs::read_to_string(job.folder().join("log/state.json")).unwrap();
    assert_eq!(serde_json::from_str::<scheduler::JobRecord>(&written).unwrap(), record);
}

#[test]
fn a_job_goes_on_when_nobody_reads_its_output_any_more() {
    let job = Job::new(&LOCAL, 1);
    let script = "touch started; until [ -e closed ]; do sleep 0.01; done; seq 100000; touch done";
    let mut launch = spawn(job.command(&[], &["sh", "-c", script]));
    job.await_file(0, "started");
    drop(launch.stdout.take());
    std::fs::write(job.folder().join("closed"), "").unwrap();
    assert_eq!(job.finish(launch).code, 0);
    assert!(job.folder().join("done").exists());
}
