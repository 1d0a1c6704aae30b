//! `paddle launch --backend kubernetes`.

use super::cluster::{Cluster, IMAGE, wait_for};
use super::repository;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    let full = [
        "--master",
        "--restarts=1",
        "--cpus=500m",
        "--memory=1Gi",
        "--volume=/tmp/paddle-test:/data",
        "--volume=pvc://home:/home:ro",
        "--volume=nfs://server/export:/export",
        "--checkpoint_dir=/data/checkpoint",
        "--pull_secret=registry",
        "--priority=low",
        "--metrics_port=9100",
        "--time_limit=1h",
    ];
    let gpu = ["--use_gpu", "--trainer_count=2"];
    let user = ["--run_as=1000:2000", "--volume=cephfs://wu:key@10.0.0.1:6789,10.0.0.2/wu:/pfs"];
    let elastic = ["--min_trainers=1", "--max_trainers=4", "--master", "--queue=default"];
    for (volcano, flags, objects) in [
        ("yes", &full[..], 2),
        ("no", &full, 5),
        ("yes", &gpu, 2),
        ("no", &gpu, 4),
        ("yes", &user, 2),
        ("no", &user, 4),
        ("yes", &elastic, 2),
    ] {
        dry_run(&cluster, folder.path(), &[&["--volcano", volcano], flags].concat(), objects);
    }
}

fn dry_run(cluster: &Cluster, folder: &Path, flags: &[&str], objects: usize) {
    let job = ["--image", IMAGE, "--name=dry", "--trainers=2", "--pservers=2"];
    let shown = ["--backend=kubernetes", "--dry-run", "-o", "yaml"];
    let output = paddle(cluster, folder, &[&shown[..], &job, flags, &["train.py"]].concat());
    assert!(output.status.success(), "{flags:?}: {}", text(&output.stderr));
    let arguments = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    let told = cluster.tell(&arguments, &text(&output.stdout));
    assert_eq!(told.lines().count(), objects, "{flags:?}: {told}");
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
        ["--backend=kubernetes", "--image", IMAGE, &mount, "--output_dir=/out", "--name=travels"];
    let arguments = [&arguments[..], &["train.py"]].concat();
    let output = paddle(&cluster, folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("trainer 0"), "{}", text(&output.stdout));
    assert_eq!(std::fs::read_to_string(volume.path().join("model")).unwrap(), "values");
    cluster.await_nothing_of("travels");
}

/// The strictest of the standards for pods is kept, with and without Volcano.
#[test]
fn a_job_runs_where_root_is_not_allowed() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "import os\nprint('as', os.getuid(), os.getgid(), open('data').read())\n\
                   os.makedirs('output', exist_ok=True)\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    std::fs::write(folder.path().join("data"), "values").unwrap();
    let namespaces = ["restricted".to_owned()];
    cluster.remove_namespaces(&namespaces);
    cluster.ask(&["create", "namespace", "restricted"]);
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.ask(&["label", "namespace", "restricted", label]);
    for volcano in ["--volcano=yes", "--volcano=no"] {
        let place = ["--backend=kubernetes", "--image", IMAGE, "--namespace=restricted", volcano];
        let job = ["--run_as=1000:2000", "--pservers=1", "--allow_idle", "train.py"];
        let output = paddle(&cluster, folder.path(), &[&place[..], &job[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{volcano}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(printed.contains("as 1000 2000 values"), "{volcano}: {printed}");
    }
    cluster.remove_namespaces(&namespaces);
}

/// In sync mode the result does not depend on where a job runs.
#[test]
fn word2vec_gives_the_same_as_on_this_machine() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    let commands = repository::path(".venv/bin");
    let example = repository::path("examples/word2vec");
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
    let model = |folder: PathBuf| {
        let path = folder.join("word2vec_pass_00000.tar.gz");
        let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
        assert!(unpacked.status.success(), "{}", text(&unpacked.stderr));
        std::fs::remove_file(&path).unwrap();
        unpacked.stdout
    };
    let here = model(folder.path().join("output"));
    let mount = format!("--volume={}:/out", volume.path().display());
    for volcano in ["--volcano=yes", "--volcano=no"] {
        let place =
            ["--backend=kubernetes", "--image", IMAGE, &mount, "--output_dir=/out", volcano];
        let there: Vec<&str> = place.iter().chain(&job).chain(&program).copied().collect();
        let output = paddle(&cluster, folder.path(), &there);
        assert!(output.status.success(), "{volcano}: {}", text(&output.stderr));
        let there = model(volume.path().to_owned());
        assert!(here == there, "the models differ: {} and {} bytes", here.len(), there.len());
    }
}

/// A kubeconfig of a service account of this namespace.
fn account(cluster: &Cluster, namespace: &str, name: &str) -> String {
    cluster.ask(&["create", "serviceaccount", name, "-n", namespace]);
    let token = cluster.ask(&["create", "token", name, "-n", namespace]);
    let admin = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let begin = admin.find("  user: {client-certificate-data").unwrap();
    let end = begin + admin[begin..].find('\n').unwrap();
    format!("{}  user: {{token: {}}}{}", &admin[..begin], token.trim(), &admin[end..])
}

/// The rules of the documentation, as a Role.
fn documented_role() -> String {
    let page = std::fs::read_to_string(repository::path("docs/kubernetes.md")).unwrap();
    let rest = page.split_once("### Rights").unwrap().1.split_once("```yaml\n").unwrap().1;
    let rules = rest.split_once("```").unwrap().0;
    let kind = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: launch}\n";
    format!("{kind}{rules}")
}

/// The rights of the documentation are enough; with fewer a job is refused and not left behind.
#[test]
fn who_lacks_a_right_is_told_which_and_leaves_nothing() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), "print('trained')\n").unwrap();
    let (namespaces, documented) = (["guests".to_owned()], documented_role());
    cluster.remove_namespaces(&namespaces);
    let launch = |volcano: &str, kubeconfig: &str| {
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let place = ["--backend=kubernetes", "--image", IMAGE, "--namespace=guests", volcano];
        let rest = ["--kubeconfig=kubeconfig", "--pservers=1", "--allow_idle", "train.py"];
        let output = paddle(&cluster, folder.path(), &[&place[..], &rest[..]].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let admin = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let (code, _, told) = launch("--volcano=yes", &admin);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("create the namespace (kubectl create namespace)"), "{told}");
    cluster.ask(&["create", "namespace", "guests"]);
    let guest = account(&cluster, "guests", "guest");
    let may = |verbs: &str| {
        let verbs = format!("--verb={verbs}");
        let kinds = "--resource=secrets,jobs.batch.volcano.sh";
        cluster.ask(&["create", "role", "some", &verbs, kinds, "-n", "guests"]);
        let to = ["--role=some", "--serviceaccount=guests:guest", "-n", "guests"];
        cluster.ask(&[&["create", "rolebinding", "some"], &to[..]].concat());
    };
    let refused = |right: &str| {
        let (code, _, told) = launch("--volcano=yes", &guest);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(&format!("cannot {right}")), "{told}");
        assert!(told.contains("docs/kubernetes.md has the Role it needs"), "{told}");
        let kinds = "pods,jobs.batch.volcano.sh,secrets,jobs.batch,statefulsets";
        let left = || cluster.ask(&["get", kinds, "-n", "guests", "-o", "name"]);
        wait_for("nothing is left", || left().is_empty().then_some(()));
    };
    // Rights are known to the API server a moment after they were given.
    let await_right = |verb: &str, kind: &str| {
        let guest = ["--as=system:serviceaccount:guests:guest", "-n", "guests"];
        let asked = [&["auth", "can-i", verb, kind], &guest[..]].concat();
        wait_for("it has its rights", || (cluster.try_ask(&asked).trim() == "yes").then_some(()));
    };
    refused("list resource \"secrets\"");
    // It may make a job, and not look at it.
    may("create,get,patch,delete");
    refused("list resource \"secrets\"");
    cluster.ask(&["delete", "role,rolebinding", "some", "-n", "guests"]);
    // It may look at everything and make a Secret, but no job: the Secret goes again.
    let (before, rest) = documented.split_once("\"batch.volcano.sh\"").unwrap();
    let fewer = format!("{before}\"batch.volcano.sh\"{}", rest.replacen("\"create\", ", "", 1));
    cluster.tell(&["apply", "-n", "guests", "-f", "-"], &fewer);
    let to = ["--role=launch", "--serviceaccount=guests:guest", "-n", "guests"];
    cluster.ask(&[&["create", "rolebinding", "launch"], &to[..]].concat());
    await_right("list", "secrets");
    refused("create resource \"jobs\"");
    cluster.tell(&["apply", "-n", "guests", "-f", "-"], &documented);
    await_right("create", "jobs.batch.volcano.sh");
    for volcano in ["--volcano=yes", "--volcano=no"] {
        let (code, printed, told) = launch(volcano, &guest);
        assert_eq!(code, Some(0), "{told}");
        assert!(printed.contains("trained"), "{printed}");
    }
    cluster.remove_namespaces(&namespaces);
}

/// The job goes on without its launcher, and is found again.
#[test]
fn a_job_whose_launcher_was_killed_is_found_and_ended() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "import time\nprint('started', flush=True)\ntime.sleep(1000)\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    let mut launched = Command::new(env!("CARGO_BIN_EXE_paddle"))
        .args(["launch", "--backend=kubernetes", "--name=orphan", "--image", IMAGE, "train.py"])
        .current_dir(folder.path())
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PADDLE_JOBS_DIR", folder.path().join(".jobs"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(launched.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("started") {
        assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
    }
    launched.kill().unwrap();
    launched.wait().unwrap();
    let run = |arguments: &[&str]| {
        let output = verb(&cluster, folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let list = run(&["jobs"]);
    assert!(list.contains("orphan") && list.contains("running"), "{list}");
    assert!(run(&["kill", "orphan"]).trim().ends_with("killed"));
    run(&["jobs", "--forget", "orphan"]);
    assert_eq!(run(&["jobs", "--all", "-o", "json"]).trim(), "[]");
    cluster.await_nothing_of("orphan");
}

/// The command of the documentation, with a claim of that name.
#[test]
fn the_documented_command_trains_on_a_claim() {
    let Some(cluster) = Cluster::find() else { return };
    let (folder, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = "import os\nrank = os.environ['PADDLE_TRAINER_ID']\n\
                   folder = os.environ['PADDLE_OUTPUT_DIR']\nos.makedirs(folder, exist_ok=True)\n\
                   open(f'{folder}/model-{rank}', 'w').write('values')\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    let page = std::fs::read_to_string(repository::path("docs/kubernetes.md")).unwrap();
    let rest = page.split_once("## `paddle launch`").unwrap().1.split_once("```bash\n").unwrap().1;
    let command = rest.split_once("```").unwrap().0;
    let objects = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "home"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": volume.path()},
                "claimRef": {"namespace": "default", "name": "home"},
            },
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "home"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ]});
    let all = ["pvc/home", "pv/home"];
    cluster.ask(&[&["delete", "--ignore-not-found"], &all[..]].concat());
    cluster.tell(&["apply", "-f", "-"], &objects.to_string());
    let paddle = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
    let (jobs, here) = (folder.path().join(".jobs"), folder.path());
    let settings = format!(
        "cd {}; export PATH={}:$PATH PADDLE_JOBS_DIR={}\n",
        here.display(),
        paddle.display(),
        jobs.display()
    );
    cluster.shell(&(settings + command));
    for rank in 0..2 {
        let model = volume.path().join(format!("output/model-{rank}"));
        assert_eq!(std::fs::read_to_string(model).unwrap(), "values");
    }
    cluster.ask(&[&["delete"], &all[..]].concat());
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
    let (first, second) = (launch("detached", volume.path()), launch("other", other.path()));
    for id in [&first, &second] {
        wait_for("it runs", || run(&["logs", id]).contains("started").then_some(()));
    }
    let list = run(&["jobs"]);
    assert!(list.contains(&first) && list.contains(&second), "{list}");
    assert!(list.contains("kubernetes"), "{list}");
    assert!(run(&["kill", "other"]).ends_with("killed"));
    std::fs::write(volume.path().join("go"), "").unwrap();
    let followed = run(&["attach", &first]);
    assert!(followed.contains("started") && followed.contains("done"), "{followed}");
    run(&["jobs", "--forget", &first, &second]);
    assert_eq!(run(&["jobs", "--all", "-o", "json"]), "[]");
    for name in ["detached", "other"] {
        cluster.await_nothing_of(name);
    }
}

/// Whoever launches a job learns at once that its image is not there.
#[test]
fn an_image_that_cannot_be_had_is_told_while_the_job_starts() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), "").unwrap();
    // Where nothing is told, its output ends all the same.
    let mut launched = Command::new("timeout")
        .args(["120", env!("CARGO_BIN_EXE_paddle"), "launch", "--backend=kubernetes"])
        .args(["--name=nope", "--image", "nope:v1", "train.py"])
        .current_dir(folder.path())
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PADDLE_JOBS_DIR", folder.path().join(".jobs"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(launched.stderr.take().unwrap());
    let is_told =
        |text: &str| text.contains("ErrImagePull: ") || text.contains("ImagePullBackOff: ");
    while !is_told(&said) && output.read_line(&mut said).unwrap() > 0 {}
    // As Control-C, which ends the job too.
    let ended = Command::new("kill").args(["-INT", &launched.id().to_string()]).status();
    assert!(ended.unwrap().success() && !launched.wait().unwrap().success());
    assert!(is_told(&said), "{said}");
    cluster.await_nothing_of("nope");
}

/// No waiting helps against a name that no image can have.
#[test]
fn a_job_with_an_impossible_image_fails() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), "").unwrap();
    for volcano in ["--volcano=yes", "--volcano=no"] {
        let place = ["--backend=kubernetes", "--image", "No such:v1", volcano];
        let job = ["--name=impossible", "train.py"];
        let output = paddle(&cluster, folder.path(), &[&place[..], &job[..]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("trainer-0 cannot be started: InvalidImageName: "), "{said}");
        cluster.await_nothing_of("impossible");
    }
}

/// A new claim is root's, and the job's user may write to it all the same.
#[test]
fn a_claim_is_written_by_a_user_who_is_not_root() {
    let Some(cluster) = Cluster::find() else { return };
    let (folder, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = "import os\nopen('/data/model', 'w').write(str(os.getuid()))\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    let class = serde_json::json!({"storage": "1Gi"});
    let modes = ["ReadWriteOnce"];
    // Of a kind whose owner a kubelet changes, which a hostPath is not.
    let terms = [serde_json::json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]},
    ]})];
    let objects = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fresh"},
            "spec": {
                "accessModes": modes,
                "capacity": class,
                "local": {"path": volume.path()},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                "claimRef": {"namespace": "default", "name": "fresh"},
            },
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "fresh"},
            "spec": {
                "accessModes": modes, "storageClassName": "", "resources": {"requests": class},
            },
        },
    ]});
    let all = ["pvc/fresh", "pv/fresh"];
    cluster.ask(&[&["delete", "--ignore-not-found"], &all[..]].concat());
    cluster.tell(&["apply", "-f", "-"], &objects.to_string());
    let place = ["--backend=kubernetes", "--image", IMAGE, "--volume=pvc://fresh:/data"];
    let job = ["--run_as=1000:2000", "--output_dir=/data", "train.py"];
    let output = paddle(&cluster, folder.path(), &[&place[..], &job[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let model = std::fs::read_to_string(volume.path().join("model")).unwrap();
    assert_eq!(model, "1000");
    cluster.ask(&[&["delete"], &all[..]].concat());
}

/// Neither is passed over in silence: a priority that nobody has made, nor a queue or a claim that is
/// short of what the job asks for.
#[test]
fn what_a_job_lacks_is_named() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = "import time\ntime.sleep(1000)\n";
    std::fs::write(folder.path().join("train.py"), program).unwrap();
    let place = ["--backend=kubernetes", "--image", IMAGE];
    for volcano in ["--volcano=yes", "--volcano=no"] {
        let job = ["--priority=high", volcano, "train.py"];
        let output = paddle(&cluster, folder.path(), &[&place[..], &job[..]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("kubectl create priorityclass paddle-high --value=1000"), "{said}");
    }
    let run = |arguments: &[&str]| {
        let output = verb(&cluster, folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    cluster.shell("kubectl create priorityclass paddle-high --value=1000");
    let high = ["launch", "--detach", "--quiet", "--priority=high", "train.py"];
    let id = run(&[&high[..4], &place, &high[4..]].concat());
    let selector = format!("paddlecloud/job={id}");
    let path = "jsonpath={.items[*].spec.priorityClassName}";
    wait_for("its pod has the class", || {
        let class = cluster.ask(&["get", "pods", "-l", &selector, "-o", path]);
        (class == "paddle-high").then_some(())
    });
    run(&["kill", &id]);
    run(&["jobs", "--forget", &id]);
    cluster.shell("kubectl delete priorityclass paddle-high");
    let queue = serde_json::json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": "narrow"}, "spec": {"weight": 1, "capability": {"cpu": "1"}},
    });
    cluster.tell(&["apply", "-f", "-"], &queue.to_string());
    for (flags, words) in [
        (&["--queue=narrow", "--cpus=2"][..], "cpu 2, and the queue narrow may have 1"),
        (&["--volume=pvc://none:/data"], "persistentvolumeclaim \"none\" not found"),
    ] {
        let detached = ["launch", "--detach", "--quiet"];
        let id = run(&[&detached[..], &place, flags, &["train.py"]].concat());
        wait_for("it says what", || {
            run(&["jobs", "-o", "json"]).contains(&words.replace('"', "\\\"")).then_some(())
        });
        run(&["kill", &id]);
        run(&["jobs", "--forget", &id]);
    }
    cluster.ask(&["delete", "queue.scheduling.volcano.sh", "narrow"]);
}
