//! `paddle launch --backend slurm`: what people type and see. What every place must do, and what
//! Slurm does to jobs, is tried in `backend.rs`.

use super::installed;
use super::job::{Ended, Job, signal, spawn, wait_until};
use super::repository;
use super::slurm_cluster::{Cluster, cluster};
use std::path::Path;
use std::process::Command;

/// A launch of a script on nodes that see this machine's files.
fn launch(cluster: &Cluster, job: &Job, flags: &[&str], script: &str) -> Command {
    let flags: Vec<&str> = ["--backend=slurm"].iter().chain(flags).copied().collect();
    let mut command = job.launch(&flags, script);
    command.env("SLURM_CONF", cluster.conf());
    command
}

fn run(cluster: &Cluster, flags: &[&str], script: &str) -> (Job, Ended) {
    let job = Job::new();
    let root = format!("--root_dir={}/root", job.folder().display());
    let flags: Vec<&str> = flags.iter().copied().chain([root.as_str()]).collect();
    let ended = job.run_to_the_end(launch(cluster, &job, &flags, script));
    (job, ended)
}

#[test]
fn nodes_share_the_work_and_the_program_finds_slurms_variables() {
    let Some(cluster) = cluster() else { return };
    let script = "echo $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM on $SLURMD_NODENAME";
    let (job, ended) = run(cluster, &["-N", "2", "--trainers=3"], script);
    assert_eq!(ended.code, 0, "{ended:?}");
    for (rank, node) in ["n0", "n1", "n0"].iter().enumerate() {
        let log = job.read(&format!("log/trainer-{rank}.log"));
        assert_eq!(log, format!("{rank} of 3 on {node}\n"));
    }
    assert!(job.folder().join("log/pserver-1.log").exists(), "a server on each node");
    assert!(!job.folder().join("log/pserver-2.log").exists());
}

#[test]
fn a_failing_trainer_ends_the_job_with_its_code() {
    let Some(cluster) = cluster() else { return };
    let script = "[ $PADDLE_TRAINER_ID = 0 ] || exit 42; exec sleep 1000";
    let (_, ended) = run(cluster, &["--nodes=2"], script);
    assert_eq!(ended.code, 42, "{ended:?}");
    assert!(ended.stderr.contains("trainer-1 failed"), "{ended:?}");
}

/// By `kill -9`, while the job waits and while it runs: nothing is left, here or in Slurm.
#[test]
fn a_launcher_that_is_killed_takes_its_job_along() {
    let Some(cluster) = cluster() else { return };
    cluster.call("scontrol", &["create", "PartitionName=shut", "Nodes=n0", "State=DOWN"]);
    for partition in ["shut", "main"] {
        let job = Job::new();
        let root = format!("--root_dir={}/root", job.folder().display());
        let name = format!("--name=killed_{partition}");
        let partition_flag = format!("--partition={partition}");
        let flags = [&root, &name, &partition_flag].map(String::as_str);
        let launch = spawn(launch(cluster, &job, &flags, "touch started; exec sleep 1000"));
        match partition {
            "main" => job.await_file("started"),
            _ => wait_until("it is in the queue", || queued(cluster, &name[7..]) == 1),
        }
        signal(launch.id(), "KILL");
        assert_eq!(job.finish(launch).code, 137);
        wait_until(&format!("the queue has no {name}"), || queued(cluster, &name[7..]) == 0);
    }
}

/// How many jobs in the queue have a name that begins like this.
fn queued(cluster: &Cluster, name: &str) -> usize {
    let names = cluster.call("squeue", &["--noheader", "--format=%j"]);
    names.lines().filter(|line| line.starts_with(name)).count()
}

#[test]
fn a_detached_job_says_in_the_list_why_it_waits() {
    let Some(cluster) = cluster() else { return };
    cluster.call("scontrol", &["create", "PartitionName=sleepy", "Nodes=n0", "State=DOWN"]);
    let job = Job::new();
    let root = format!("--root_dir={}/root", job.folder().display());
    let flags = ["--detach", "--partition=sleepy", root.as_str()];
    let submitted = job.run(launch(cluster, &job, &flags, "true"));
    assert_eq!(submitted.code, 0, "{submitted:?}");
    let id = submitted.stdout.trim().to_owned();
    wait_until("the list says why", || {
        let listed = job.run(job.paddle(&["jobs", "-o", "json"]));
        listed.stdout.contains("its partition is down")
    });
    assert_eq!(job.run(job.paddle(&["kill", &id])).code, 0);
    job.assert_nothing_is_left();
    wait_until("the queue has it no more", || queued(cluster, &id) == 0);
}

#[test]
fn mistakes_are_explained() {
    let Some(cluster) = cluster() else { return };
    let (_, ended) = run(cluster, &["--partition=nowhere"], "true");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("invalid partition specified: nowhere"), "{ended:?}");
    assert!(ended.stderr.contains("partitions: main, apart"), "{ended:?}");
    let job = Job::new();
    let mut elsewhere = launch(cluster, &job, &[], "true");
    let empty = job.folder().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for shell in ["sh", "python3"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(shell), empty.join(shell)).unwrap();
    }
    let ended = job.run_to_the_end({
        elsewhere.env("PATH", &empty);
        elsewhere
    });
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("sbatch is not in PATH"), "{ended:?}");
    let mut down = launch(cluster, &job, &["--ready_timeout=1"], "true");
    let conf = std::fs::read_to_string(cluster.conf()).unwrap();
    let own = conf.lines().find(|line| line.starts_with("SlurmctldPort=")).unwrap();
    std::fs::write(job.folder().join("down.conf"), conf.replace(own, "SlurmctldPort=1")).unwrap();
    down.env("SLURM_CONF", job.folder().join("down.conf"));
    let ended = job.run_to_the_end(down);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("controller does not answer"), "{ended:?}");
}

/// The model of the example, trained by two trainers on two servers.
fn model(job: &Job, flags: &[&str], cluster: &Cluster, venv: &Path) -> Vec<u8> {
    let mut command =
        job.paddle(&["launch", "--pservers=2", "--trainers=2", "--passes=2", "--sync"]);
    command.args(flags).args(["train.py", "--preset", "test"]);
    let path = format!("{}:{}", venv.display(), std::env::var("PATH").unwrap());
    let ended = job.run_to_the_end({
        command.env("PATH", path).env("SLURM_CONF", cluster.conf());
        command
    });
    assert_eq!(ended.code, 0, "{ended:?}");
    let archive = job.folder().join("output/fit-a-line_pass_00001.tar.gz");
    let unpacked = Command::new("tar").args(["-xzOf"]).arg(archive).output().unwrap();
    assert!(unpacked.status.success() && !unpacked.stdout.is_empty());
    unpacked.stdout
}

#[test]
fn a_model_trained_on_slurm_is_the_one_trained_here() {
    let Some(cluster) = cluster() else { return };
    let Some(venv) = installed::commands() else { return };
    let [here, there] = [(); 2].map(|()| {
        let job = Job::new();
        let example = repository::path("examples/fit_a_line");
        for file in ["train.py", "generate.py"] {
            std::fs::copy(example.join(file), job.folder().join(file)).unwrap();
        }
        let mut generate = Command::new(venv.join("python"));
        generate.arg("generate.py").current_dir(job.folder());
        assert!(generate.status().unwrap().success());
        job
    });
    let root = format!("--root_dir={}/root", there.folder().display());
    let local = model(&here, &[], cluster, &venv);
    let slurm = model(&there, &["--backend=slurm", "--nodes=2", &root], cluster, &venv);
    assert_eq!(local, slurm, "the same bits");
}
