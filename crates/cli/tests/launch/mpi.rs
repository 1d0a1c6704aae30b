//! Under Open MPI: `paddle launch --backend mpi`, and ranks of an `mpirun` of the user's own.

use super::component;
use super::job::{Job, signal, spawn};
use super::repository;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A folder with a list of machines; none where there is no `mpirun`.
fn prepare(count: u32) -> Option<Job> {
    component::find("mpirun")?;
    let job = Job::new();
    job.write("machines", &format!("127.0.0.1 slots={count}\n"));
    Some(job)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The user's own `mpirun`, as in the documents.
fn mpirun(job: &Job, count: u32, script: &str) -> Command {
    let mut command = job.command("mpirun", &["-hostfile", "machines", "-n", &count.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_paddle")).args(["launch", "--mpi", "--port=0", "--allow-idle"]);
    command.arg(format!("--mpi_port={}", free_port())).args(["sh", "-c", script]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

#[test]
fn mpirun_is_run_and_its_ranks_share_the_work() {
    let Some(job) = prepare(2) else { return };
    let script = "echo $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM on $OMPI_COMM_WORLD_RANK";
    let flags = ["--backend=mpi", "-n", "2", "--port=0", "--trainers=3", "--pservers=1"];
    let ended = job.run_to_the_end(job.launch(&flags, script));
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..3 {
        let expected = format!("{rank} of 3 on {}\n", rank % 2);
        assert_eq!(job.read(&format!("log/trainer-{rank}.log")), expected);
    }
}

#[test]
fn an_interrupt_ends_a_job_under_mpi_in_order() {
    let Some(job) = prepare(2) else { return };
    let script = "trap 'echo saved > saved-$PADDLE_TRAINER_ID; exit 0' TERM; \
                  touch started-$PADDLE_TRAINER_ID; while :; do sleep 0.01; done";
    let launch = spawn(job.launch(&["--backend=mpi", "-n", "2", "--port=0"], script));
    job.await_file("started-0");
    job.await_file("started-1");
    signal(launch.id(), "INT");
    assert_eq!(job.finish(launch).code, 130);
    assert_eq!((job.read("saved-0"), job.read("saved-1")), ("saved\n".into(), "saved\n".into()));
}

#[test]
fn ranks_of_a_plain_mpirun_find_each_other_and_share_a_token() {
    let Some(job) = prepare(3) else { return };
    let script = "echo $OMPI_COMM_WORLD_RANK $PADDLE_INIT_TRAINER_ID $PADDLE_INIT_NUM_GRADIENT_SERVERS; \
                  echo $PADDLE_INIT_PSERVERS $PADDLE_JOB_TOKEN > told-$OMPI_COMM_WORLD_RANK";
    let ended = job.run_to_the_end(mpirun(&job, 3, script));
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..3 {
        assert_eq!(job.read(&format!("log/trainer-{rank}.log")), format!("{rank} {rank} 3\n"));
        assert_eq!(job.read(&format!("told-{rank}")), job.read("told-0"));
    }
    let told = job.read("told-0");
    let (servers, token) = told.trim().split_once(' ').unwrap();
    assert_eq!(servers.split(',').count(), 3, "{told}");
    assert_eq!(token.len(), 64, "{told}");
}

#[test]
fn a_failing_rank_ends_a_plain_mpirun_with_its_code() {
    let Some(job) = prepare(2) else { return };
    let script = "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 42; exec sleep 1000";
    let ended = job.run_to_the_end(mpirun(&job, 2, script));
    assert_eq!(ended.code, 42, "{ended:?}");
    assert!(ended.stderr.contains("trainer-1 failed"), "{ended:?}");
}

#[test]
fn nothing_is_left_when_mpirun_itself_is_killed() {
    let Some(job) = prepare(2) else { return };
    let launch = spawn(mpirun(&job, 2, "touch started-$OMPI_COMM_WORLD_RANK; exec sleep 1000"));
    job.await_file("started-0");
    job.await_file("started-1");
    signal(launch.id(), "KILL");
    assert_eq!(job.finish(launch).code, 137);
}

#[test]
fn the_documented_script_runs_a_program_that_reads_the_rank_of_mpi() {
    let Some(job) = prepare(2) else { return };
    let script = repository::path("examples/word2vec/start_mpi_train.sh");
    std::fs::copy(script, job.folder().join("start_mpi_train.sh")).unwrap();
    let program = "import os, sys\nnode_id = os.getenv('OMPI_COMM_WORLD_RANK')\n\
                   if not node_id:\n    raise EnvironmentError('must provide the rank')\n\
                   print(node_id, os.environ['PADDLE_INIT_TRAINER_ID'], sys.argv[1:])\n";
    job.write("train.py", program);
    let bin = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let script = job.folder().join("start_mpi_train.sh");
    let arguments = ["-hostfile", "machines", "-n", "2", script.to_str().unwrap()];
    let mut command = job.command("mpirun", &arguments);
    command.args(["--preset", "test"]).env("PATH", path);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // Two servers with two ports each, below them the conductor's; other tests run meanwhile.
    command.env("PADDLE_INIT_PORT", free_ports(5).to_string());
    let ended = job.run_to_the_end(command);
    // The program trains nothing, and a launch with servers says so.
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("pserver"), "{ended:?}");
    for rank in 0..2 {
        let expected = format!("{rank} {rank} ['--preset', 'test']\n");
        assert_eq!(job.read(&format!("logs/trainer-{rank}.log")), expected);
    }
}

/// The second of several ports in a row that nobody uses now.
fn free_ports(count: u16) -> u16 {
    let first = || {
        let first = free_port();
        let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
        (first < u16::MAX - count && (first..first + count).all(is_free)).then_some(first + 1)
    };
    std::iter::repeat_with(first).flatten().next().unwrap()
}

#[test]
fn a_rank_without_mpirun_is_told_to_use_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.args(["launch", "--mpi", "--", "true"]);
    let output = command.env_remove("SLURM_PROCID").output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("start it by mpirun"), "{words}");
}
