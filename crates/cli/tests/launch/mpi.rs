//! The suite under Open MPI, started by `paddle launch --backend mpi`, and ranks of an `mpirun` of
//! the user's own.

use super::component;
use super::job::{Ended, Harness, Job, signal, spawn};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `paddle launch --backend mpi`.
struct Mpi;

impl Harness for Mpi {
    fn prepare(&self, folder: &Path, count: u32) {
        std::fs::write(folder.join("machines"), format!("127.0.0.1 slots={count}\n")).unwrap();
    }

    fn launch(&self, _: &Path, count: u32) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
        command.args(["launch", "--backend=mpi", "--port=0", "-n", &count.to_string()]);
        command.arg(format!("--mpi_port={}", free_port()));
        command
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.to_owned()
    }

    fn trainer_log(&self, folder: &Path, rank: u32) -> PathBuf {
        folder.join(format!("log/trainer-{rank}.log"))
    }

    fn many(&self) -> u32 {
        8
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

mod suite {
    crate::launch::trials::suite!(match super::component::find("mpirun") {
        Some(_) => super::Mpi,
        None => return,
    });
}

/// The user's own `mpirun`, as in the documents.
fn mpirun(job: &Job<'_>, flags: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-hostfile", "machines", "-n", &job.count.to_string()]);
    command.arg(env!("CARGO_BIN_EXE_paddle")).args(["launch", "--mpi", "--port=0"]);
    command.arg(format!("--mpi_port={}", free_port())).args(flags).arg("--").args(program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.current_dir(job.folder());
    command
}

fn run(job: &Job<'_>, flags: &[&str], program: &[&str]) -> Ended {
    job.finish(spawn(mpirun(job, flags, program)))
}

#[test]
fn ranks_of_a_plain_mpirun_find_each_other_and_share_a_token() {
    if component::find("mpirun").is_none() {
        return;
    }
    let job = Job::new(&Mpi, 3);
    let script = "echo $OMPI_COMM_WORLD_RANK $PADDLE_INIT_TRAINER_ID $PADDLE_INIT_NUM_GRADIENT_SERVERS; \
                  echo $PADDLE_INIT_PSERVERS $PADDLE_JOB_TOKEN > told-$OMPI_COMM_WORLD_RANK";
    let ended = run(&job, &[], &["sh", "-c", script]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..3 {
        assert_eq!(job.log(rank), format!("{rank} {rank} 3\n").as_bytes());
        assert_eq!(job.file(rank, &format!("told-{rank}")), job.file(0, "told-0"));
    }
    let told = String::from_utf8(job.file(0, "told-0")).unwrap();
    let (servers, token) = told.trim().split_once(' ').unwrap();
    assert_eq!(servers.split(',').count(), 3, "{told}");
    assert_eq!(token.len(), 64, "{told}");
}

#[test]
fn a_failing_rank_ends_a_plain_mpirun_with_its_code() {
    if component::find("mpirun").is_none() {
        return;
    }
    let job = Job::new(&Mpi, 2);
    let script = "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 42; exec sleep 1000";
    let ended = run(&job, &[], &["sh", "-c", script]);
    assert_eq!(ended.code, 42, "{ended:?}");
    assert!(ended.stderr.contains("trainer-1 failed"), "{ended:?}");
}

#[test]
fn nothing_is_left_when_mpirun_itself_is_killed() {
    if component::find("mpirun").is_none() {
        return;
    }
    let job = Job::new(&Mpi, 2);
    let script = "touch started-$OMPI_COMM_WORLD_RANK; exec sleep 1000";
    let launch = spawn(mpirun(&job, &[], &["sh", "-c", script]));
    for rank in 0..2 {
        job.await_file(rank, &format!("started-{rank}"));
    }
    signal(launch.id(), "KILL");
    assert_eq!(job.finish(launch).code, 137);
}

#[test]
fn the_documented_script_runs_a_program_that_reads_the_rank_of_mpi() {
    if component::find("mpirun").is_none() {
        return;
    }
    let job = Job::new(&Mpi, 2);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/word2vec/start_mpi_train.sh");
    std::fs::copy(script, job.folder().join("start_mpi_train.sh")).unwrap();
    let program = "import os, sys\nnode_id = os.getenv('OMPI_COMM_WORLD_RANK')\n\
                   if not node_id:\n    raise EnvironmentError('must provide the rank')\n\
                   print(node_id, os.environ['PADDLE_INIT_TRAINER_ID'], sys.argv[1:])\n";
    std::fs::write(job.folder().join("train.py"), program).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("mpirun");
    command.args(["-hostfile", "machines", "-n", "2"]).arg(job.folder().join("start_mpi_train.sh"));
    command.args(["--preset", "test"]).current_dir(job.folder()).env("PATH", path);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // Two servers with two ports each, below them the port of rank 0; other tests run meanwhile.
    command.env("PADDLE_INIT_PORT", free_ports(5).to_string());
    let ended = job.finish(spawn(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..2 {
        let log = job.folder().join(format!("logs/trainer-{rank}.log"));
        let expected = format!("{rank} {rank} ['--preset', 'test']\n");
        assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
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
