//! `paddle_k8s` in pods that have no numbers, such as those of a ReplicaSet: they find each other by
//! label, and claim ranks.

use super::cluster::{Cluster, IMAGE, wait_for};
use super::repository;
use serde_json::{Value, json};

const NAMESPACE: &str = "ranks";

/// The rules of the documentation for pods that ask the API server.
fn documented_rules() -> String {
    let page = std::fs::read_to_string(repository::path("docs/kubernetes.md")).unwrap();
    let rest = page.split_once("Asking the API server needs").unwrap().1;
    let rules = rest.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let kind = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: ranks}\n";
    format!("{kind}{rules}")
}

/// So many pods that run a verb of the entry.
fn replica_set(name: &str, label: &str, replicas: u32, verb: &[&str]) -> Value {
    let variable = |(name, value): (&str, &str)| json!({"name": name, "value": value});
    let field = |(name, path): (&str, &str)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let entry = "echo rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM at $PADDLE_INIT_PSERVERS, \
                 data of $PADDLE_MASTER_ENDPOINT\n\
                 sleep 1000";
    let told = [
        ("PADDLE_JOB_NAME", "words"),
        ("PADDLE_TRAINERS_NUM", "2"),
        ("PADDLE_PSERVERS_NUM", "1"),
        ("ENTRY", entry),
    ];
    let own = [
        ("POD_NAME", "metadata.name"),
        ("POD_IP", "status.podIP"),
        ("NAMESPACE", "metadata.namespace"),
    ];
    let env: Vec<Value> = told.map(variable).into_iter().chain(own.map(field)).collect();
    let labels = json!({label: "words"});
    let command = [&["paddle_k8s"], verb].concat();
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "serviceAccountName": "ranks",
                    "containers": [{
                        "name": "paddle",
                        "image": IMAGE,
                        "command": command,
                        "env": env,
                    }],
                },
            },
        },
    })
}

/// The pods of the trainers that are to stay, and what each has printed of its rank.
fn trainers(cluster: &Cluster) -> Vec<(String, String)> {
    let list = ["get", "pods", "-n", NAMESPACE, "-l", "paddle-job=words", "-o", "json"];
    let list: Value = serde_json::from_str(&cluster.ask(&list)).unwrap();
    let pods = list["items"].as_array().unwrap().iter();
    let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let printed = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let log = cluster.try_ask(&["logs", "-n", NAMESPACE, &name]);
        let line = log.lines().find(|line| line.starts_with("rank ")).unwrap_or_default();
        (name, line.to_owned())
    };
    pods.map(printed).collect()
}

/// Two different ranks, and the addresses of the server and the master; the pod in place of a lost one has that of the lost one.
#[test]
fn a_replacement_takes_the_rank_that_is_free() {
    let Some(cluster) = Cluster::find() else { return };
    let namespaces = [NAMESPACE.to_owned()];
    cluster.remove_namespaces(&namespaces);
    cluster.ask(&["create", "namespace", NAMESPACE]);
    cluster.ask(&["create", "serviceaccount", "ranks", "-n", NAMESPACE]);
    cluster.tell(&["apply", "-n", NAMESPACE, "-f", "-"], &documented_rules());
    let to = ["--role=ranks", "--serviceaccount=ranks:ranks", "-n", NAMESPACE];
    cluster.ask(&[&["create", "rolebinding", "ranks"], &to[..]].concat());
    for set in [
        replica_set("servers", "paddle-job-pserver", 1, &["start_pserver"]),
        replica_set("trainers", "paddle-job", 2, &["start_new_trainer"]),
        // It comes last, and is waited for.
        replica_set(
            "master",
            "paddle-job-master",
            1,
            &["start_master", "--", "--dataset=/etc/passwd"],
        ),
    ] {
        cluster.tell(&["apply", "-n", NAMESPACE, "-f", "-"], &set.to_string());
    }
    let settled = || {
        let mut all = trainers(&cluster);
        all.sort_by(|a, b| a.1.cmp(&b.1));
        let is_settled = all.len() == 2 && all.iter().all(|(_, line)| !line.is_empty());
        is_settled.then_some(all)
    };
    let before = wait_for("both have ranks", settled);
    let address = |label: &str| {
        let path = "jsonpath={.items[0].status.podIP}";
        let label = format!("{label}=words");
        cluster.ask(&["get", "pods", "-n", NAMESPACE, "-l", &label, "-o", path])
    };
    let (server, master) = (address("paddle-job-pserver"), address("paddle-job-master"));
    for (rank, (_, line)) in before.iter().enumerate() {
        assert_eq!(*line, format!("rank {rank} of 2 at {server}, data of {master}:8080"));
    }
    let (lost, kept) = (&before[0].0, &before[1].0);
    cluster.ask(&["delete", "pod", lost, "-n", NAMESPACE]);
    let after = wait_for("both have ranks again", || settled().filter(|all| all[0].0 != *lost));
    assert_eq!(after[0].1, before[0].1, "{after:?}");
    assert_eq!(after[1], (kept.clone(), before[1].1.clone()));
    cluster.remove_namespaces(&namespaces);
}
