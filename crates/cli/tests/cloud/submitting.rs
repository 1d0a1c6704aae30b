//! Many jobs, large jobs, jobs with the same name, and what a quota does.

use super::server::{Server, wait_for};
use contract::api::job::Job;
use contract::job::Priority;
use contract::quantity::Quantity;
use contract::state::{JobState, State};
use serde_json::{Value, json};

const JOBS: &str = "/api/v2/datacenters/local/jobs";
const ENDLESS: &str = "while :; do sleep 0.05; done";

#[test]
fn a_hundred_submissions_at_once_are_a_hundred_jobs() {
    let server = Server::with_config("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let user = server.user("wu");
    user.submit("first", ENDLESS);
    user.wait_until("first", JobState::Running);
    let bodies: Vec<Value> =
        (0..100).map(|number| user.submission(&format!("job-{number}"), "true", |_| ())).collect();
    std::thread::scope(|scope| {
        for body in &bodies {
            // Each twice, at the same time: it is one job all the same.
            for _ in 0..2 {
                let user = user.clone();
                scope.spawn(move || {
                    // Too many at once are told to come again.
                    wait_for("an answer", || {
                        let answer = user.submit_body(body);
                        assert!([200, 201, 429].contains(&answer.status), "{answer:?}");
                        (answer.status != 429).then_some(())
                    });
                });
            }
        }
    });
    let page: Value = user.get(&format!("{JOBS}?limit=1000&state=pending")).read();
    assert_eq!(page["items"].as_array().unwrap().len(), 100);
    for number in 3..100 {
        let killed = user.kill(&format!("job-{number}"));
        assert_eq!(killed.state, JobState::Killed);
    }
    user.kill("first");
    for number in 0..3 {
        user.wait_until(&format!("job-{number}"), JobState::Succeeded);
    }
}

#[test]
fn the_ten_trainers_and_three_servers_of_the_documents_run_on_this_machine() {
    let server = Server::start();
    let user = server.user("wu@example.com");
    let script = "echo trainer $PADDLE_INIT_TRAINER_ID of $PADDLE_INIT_NUM_GRADIENT_SERVERS; \
                  cat /trainer_id /trainer_count 2>/dev/null; pwd";
    let body = user.submission("my-paddlecloud-job", script, |spec| {
        (spec.trainers, spec.pservers) = (10, 3);
        spec.passes = Some(1);
        for resources in [&mut spec.resources.trainer, &mut spec.resources.pserver] {
            resources.cpu = Some(Quantity::whole(1));
            resources.memory = Some("1Gi".parse().unwrap());
        }
    });
    let job: Job = user.submit_body(&body).read();
    assert_eq!((job.state, job.trainers, job.pservers), (JobState::Pending, 10, 3));
    let job = user.wait_until("my-paddlecloud-job", JobState::Succeeded);
    assert_eq!((job.job.succeeded, job.workers.len()), (10, 13));
    let log = user.log("my-paddlecloud-job", "trainer-7");
    assert!(log.starts_with("trainer 7 of 10\n"), "{log}");
}

#[test]
fn a_name_is_taken_until_its_job_has_ended() {
    let server = Server::start();
    let (user, other) = (server.user("wu"), server.user("eve"));
    user.submit("job", "trap '' TERM; while :; do sleep 0.05; done");
    user.wait_until("job", JobState::Running);
    let again = user.submission("job", "true", |_| ());
    assert!(user.submit_body(&again).refusal(409).contains("has not ended"));
    // The names of others do not matter.
    other.submit("job", "true");
    other.wait_until("job", JobState::Succeeded);
    user.kill("job");
    let answer = user.submit_body(&again);
    assert!(answer.refusal(409).contains("still being ended"), "{answer:?}");
    user.wait_until("job", JobState::Killed);
    let job: Job = user.submit_body(&again).read();
    let done = user.wait_until("job", JobState::Succeeded);
    assert_eq!(done.job.uid, job.uid);
    let history: Value = user.get(&format!("{JOBS}?name=job")).read();
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_quota_refuses_what_can_never_run_and_lets_the_rest_wait() {
    let server = Server::with_config("quota: {cpu: 2, jobs: 3}");
    let user = server.user("wu");
    let large = user.submission("large", "true", |spec| {
        spec.resources.trainer.cpu = Some(Quantity::whole(3));
    });
    let refusal = user.submit_body(&large).refusal(413);
    assert_eq!(refusal, "the job needs 3 cpu in all, and your quota is 2: ask for less");
    for name in ["one", "two"] {
        user.submit(name, ENDLESS);
        user.wait_until(name, JobState::Running);
    }
    user.submit("three", "true");
    let reason = wait_for("a reason", || {
        let why = user.why("three");
        why.contains("quota").then_some(why)
    });
    assert!(
        reason.ends_with("the quota of wu is used up: it needs 1 cpu, 2 of 2 are in use"),
        "{reason}"
    );
    let fourth = user.submission("four", "true", |_| ());
    assert!(user.submit_body(&fourth).refusal(413).contains("your quota is 3 jobs"));
    let quota: Value = user.get("/api/v2/datacenters/local/quota").read();
    assert_eq!((&quota["used"]["cpu"], &quota["used"]["jobs"]), (&json!("2"), &json!(3)));
    // More is allowed, and the job starts.
    let admin = server.admin();
    let path = "/api/v2/datacenters/local/quota/wu";
    assert_eq!(admin.put(path, br#"{"cpu": 4}"#).status, 200);
    user.wait_until("three", JobState::Succeeded);
    assert_eq!(user.put(path, br#"{"cpu": 400}"#).status, 403);
}

#[test]
fn priority_decides_who_goes_first_and_a_job_that_waits_can_be_removed() {
    let server = Server::with_config("datacenters: [{name: local, capacity: {replicas: 1}}]");
    let user = server.user("wu");
    user.submit("first", ENDLESS);
    user.wait_until("first", JobState::Running);
    let order = "echo $PADDLE_JOB_NAME >> ../../order";
    for (name, priority) in
        [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)]
    {
        let body = user.submission(name, order, |spec| spec.priority = priority);
        let _: Job = user.submit_body(&body).read();
    }
    user.submit("gone", order);
    let gone = user.post(&format!("{JOBS}/gone/kill"), &json!({"remove": true}));
    let _: Job = gone.read();
    assert_eq!(user.get(&format!("{JOBS}/gone")).status, 404);
    user.kill("first");
    user.wait_until("low", JobState::Succeeded);
    let order = server.data().join("files/local/home/wu/order");
    assert_eq!(std::fs::read_to_string(order).unwrap(), "high\nnormal\nlow\n");
}

#[test]
fn a_job_that_cannot_run_as_asked_is_refused_by_the_name_of_the_field() {
    let server = Server::start();
    let user = server.user("wu");
    let check = |field: &str, status: u16, change: &dyn Fn(&mut Value)| {
        let mut body = user.submission("job", "true", |_| ());
        change(&mut body);
        let answer = user.submit_body(&body);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text.contains(field), "{field}: {answer:?}");
    };
    check("image", 501, &|body| body["spec"]["image"] = json!("ubuntu"));
    check("queue", 404, &|body| body["spec"]["queue"] = json!("night"));
    check("user", 403, &|body| body["spec"]["user"] = json!("eve"));
    check("datacenter", 403, &|body| body["spec"]["datacenter"] = json!("moon"));
    check("'_'", 400, &|body| body["spec"]["name"] = json!("my_job"));
    check("colour", 400, &|body| body["spec"]["colour"] = json!("red"));
    check("colour", 400, &|body| body["colour"] = json!("red"));
    check("gpu", 413, &|body| body["spec"]["resources"]["trainer"]["gpu"] = json!("1"));
    check("package", 404, &|body| body["package"] = json!("0".repeat(64)));
    check("package", 400, &|body| body["package"] = Value::Null);
    check("another user's home", 403, &|body| {
        body["package"] = Value::Null;
        body["spec"]["package"] = json!("/pfs/local/home/eve/x");
    });
    check("there is no such directory", 404, &|body| {
        body["package"] = Value::Null;
        body["spec"]["package"] = json!("/pfs/local/home/wu/x");
    });
    check("entry", 400, &|body| body["spec"]["entry"] = json!(""));
    check("entry", 400, &|body| body["spec"]["entry"] = json!("  "));
    // A job that is told to end would go on for as long.
    check("grace_seconds", 400, &|body| body["spec"]["grace_seconds"] = json!(601));
}

#[test]
fn what_a_job_left_is_there_for_the_next_one_of_its_name_but_not_its_program() {
    let server = Server::start();
    let user = server.user("wu");
    let submit = |files: &[(&str, &str)]| {
        let digest = user.upload(files);
        let mut body = user.submission("job", "true", |spec| spec.entry = "sh a.sh".into());
        body["package"] = json!(digest);
        let _: Job = user.submit_body(&body).read();
        user.wait_until("job", JobState::Succeeded);
        user.log("job", "trainer-0")
    };
    let first = "mkdir -p model; echo one > model/weights; echo kept > lib/kept; ls lib";
    assert_eq!(submit(&[("a.sh", first), ("lib/old.py", "")]), "kept\nold.py\n");
    let second = "cat model/weights; ls lib; ls -d *";
    let log = submit(&[("a.sh", second), ("lib/new.py", "")]);
    assert_eq!(log, "one\nkept\nnew.py\na.sh\nlib\nlog\nmodel\n");
    assert!(user.job("job").job.state.is_final());
}

#[test]
fn a_program_that_the_disk_has_damaged_is_not_run_and_is_sent_again() {
    let server = Server::start();
    let user = server.user("wu");
    let body = user.submission("job", "echo right", |_| ());
    let sum = super::user::sha256("echo right");
    let blob = server.data().join("blobs/wu").join(&sum[..2]).join(&sum[2..]);
    std::fs::write(&blob, "echo wrong").unwrap();
    let _: Job = user.submit_body(&body).read();
    let job = user.wait_until("job", JobState::Failed);
    assert!(job.job.reason.contains("of the package is damaged"), "{}", job.job.reason);
    assert!(job.job.reason.contains("train.sh") && job.workers.is_empty(), "{job:?}");
    user.submit("job", "echo right");
    user.wait_until("job", JobState::Succeeded);
    assert_eq!(user.log("job", "trainer-0"), "right\n");
}
