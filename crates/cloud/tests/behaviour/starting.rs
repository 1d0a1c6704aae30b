//! Jobs that cannot be started: the `paddle` of these servers ends at once.

use super::cloud::Cloud;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const JOBS: &str = "/api/v2/datacenters/local/jobs";

/// An empty package, which is complete as it is.
fn package(cloud: &Cloud, token: &str) -> Value {
    let answer = cloud.call(token, "POST", "/api/v2/packages", &json!({"files": {}}));
    answer.expect(200)["digest"].clone()
}

fn submit(cloud: &Cloud, token: &str, name: &str) -> Value {
    let spec = json!({"version": 3, "name": name, "entry": "true"});
    let body = json!({"request": name, "spec": spec, "package": package(cloud, token)});
    cloud.call(token, "POST", JOBS, &body).expect(201)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_job_that_cannot_be_started_says_why_and_can_be_killed() {
    let cloud = Cloud::start();
    let token = cloud.user("wu");
    submit(&cloud, &token, "job");
    let why = wait_for("a reason", || {
        let why = cloud.get(&token, &format!("{JOBS}/job/why")).expect(200);
        let sentence = why["sentence"].as_str().unwrap().to_owned();
        sentence.contains("could not be started").then_some(sentence)
    });
    assert!(why.contains("conductor"), "{why}");
    let killed = cloud.call(&token, "POST", &format!("{JOBS}/job/kill"), &json!({})).expect(200);
    assert_eq!(killed["state"], "killing");
    let end = wait_for("its end", || {
        let job = cloud.get(&token, &format!("{JOBS}/job")).expect(200);
        (job["state"] != "killing").then_some(job)
    });
    assert_eq!(end["state"], "killed", "{end}");
    // Nothing of the attempts is left.
    let jobs = cloud.folder.path().join("data/jobs/local");
    let left = std::fs::read_dir(jobs).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// A cloud whose jobs run on a Kubernetes cluster that nobody has started.
fn without_cluster() -> (tempfile::TempDir, Cloud) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let server = format!("http://127.0.0.1:{port}");
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let place = json!({
        "name": "local", "backend": "kubernetes", "files": folder.path().join("files"),
        "kubernetes": {
            "kubeconfig": kubeconfig, "namespace": "default", "image": "paddle",
            "volume": {"nfs": {"server": "127.0.0.1", "path": "/files"}},
        },
    });
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let cloud = Cloud::with(&json!({"datacenters": [place]}).to_string());
    (folder, cloud)
}

#[test]
fn a_place_that_does_not_answer_is_the_reason_why_a_job_does_not_start() {
    let (_folder, cloud) = without_cluster();
    let token = cloud.user("wu");
    submit(&cloud, &token, "job");
    submit(&cloud, &token, "other");
    let why = wait_for("a second attempt", || {
        let why = cloud.get(&token, &format!("{JOBS}/job/why")).expect(200);
        let sentence = why["sentence"].as_str().unwrap().to_owned();
        sentence.contains("tried 2 times").then_some(sentence)
    });
    assert!(why.contains("again") && why.contains("Connection refused"), "{why}");
    let detail = cloud.get(&token, &format!("{JOBS}/job")).expect(200);
    assert!(detail["reason"].as_str().unwrap().contains("Connection refused"), "{detail}");
    let events = cloud.get(&token, &format!("{JOBS}/job/events")).expect(200).to_string();
    assert_eq!(events.matches("it could not be started").count(), 1, "{events}");
    // Nobody has to wait for the place to get rid of a job.
    cloud.call(&token, "POST", &format!("{JOBS}/other/kill"), &json!({})).expect(200);
    let end = wait_for("the end of the other job", || {
        let job = cloud.get(&token, &format!("{JOBS}/other")).expect(200);
        (job["state"] == "killed").then_some(job)
    });
    assert!(end["reason"].as_str().unwrap().contains("could not be asked"), "{end}");
}

#[test]
fn pages_of_jobs_have_every_job_once_newest_first() {
    let cloud = Cloud::with("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let token = cloud.user("wu");
    let names: Vec<String> = (0..25).map(|number| format!("job-{number}")).collect();
    names.iter().for_each(|name| {
        submit(&cloud, &token, name);
    });
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = cloud.get(&token, &format!("{JOBS}?limit=10{next}")).expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 10);
        seen.extend(items.iter().map(|job| job["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, names);
    let one = cloud.get(&token, &format!("{JOBS}?name=job-7")).expect(200);
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
}
