//! The original's manifest, `deploy/volcano/ctr-paddlepaddle-on-volcano.yaml`.

use super::cluster::{Cluster, wait_for};
use super::repository;
use serde_json::Value;
use std::path::Path;

const MANIFEST: &str = "deploy/volcano/ctr-paddlepaddle-on-volcano.yaml";
const JOB: &str = "jobs.batch.volcano.sh";
const NAME: &str = "ctr-volcano";
/// What the example reaches, see `python/tests/test_examples.py`.
const AUC_MIN: f64 = 0.75;

/// The manifest, with a directory of the test in place of the one that the seed names.
fn manifest(folder: &Path) -> String {
    let text = std::fs::read_to_string(repository::path(MANIFEST)).unwrap();
    let (old, new) = ("path: /home/work/", format!("path: {}", folder.display()));
    assert_eq!(text.matches(old).count(), 2);
    text.replace(old, &new)
}

fn phase(job: &Value) -> &str {
    job["status"]["state"]["phase"].as_str().unwrap_or_default()
}

fn await_completion(cluster: &Cluster) -> Value {
    wait_for("the job completes", || {
        let job = cluster.object(JOB, NAME);
        assert!(!matches!(phase(&job), "Failed" | "Aborted" | "Terminated"), "{job:#}");
        (phase(&job) == "Completed").then_some(job)
    })
}

fn last_auc(log: &str) -> f64 {
    let mut tests = log.lines().filter(|line| line.starts_with("TEST --> "));
    let last = tests.next_back().unwrap_or_else(|| panic!("no test was printed: {log}"));
    last.rsplit_once("auc: ").unwrap().1.parse().unwrap()
}

fn remove(cluster: &Cluster, manifest: &str) {
    cluster.tell(&["delete", "--ignore-not-found", "--wait", "-f", "-"], manifest);
    wait_for("its pods are gone", || {
        let pods =
            cluster.ask(&["get", "pods", "-l", "volcano.sh/job-name=ctr-volcano", "-o", "name"]);
        pods.is_empty().then_some(())
    });
}

#[test]
fn it_is_accepted_as_it_is() {
    let Some(cluster) = Cluster::find() else { return };
    let arguments = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    let told =
        cluster.tell(&arguments, &std::fs::read_to_string(repository::path(MANIFEST)).unwrap());
    assert_eq!(told.lines().count(), 4, "{told}");
}

/// The commands of the documentation that begin with an empty cluster.
fn documented() -> String {
    let path = repository::path("docs/kubernetes.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split_once("## From an empty cluster to a trained model").unwrap().1;
    let commands = section.split_once("```bash\n").unwrap().1;
    commands.split_once("```").unwrap().0.to_owned()
}

/// By the commands of the documentation, one after another.
#[test]
fn it_trains_and_completes() {
    let Some(cluster) = Cluster::with_processors() else { return };
    let folder = tempfile::tempdir().unwrap();
    let manifest = manifest(folder.path());
    remove(&cluster, &manifest);
    let file = folder.path().join("ctr.yaml");
    std::fs::write(&file, &manifest).unwrap();
    let named = "deploy/volcano/ctr-paddlepaddle-on-volcano.yaml";
    let commands = documented();
    assert!(commands.contains(named), "{commands}");
    let commands = commands.replace(named, file.to_str().unwrap());
    let (commands, last) = commands.trim_end().rsplit_once('\n').unwrap();
    let said = cluster.shell(commands);
    let job = await_completion(&cluster);
    assert_eq!(job["status"]["retryCount"].as_u64().unwrap_or(0), 0, "{job:#}");
    let auc = last_auc(&said);
    assert!(auc > AUC_MIN, "{auc}: {said}");
    // Trainer 0 saves the model, on the volume of the manifest.
    let model = folder.path().join("output/pass-9.tar.gz");
    assert!(model.is_file());
    cluster.shell(last);
    assert!(cluster.object(JOB, NAME).is_null() && model.is_file());
    remove(&cluster, &manifest);
}

/// Whether both servers have published their dense and their sparse part of a cut.
fn is_complete(cut: &Path) -> bool {
    let files = cut.read_dir().into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == "json")).count() == 4
}

/// A trainer's pod is deleted when there is a checkpoint: Volcano starts the whole job again, and
/// its servers begin with what they had.
#[test]
fn a_killed_trainer_restarts_the_job_from_its_checkpoint() {
    let Some(cluster) = Cluster::with_processors() else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = "- name: PADDLE_CHECKPOINT_INTERVAL # added, in seconds\n            value: \"60\"";
    let text = manifest(folder.path());
    assert!(text.contains(name));
    let manifest = text.replace(name, &name.replace("60", "2"));
    remove(&cluster, &manifest);
    cluster.tell(&["apply", "-f", "-"], &manifest);
    wait_for("there is a checkpoint", || {
        let uid = cluster.object(JOB, NAME)["metadata"]["uid"].as_str()?.to_owned();
        let cuts = folder.path().join("checkpoint").join(uid).read_dir().ok()?;
        cuts.flatten().any(|cut| is_complete(&cut.path())).then_some(())
    });
    cluster.ask(&["delete", "pod", "ctr-volcano-trainer-0", "--wait=false"]);
    let job = await_completion(&cluster);
    assert_eq!(job["status"]["retryCount"].as_u64(), Some(1), "{job:#}");
    let log = cluster.ask(&["logs", "ctr-volcano-trainer-0"]);
    assert!(last_auc(&log) > AUC_MIN, "{log}");
    // The first pass of the second life is not the first of the training.
    let first = log.lines().find(|line| line.starts_with("TRAIN --> ")).unwrap();
    assert!(!first.starts_with("TRAIN --> pass: 0 batch: 0 "), "{log}");
    remove(&cluster, &manifest);
}
