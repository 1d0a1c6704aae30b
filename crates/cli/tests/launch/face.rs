//! What `paddle launch` prints without running anything: plans, wrong calls, help.

use super::job::write_script;
use std::process::Command;

/// Exit code, standard output and standard error of one call, without what differs each time.
fn transcript(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("my_job");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("train.py"), "").unwrap();
    write_script(&workspace.join("train.sh"), "#!/bin/sh\n");
    write_script(&folder.path().join("python"), "#!/bin/sh\n");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.arg("launch").args(args).current_dir(&workspace).env("USER", "wuyi");
    command.env("PATH", path).env("PADDLE_JOBS_DIR", folder.path().join(".jobs"));
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
        "--checkpoint_interval=1m",
        "--restore=3",
        "--task_timeout=20",
        "--chunk_per_task=2",
        "--metrics_port=9100",
        "--env=MY_OWN=a b",
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
fn a_dry_run_under_mpi_names_the_ranks() {
    insta::assert_snapshot!(transcript(&[
        "--dry-run",
        "--backend=mpi",
        "-n",
        "3",
        "--hostfile=/etc/hosts",
        "--mpirun_args=--map-by node",
        "--async",
        "--trainers=2",
        "--pservers=1",
        "python",
        "train.py",
        "-n",
        "3",
    ]));
}

#[test]
fn wrong_calls_for_clusters_say_what_to_do() {
    let calls: [&[&str]; 23] = [
        &["--hosts=a,b"],
        &["--hosts=a,a", "-p", ".", "--", "true"],
        &["--hosts=a", "-p", ".", "-j", "/x", "--", "true"],
        &["--hosts=a", "-j", "x", "--", "true"],
        &["--hosts=a", "-j", "/x", "--trainer_id=1"],
        &["--hosts=a", "-j", "/x", "--lr=1", "true"],
        &["--hosts=a", "-j", "/x", "--show_stat", "--", "true"],
        &["--hosts=a", "-j", "/x", "--log_dir=/logs", "true"],
        &["--hosts=a", "-j", "/x", "--output_dir=../out", "true"],
        &["--hosts=a", "-p", ".", "trian.py"],
        &["--backend=ssh", "--", "true"],
        &["--backend=mpi", "--", "true"],
        &["--backend=mpi", "-n", "2", "--hostfile=missing", "--", "true"],
        &["--backend=mpi", "-n", "0", "true"],
        &["-n", "2", "true"],
        &["-p", ".", "true"],
        &["--mpi", "--detach", "true"],
        &["--mpi", "--mpirun_args=-x A", "true"],
        &["--mpi", "--namespace=n", "true"],
        &["--backend=mpi", "-n", "2", "--remote_paddle=/opt/paddle", "true"],
        &["--hosts=a", "-j", "/x", "--no_pid_namespace", "true"],
        &["--backend=kubernetes", "--image=i", "--nics=eth0", "--", "true"],
        &["--backend=slurm", "--no_pid_namespace", "--", "true"],
    ];
    insta::assert_snapshot!(calls.map(transcript).concat());
}

#[test]
fn wrong_calls_say_what_to_do() {
    let calls: [&[&str]; 30] = [
        &[],
        &["trian.py", "--lr=1"],
        &["python", "trian.py"],
        &["./train"],
        &["--trainer=2", "train.py"],
        &["--trainers=two", "train.py"],
        &["--trainers", "-1", "train.py"],
        &["--restore", "train.py"],
        &["--restore=3", "--checkpoint_dir=ck", "--", "true"],
        &["--task_timeout=20", "train.py"],
        &["--time_limit=soon", "train.py"],
        &["--trainers=2", "--"],
        &["--trainers=0", "--", "true"],
        &["--sync", "--async", "--", "true"],
        &["--mode=fast", "--", "true"],
        &["--env=MINE", "--", "true"],
        &["--env=PADDLE_PORT=1", "--", "true"],
        &["--workspace=missing", "--", "true"],
        &["--workspace=train.py", "--", "true"],
        &["--restarts", "-1", "train.py"],
        &["--time_limit", "-5", "train.py"],
        &["--pservers=2", "--port=65533", "--", "true"],
        &["--port=7164", "--", "true"],
        &["--ports_num_for_sparse=2", "--trainers=2", "--pservers=0", "--", "true"],
        &["--ready_timeout=9", "--", "true"],
        &["--nics=eth0", "--", "true"],
        &["--remote_paddle=/opt/paddle", "--", "true"],
        &["--config=conf.py", "--local"],
        &["--config=conf.py", "train.py"],
        &["--config=conf.py", "--start_pserver=1"],
    ];
    insta::assert_snapshot!(calls.map(transcript).concat());
}

#[test]
fn the_help_page_is_complete() {
    insta::assert_snapshot!(transcript(&["--help"]));
}
