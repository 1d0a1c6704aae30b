//! A cloud whose datacenter is the cluster: users' jobs as pods, with their files and logs.

use super::cluster::{Cluster, IMAGE, wait_for};
use super::server::Server;
use super::user::User;
use contract::api::job::Job;
use contract::job::FaultTolerance;
use contract::quantity::Quantity;
use contract::state::JobState;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What the names of users' namespaces begin with.
const PREFIX: &str = "paddle-";

/// A server and the cluster that runs its jobs.
struct Site {
    cluster: Cluster,
    server: Server,
    files: tempfile::TempDir,
}

impl Site {
    /// A server with a namespace for each of these users, none of which is there yet.
    fn open(users: &[&str]) -> Option<Site> {
        let cluster = Cluster::find()?;
        let namespaces: Vec<String> = users.iter().map(|user| format!("{PREFIX}{user}")).collect();
        cluster.remove_namespaces(&namespaces);
        // Nodes have a `/var/lib` of their own, and see the rest of the machine.
        let files = tempfile::tempdir().unwrap();
        let path = files.path().display();
        let yaml = format!(
            "datacenters:\n\
             - name: pods\n  \
               backend: kubernetes\n  \
               files: {path}\n  \
               kubernetes:\n    \
                 kubeconfig: {}\n    \
                 namespace_prefix: {PREFIX}\n    \
                 user_role: view\n    \
                 image: {IMAGE}\n    \
                 volume: {{host_path: {{path: {path}}}}}\n\
             quota: {{cpu: 5, memory: 20Gi, replicas: 20}}\n",
            cluster.kubeconfig().display()
        );
        Some(Site { server: Server::with_config(&yaml), cluster, files })
    }

    fn user(&self, name: &str) -> User {
        self.server.user(name).within("pods")
    }

    fn home(&self, user: &str) -> PathBuf {
        self.files.path().join("home").join(user)
    }

    /// The pods of a user, and everything else that jobs are made of.
    fn objects(&self, user: &str) -> String {
        let kinds = "pods,jobs.batch.volcano.sh,services,configmaps,secrets";
        let namespace = format!("{PREFIX}{user}");
        let names = self.cluster.ask(&["get", kinds, "-n", &namespace, "-o", "name"]);
        names.lines().filter(|name| *name != "configmap/kube-root-ca.crt").collect()
    }

    fn close(self, users: &[&str]) {
        for user in users {
            wait_for("nothing is left", || self.objects(user).is_empty().then_some(()));
        }
        let namespaces: Vec<String> = users.iter().map(|user| format!("{PREFIX}{user}")).collect();
        self.cluster.remove_namespaces(&namespaces);
    }
}

fn submit(user: &User, name: &str, script: &str, trainers: u32) -> Job {
    let body = user.submission(name, script, |spec| {
        (spec.trainers, spec.pservers) = (trainers, trainers - 1);
    });
    user.submit_body(&body).read()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_users_job_is_pods_with_their_files_and_no_others() {
    let Some(site) = Site::open(&["wu", "eve"]) else { return };
    let (wu, eve) = (site.user("wu"), site.user("eve"));
    std::fs::write(site.files.path().join("public/data"), "shared\n").unwrap();
    let script = "echo trainer $PADDLE_TRAINER_ID of $TRAINERS, in $HOME\n\
                  cat /pfs/public/data; ls /pfs/pods/home\n\
                  touch /pfs/pods/public/mine 2>/dev/null || echo public is read-only\n\
                  ls /var/run/secrets/kubernetes.io 2>/dev/null || echo no way to the API server\n\
                  [ $(id -u) -gt 1000 ] && echo not root\n\
                  mkdir -p output && echo model > output/weights-$PADDLE_TRAINER_ID\n";
    submit(&wu, "job", script, 2);
    submit(&eve, "job", script, 1);
    wu.wait_until("job", JobState::Succeeded);
    eve.wait_until("job", JobState::Succeeded);
    let log = wu.log("job", "trainer-1");
    for line in [
        "trainer 1 of 2, in /pfs/pods/home/wu\n",
        "shared\nwu\n",
        "public is read-only\n",
        "no way to the API server\n",
        "not root\n",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(eve.log("job", "trainer-0").contains("shared\neve\n"));
    assert!(wu.log("job", "pserver-0").contains("listening"), "{}", wu.log("job", "pserver-0"));
    assert_eq!(read(&site.home("wu").join("jobs/job/output/weights-1")), "model\n");
    // Each is a guest of their own namespace alone, and sees no secrets there.
    let may = |user: &str, verb: &str, what: &str, whose: &str| {
        let namespace = format!("{PREFIX}{whose}");
        let asked = ["auth", "can-i", verb, what, "-n", &namespace, "--as", user];
        site.cluster.try_ask(&asked).trim() == "yes"
    };
    assert!(may("wu", "list", "pods", "wu"));
    assert!(!may("wu", "list", "pods", "eve"));
    assert!(!may("wu", "get", "secrets", "wu"));
    assert!(!may("wu", "create", "pods", "wu"));
    let policy = ["get", "networkpolicy", "paddlecloud", "-n", "paddle-wu", "-o"];
    let path = "jsonpath={.spec.policyTypes} {.spec.podSelector} {.spec.ingress}";
    let policy = site.cluster.ask(&[&policy[..], &[path]].concat());
    assert_eq!(policy, r#"["Ingress"] {} [{"from":[{"podSelector":{}}]}]"#);
    let quota = site.cluster.ask(&[
        "get",
        "resourcequota",
        "paddlecloud",
        "-n",
        "paddle-wu",
        "-o",
        "jsonpath={.spec.hard}",
    ]);
    let quota: Value = serde_json::from_str(&quota).unwrap();
    assert_eq!(quota["pods"], "20", "{quota}");
    assert_eq!(quota["requests.cpu"], "5", "{quota}");
    site.close(&["wu", "eve"]);
}

#[test]
fn a_job_outlives_the_server_and_is_taken_up_again() {
    let Some(mut site) = Site::open(&["li"]) else { return };
    let li = site.user("li");
    let script = "echo before; until [ -e go ]; do sleep 0.2; done; echo after\n";
    submit(&li, "job", script, 2);
    wait_for("it runs", || li.log("job", "trainer-1").contains("before").then_some(()));
    site.server.kill();
    // It ends while nobody looks.
    std::fs::write(site.home("li").join("jobs/job/go"), "").unwrap();
    wait_for("the pods have ended", || {
        let path = "jsonpath={.items[*].status.state.phase}";
        let asked = ["get", "jobs.batch.volcano.sh", "-n", "paddle-li", "-o", path];
        (site.cluster.ask(&asked) == "Completed").then_some(())
    });
    site.server.restart();
    let li = li.at(&site.server);
    li.wait_until("job", JobState::Succeeded);
    for rank in 0..2 {
        let log = li.log("job", &format!("trainer-{rank}"));
        assert!(log.ends_with("before\nafter\n"), "{log}");
        assert_eq!(log.matches("before").count(), 1, "{log}");
    }
    site.close(&["li"]);
}

/// As `paddlecloud submit -faulttolerant` has it: what the master knows is kept in the user's home.
#[test]
fn a_fault_tolerant_job_keeps_what_its_master_knows() {
    let Some(site) = Site::open(&["fu"]) else { return };
    let fu = site.user("fu");
    let script = "echo data of $PADDLE_MASTER_ENDPOINT";
    let body = fu.submission("tolerant", script, |spec| {
        (spec.pservers, spec.master, spec.restarts) = (1, true, 10);
        spec.fault_tolerance = Some(FaultTolerance { min_trainers: 1, max_trainers: 2 });
    });
    let job: Job = fu.submit_body(&body).read();
    fu.wait_until("tolerant", JobState::Succeeded);
    let log = fu.log("tolerant", "trainer-0");
    assert!(log.contains(&format!("data of {}-master-0.", job.uid)), "{log}");
    let kept = site.home("fu").join("jobs/tolerant/checkpoint").join(&job.uid).join("master");
    assert!(kept.is_dir(), "{}", kept.display());
    site.close(&["fu"]);
}

#[test]
fn a_job_that_does_not_fit_says_why_and_is_killed() {
    let Some(site) = Site::open(&["ma"]) else { return };
    let ma = site.user("ma");
    // The quota has room for it, and no node has.
    let body = ma.submission("large", "true", |spec| {
        spec.resources.trainer.cpu = Some(Quantity::whole(5));
    });
    let _: Job = ma.submit_body(&body).read();
    let is_told = |why: &String| why.contains("the job asks for cpu 5");
    wait_for("it says why", || Some(ma.why("large")).filter(is_told));
    ma.kill("large");
    ma.wait_until("large", JobState::Killed);
    site.close(&["ma"]);
}

/// The credentials of a registry are a Secret of the job, with which its pods fetch their image.
#[test]
fn an_image_is_fetched_with_the_users_own_credentials() {
    let Some(site) = Site::open(&["xu"]) else { return };
    let xu = site.user("xu");
    let credentials = json!({"server": "hub.example.com", "username": "xu", "password": "secret"});
    let registry = "/api/v2/datacenters/pods/registries/hub";
    assert!(xu.put(registry, credentials.to_string().as_bytes()).status < 300);
    let body = xu.submission("private", "true", |spec| {
        (spec.registry, spec.image) = ("hub".into(), "hub.example.com/xu/none:v1".into());
    });
    let job: Job = xu.submit_body(&body).read();
    let why = wait_for("it cannot be fetched", || {
        Some(xu.why("private")).filter(|why| why.contains("Image"))
    });
    assert!(why.contains("trainer-0"), "{why}");
    let name = format!("{}-registry", job.uid);
    let secret =
        site.cluster.ask(&["get", "secret", &name, "-n", "paddle-xu", "-o", "jsonpath={.type}"]);
    assert_eq!(secret, "kubernetes.io/dockerconfigjson");
    xu.kill("private");
    xu.wait_until("private", JobState::Killed);
    site.close(&["xu"]);
}
