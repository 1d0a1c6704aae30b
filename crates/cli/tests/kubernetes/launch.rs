//! `paddle launch --backend kubernetes`.

use super::cluster::{Cluster, IMAGE, wait_for};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn paddle(cluster: &Cluster, workspace: &Path, arguments: &[&str]) -> Output {
    let arguments: Vec<&str> = ["launch"].iter().chain(arguments).copied().collect();
    verb(cluster, workspace, &arguments)
}

fn verb(cluster: &Cluster, workspace: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paddle"))
        .args(arguments)
        .current_dir(workspace)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PADDLE_JOBS_DIR", workspace.join(".jobs"))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_manifests_of_a_dry_run_are_accepted() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), "").unwrap();
    let output = paddle(
        &cluster,
        folder.path(),
        &[
            "--backend=kubernetes",
            "--dry-run",
            "-o",
            "yaml",
            "--image",
            IMAGE,
            "--name=dry",
            "--trainers=2",
            "--pservers=2",
            "--master",
            "--restarts=1",
            "--cpus=500m",
            "--memory=1Gi",
            "--volume=/tmp/paddle-test:/data",
            "--volume=pvc://home:/home:ro",
            "--volume=nfs://server/export:/export",
            "--checkpoint_dir=/data/checkpoint",
            "--metrics_port=9100",
            "--time_limit=1h",
            "train.py",
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let arguments = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    let told = cluster.tell(&arguments, &text(&output.stdout));
    assert_eq!(told.lines().count(), 2, "{told}");
}

/// The workspace travels with the job, the model comes back on a volume, and the exit code is the
/// program's.
#[test]
fn a_workspace_travels_with_the_job() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let program = "import os, sys\nprint('trainer', os.environ['PADDLE_TRAINER_ID'])\n\
                   open(os.environ['PADDLE_OUTPUT_DIR'] + '/model', 'w').write(open('data').read())\n\
                   sys.exit(3)\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    std::fs::write(folder.path().join("data"), "values").unwrap();
    let mount = format!("--volume={}:/out", volume.path().display());
    let arguments =
        ["--backend=kubernetes", "--image", IMAGE, &mount, "--output_dir=/out", "train.py"];
    let output = paddle(&cluster, folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("trainer 0"), "{}", text(&output.stdout));
    assert_eq!(std::fs::read_to_string(volume.path().join("model")).unwrap(), "values");
    let none = "app.kubernetes.io/managed-by=paddlecloud";
    wait_for("nothing is left", || cluster.left(none).is_empty().then_some(()));
}

/// In sync mode the result does not depend on where a job runs.
#[test]
fn word2vec_gives_the_same_as_on_this_machine() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/word2vec");
    for name in ["train.py", "prepare.py", "generate.py"] {
        std::fs::copy(example.join(name), folder.path().join(name)).unwrap();
    }
    let python = commands.join("python");
    let prepared = Command::new(&python)
        .args(["prepare.py", "--generate", "--split_count", "2"])
        .current_dir(folder.path())
        .status();
    assert!(prepared.unwrap().success());
    let path = format!("--env=PATH={}:/usr/bin:/bin", commands.display());
    let job = ["--pservers=2", "--trainers=2", "--passes=1"];
    let program = ["--", "python", "train.py", "--preset", "test", "--drop_rate", "0"];
    let here: Vec<&str> = job.iter().chain(&[path.as_str()]).chain(&program).copied().collect();
    let output = paddle(&cluster, folder.path(), &here);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mount = format!("--volume={}:/out", volume.path().display());
    let place = ["--backend=kubernetes", "--image", IMAGE, &mount, "--output_dir=/out"];
    let there: Vec<&str> = place.iter().chain(&job).chain(&program).copied().collect();
    let output = paddle(&cluster, folder.path(), &there);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let model = |folder: PathBuf| {
        let path = folder.join("word2vec_pass_00000.tar.gz");
        let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
        assert!(unpacked.status.success(), "{}", text(&unpacked.stderr));
        unpacked.stdout
    };
    let (here, there) = (model(folder.path().join("output")), model(volume.path().to_owned()));
    assert!(here == there, "the models differ: {} and {} bytes", here.len(), there.len());
}

/// A job that was left alone is found, looked at, and ended by the same commands as any other.
#[test]
fn a_detached_job_is_listed_read_followed_and_killed() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "import os, time\nprint('started', flush=True)\n\
                   while not os.path.exists('/shared/go'): time.sleep(0.1)\nprint('done')\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    let run = |arguments: &[&str]| {
        let output = verb(&cluster, folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    let launch = |name: &str, volume: &Path| {
        let mount = format!("--volume={}:/shared", volume.display());
        let name = format!("--name={name}");
        let place = ["launch", "--backend=kubernetes", "--image", IMAGE, "--detach"];
        run(&[&place[..], &[&name, &mount, "train.py"]].concat())
    };
    let (volume, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (launch("first", volume.path()), launch("second", other.path()));
    for id in [&first, &second] {
        wait_for("it runs", || run(&["logs", id]).contains("started").then_some(()));
    }
    let list = run(&["jobs"]);
    assert!(list.contains(&first) && list.contains(&second), "{list}");
    assert!(list.contains("kubernetes"), "{list}");
    assert!(run(&["kill", "second"]).ends_with("killed"));
    std::fs::write(volume.path().join("go"), "").unwrap();
    let followed = run(&["attach", &first]);
    assert!(followed.contains("started") && followed.contains("done"), "{followed}");
    run(&["jobs", "--forget", &first, &second]);
    assert_eq!(run(&["jobs", "--all", "-o", "json"]), "[]");
    let none = "app.kubernetes.io/managed-by=paddlecloud";
    wait_for("nothing is left", || cluster.left(none).is_empty().then_some(()));
}
