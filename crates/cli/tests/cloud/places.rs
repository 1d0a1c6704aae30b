//! Datacenters of other kinds than this machine: ssh hosts, MPI and Slurm, served by one server.

use super::component;
use super::server::{Server, wait_until};
use super::slurm_cluster;
use super::sshd::machines;
use contract::api::job::Job;
use contract::state::JobState;
use serde_json::Value;

#[test]
fn one_server_serves_datacenters_of_every_kind() {
    let (Some(machines), Some(_)) = (machines(), component::find("mpirun")) else { return };
    let hosts: Vec<String> =
        machines.hosts(2).split(',').map(|host| format!("\"{host}\"")).collect();
    let yaml = format!(
        "datacenters:\n\
         - name: local\n\
         - {{name: lab, backend: ssh, ssh: {{hosts: [{}], paddle: {}, ssh_config: {}}}}}\n\
         - {{name: cluster, backend: mpi, mpi: {{ranks: 2, hostfile: \"127.0.0.1 slots=2\", \
         arguments: [--allow-run-as-root]}}, queues: [{{name: night, time_limit_seconds_max: 60}}]}}\n",
        hosts.join(", "),
        env!("CARGO_BIN_EXE_paddle"),
        machines.ssh_config().display(),
    );
    let server = Server::with_config(&yaml);
    let user = server.user("wu");
    let list: Vec<Value> = user.get("/api/v2/datacenters").read();
    let kinds: Vec<&str> = list.iter().map(|own| own["backend"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["mpi", "ssh", "local"]);
    let script = "echo trainer $PADDLE_TRAINER_ID; mkdir -p output; echo model > output/weights";
    for datacenter in ["lab", "cluster"] {
        let user = user.within(datacenter);
        let body = user.submission("job", script, |spec| (spec.trainers, spec.pservers) = (2, 1));
        let _: Job = user.submit_body(&body).read();
        user.wait_until("job", JobState::Succeeded);
        for rank in 0..2 {
            let log = user.log("job", &format!("trainer-{rank}"));
            assert!(log.contains(&format!("trainer {rank}\n")), "{datacenter}: {log}");
        }
        // The model is in the home, wherever it was trained.
        let home = server.data().join("files").join(datacenter).join("home/wu/jobs/job");
        assert_eq!(std::fs::read_to_string(home.join("output/weights")).unwrap(), "model\n");
    }
    assert!(machines.home(0).join("paddle_jobs").is_dir(), "it ran there");
    let user = user.within("cluster");
    let body = user.submission("late", "true", |spec| spec.queue = "night".into());
    assert!(user.submit_body(&body).refusal(400).contains("at most 00:01:00 (60 seconds)"));
    let body = user.submission("late", "true", |spec| {
        (spec.queue, spec.time_limit_seconds) = ("night".into(), Some(30));
    });
    let _: Job = user.submit_body(&body).read();
    user.wait_until("late", JobState::Succeeded);
}

/// Nodes that share no files with the server, and nodes that do.
#[test]
fn jobs_of_a_datacenter_run_on_slurm() {
    let Some(cluster) = slurm_cluster::cluster() else { return };
    let slurm = |partition: &str, root: &std::path::Path, shares_files: bool| {
        format!(
            "slurm: {{conf: {}, partition: {partition}, root_dir: {}, paddle: {}, \
             shares_files: {shares_files}}}",
            cluster.conf(),
            root.display(),
            env!("CARGO_BIN_EXE_paddle"),
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "datacenters:\n\
         - {{name: apart, backend: slurm, {}}}\n\
         - {{name: together, backend: slurm, {}}}\n",
        slurm("apart", &cluster.folder.join("own/cloud"), false),
        slurm("main", folder.path(), true),
    );
    let server = Server::with_config(&yaml);
    let user = server.user("wu");
    let script = "echo $PADDLE_TRAINER_ID on $SLURMD_NODENAME; mkdir -p output; \
                  [ $PADDLE_TRAINER_ID = 1 ] || echo model > output/weights";
    for (datacenter, node) in [("apart", "p"), ("together", "n")] {
        let user = user.within(datacenter);
        let body = user.submission("job", script, |spec| (spec.trainers, spec.pservers) = (2, 1));
        let _: Job = user.submit_body(&body).read();
        user.wait_until("job", JobState::Succeeded);
        for rank in 0..2 {
            let log = user.log("job", &format!("trainer-{rank}"));
            assert!(log.contains(&format!("{rank} on {node}{rank}\n")), "{datacenter}: {log}");
        }
        let home = server.data().join("files").join(datacenter).join("home/wu/jobs/job");
        assert_eq!(std::fs::read_to_string(home.join("output/weights")).unwrap(), "model\n");
    }
    wait_until("nothing is left in the queue", || {
        cluster.call("squeue", &["--noheader"]).is_empty()
    });
}
