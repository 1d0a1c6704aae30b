//! What `deploy/` has besides manifests of jobs, run for real: the chart of the cloud server, and the
//! clusters of the original's tutorials.

use super::cluster::{Cluster, wait_for};
use super::repository;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

fn deploy(path: &str) -> String {
    repository::path("deploy").join(path).to_str().unwrap().to_owned()
}

/// The verbs of rules, by group and resource.
fn verbs(rules: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rules: serde_json::Value = serde_yaml_ng::from_str(rules).unwrap();
    let texts = |list: &serde_json::Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in rules.as_array().unwrap() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                all.entry(format!("{group}/{resource}")).or_default().extend(texts(&rule["verbs"]));
            }
        }
    }
    all
}

/// What a launcher needs for a job, the server needs for it.
#[test]
fn the_chart_gives_the_documented_rights() {
    let page = std::fs::read_to_string(repository::path("docs/kubernetes.md")).unwrap();
    let rest = page.split_once("### Rights").unwrap().1.split_once("```yaml\nrules:\n").unwrap().1;
    let documented = verbs(rest.split_once("```").unwrap().0);
    let names = deploy("helm/paddlecloud/templates/_names.tpl");
    let names = std::fs::read_to_string(names).unwrap();
    let rules = names.split_once("{{- define \"paddlecloud.jobRules\" -}}").unwrap().1;
    let rules: String =
        rules.split_inclusive('\n').filter(|line| !line.starts_with("{{")).collect();
    assert_eq!(verbs(&rules), documented);
}

/// The commands of the documentation that install a cloud: the chart, the password, the way there.
fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(repository::path("docs/kubernetes.md")).unwrap();
    let rest = page.split_once("`deploy/helm/paddlecloud` installs the server itself").unwrap().1;
    let block = rest.split_once("```bash\n").unwrap().1.split_once("```").unwrap().0;
    let lines = block.replace("\\\n", "");
    lines.lines().map(str::to_owned).collect()
}

/// A port of this machine that leads to a service, while it lives.
struct Tunnel {
    process: Child,
    port: u16,
    /// Kept open: it says more, and ends when nobody listens.
    _output: BufReader<ChildStdout>,
}

impl Tunnel {
    /// By a command, with a port that is free here.
    fn open(cluster: &Cluster, command: &str) -> Tunnel {
        let command = command.replace(" 8080", " :8080");
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[0], "kubectl");
        let mut process = cluster.command(&words[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        // Forwarding from 127.0.0.1:41267 -> 8080
        let address = line.split_whitespace().nth(2).unwrap_or_else(|| panic!("{line}"));
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        Tunnel { process, port, _output: output }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A person at a terminal, whose cloud is at the end of a tunnel.
struct Person {
    home: tempfile::TempDir,
}

impl Person {
    fn new(port: u16, name: &str, password: &str) -> Person {
        let home = tempfile::tempdir().unwrap();
        let config = format!(
            "datacenters:\n- name: dc1\n  username: {name}\n  password: {password}\n  \
             endpoint: http://127.0.0.1:{port}\ncurrent-datacenter: dc1\n"
        );
        std::fs::create_dir(home.path().join(".paddle")).unwrap();
        std::fs::write(home.path().join(".paddle/config"), config).unwrap();
        Person { home }
    }

    fn say(&self, words: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_paddlecloud"))
            .args(words)
            .env("HOME", self.home.path())
            .env_remove("PADDLECLOUD_TOKEN")
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{words:?}: {}", said(&output.stderr));
        said(&output.stdout)
    }
}

/// By the commands of the documentation. The rights of the chart are enough for everything that the server does, in one namespace and with
/// one for each user, with Volcano and without.
#[test]
fn the_chart_installs_a_cloud_that_runs_jobs() {
    let Some(cluster) = Cluster::with_processors() else { return };
    let namespaces = ["cloud", "paddle-admin"].map(str::to_owned);
    for (has_namespaces, has_volcano) in [(false, true), (true, true), (false, false)] {
        cluster.remove_namespaces(&namespaces);
        cluster.ask(&["delete", "pv", "cloud-data", "--ignore-not-found"]);
        let (files, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "cloud-data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": data.path()},
                "claimRef": {"namespace": "cloud", "name": "cloud-data"},
            },
        });
        cluster.tell(&["apply", "-f", "-"], &volume.to_string());
        let shared = json!({"host_path": {"path": files.path()}}).to_string();
        let [install, password, forward] = &documented()[..] else { panic!("{:?}", documented()) };
        let install = install.replace("deploy/helm/paddlecloud", &deploy("helm/paddlecloud"));
        let nfs = r#"{"nfs": {"server": "10.0.0.1", "path": "/export"}}"#;
        assert!(install.contains(nfs), "{install}");
        let values = format!(
            "--set=userNamespaces={has_namespaces},volcano={has_volcano} \
             --set=data.size=1Gi,quota.replicas=10"
        );
        cluster.shell(&format!("{} --wait --timeout=5m {values}", install.replace(nfs, &shared)));
        let password = cluster.shell(password);
        let tunnel = Tunnel::open(&cluster, forward);
        let person = Person::new(tunnel.port, "admin", password.trim());
        let program = person.home.path().join("program");
        std::fs::create_dir(&program).unwrap();
        std::fs::write(program.join("train.py"), "print('trained')\n").unwrap();
        let job = ["-jobname", "job", "-parallelism", "2", "-pservers", "1"];
        let entry = ["-entry", "python train.py", program.to_str().unwrap()];
        person.say(&[&["submit"], &job[..], &entry[..]].concat());
        let followed = person.say(&["logs", "-f", "job"]);
        assert_eq!(followed.matches("trained").count(), 2, "{followed}");
        wait_for("it has ended", || {
            person.say(&["get", "jobs"]).contains("Succeeded").then_some(())
        });
        cluster.helm(&["uninstall", "cloud", "--namespace=cloud", "--wait"]);
    }
    cluster.remove_namespaces(&namespaces);
    cluster.ask(&["delete", "pv", "cloud-data", "--ignore-not-found"]);
}

/// Every value of the chart leads to objects that the cluster accepts.
#[test]
fn the_chart_is_accepted_with_postgres_and_an_ingress() {
    let Some(cluster) = Cluster::find() else { return };
    let chart = deploy("helm/paddlecloud");
    let values = "--set=postgres.enabled=true,postgres.password=a/b,ingress.enabled=true,\
                  ingress.className=nginx,ingress.tlsSecret=tls,userNamespaces=true,queue=fast";
    let text = cluster.helm(&["template", "cloud", &chart, values]);
    let arguments = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    let told = cluster.tell(&arguments, &text);
    assert_eq!(told.lines().count(), 12, "{told}");
    let claim = "--set-json=files.volume={\"nfs\":{\"server\":\"10.0.0.1\",\"path\":\"/srv\"}}";
    let text = cluster.helm(&["template", "cloud", &chart, claim]);
    cluster.tell(&arguments, &text);
}

/// A directory with the program of word2vec and data for three trainers, and a key.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let example = repository::path("examples/word2vec");
    for name in ["train.py", "prepare.py", "generate.py", "start_mpi_train.sh"] {
        std::fs::copy(example.join(name), folder.path().join(name)).unwrap();
    }
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", "key"])
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let options = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n";
    let key = folder.path().join("key");
    let text = format!("IdentityFile {}\n{options}", key.display());
    std::fs::write(folder.path().join("ssh_config"), text).unwrap();
    folder
}

fn addresses(cluster: &Cluster, app: &str) -> Vec<String> {
    let selector = format!("app={app}");
    let path = "jsonpath={.items[*].status.podIP}";
    let text = cluster.ask(&["get", "pods", "-l", &selector, "-o", path]);
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn word2vec_trains_on_the_ssh_servers() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = workspace();
    let keys = format!("--from-file=authorized_keys={}/key.pub", folder.path().display());
    let servers = deploy("fabric/ssh_servers.yaml");
    cluster.ask(&["delete", "--ignore-not-found", "secret/ssh-servers", "deployment/ssh-servers"]);
    cluster.ask(&["create", "secret", "generic", "ssh-servers", &keys]);
    cluster.ask(&["create", "-f", &servers]);
    cluster.ask(&["rollout", "status", "deployment/ssh-servers", "--timeout=120s"]);
    let hosts: Vec<String> =
        addresses(&cluster, "ssh-servers").iter().map(|host| format!("root@{host}")).collect();
    // As somebody who has written these machines into the example's file.
    let cluster_train = folder.path().join("cluster_train");
    std::fs::create_dir(&cluster_train).unwrap();
    for name in ["run.sh", "paddle.py"] {
        let file = repository::path("examples/cluster_train").join(name);
        std::fs::copy(file, cluster_train.join(name)).unwrap();
    }
    std::fs::write(cluster_train.join("conf.py"), format!("HOSTS = {hosts:?}\n")).unwrap();
    let python = repository::path(".venv/bin/python");
    let package = folder.path().join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::copy(folder.path().join("train.py"), package.join("train.py")).unwrap();
    let prepared = Command::new(python)
        .args(["prepare.py", "--generate", "--output", "package"])
        .current_dir(folder.path())
        .status();
    assert!(prepared.unwrap().success());
    let said = cluster.inside(
        folder.path(),
        &format!(
            "export PADDLE_JOBS_DIR=$PWD/jobs PATH={}:$PATH\n\
             export PATH_TO_LOCAL_WORKSPACE=package NUM_PASSES=1 TRAINER_COUNT=1\n\
             sh cluster_train/run.sh --ssh_config ssh_config -- python3 train.py --preset test\n",
            Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap().display()
        ),
    );
    assert!(said.contains("trainer-2"), "{said}");
    // The model of the first machine was brought here.
    assert!(folder.path().join("output/word2vec_pass_00000.tar.gz").is_file(), "{said}");
    cluster.ask(&["delete", "-f", &servers, "--wait"]);
    cluster.ask(&["delete", "secret", "ssh-servers"]);
}

/// As the original's tutorial has it, from the head.
#[test]
fn word2vec_trains_under_mpirun_from_the_head() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = workspace();
    let keys = folder.path().join("ssh");
    std::fs::create_dir(&keys).unwrap();
    std::fs::copy(folder.path().join("key"), keys.join("id_rsa.mpi")).unwrap();
    std::fs::copy(folder.path().join("key.pub"), keys.join("id_rsa.mpi.pub")).unwrap();
    let (head, nodes) = (deploy("openmpi/head.yaml"), deploy("openmpi/mpi-nodes.yaml"));
    let all = ["secret/mpi-ssh", "deployment/mpi-header", "deployment/mpi-nodes"];
    cluster.ask(&[&["delete", "--ignore-not-found"], &all[..]].concat());
    let from = format!("--from-file={}", keys.display());
    cluster.ask(&["create", "secret", "generic", "mpi-ssh", &from]);
    cluster.ask(&["create", "-f", &head, "-f", &nodes]);
    for deployment in &all[1..] {
        cluster.ask(&["rollout", "status", deployment, "--timeout=120s"]);
    }
    let machines = addresses(&cluster, "mpi-nodes").join("\n") + "\n";
    std::fs::write(folder.path().join("machines"), machines).unwrap();
    let on_head = "set -e\n\
        python prepare.py --generate\n\
        cat machines | xargs -i scp word_dict.pickle train.py start_mpi_train.sh machines {}:/home/tutorial\n\
        mpirun -hostfile machines -n 3 mkdir -p /home/tutorial/logs /home/tutorial/train_data_dir \
        /home/tutorial/test_data_dir\n\
        part=0\n\
        for node in $(cat machines); do\n\
        scp train_data_dir/train.txt-0000$part $node:/home/tutorial/train_data_dir\n\
        scp test_data_dir/test.txt-0000$part $node:/home/tutorial/test_data_dir\n\
        part=$((part + 1))\n\
        done\n\
        mpirun -hostfile machines -n 3 /home/tutorial/start_mpi_train.sh --preset test --num_passes 1\n\
        scp $(head -n 1 machines):/home/tutorial/output/word2vec_pass_00000.tar.gz .\n";
    std::fs::write(folder.path().join("tutorial.sh"), on_head).unwrap();
    let head = &addresses(&cluster, "mpi-header")[0];
    let files = "machines prepare.py generate.py train.py start_mpi_train.sh tutorial.sh";
    let said = cluster.inside(
        folder.path(),
        &format!(
            "scp -F ssh_config {files} tutorial@{head}:~\n\
             ssh -F ssh_config tutorial@{head} bash tutorial.sh\n\
             scp -F ssh_config tutorial@{head}:word2vec_pass_00000.tar.gz model.tar.gz\n"
        ),
    );
    assert!(folder.path().join("model.tar.gz").is_file(), "{said}");
    cluster.ask(&[&["delete", "--wait"], &all[..]].concat());
}
