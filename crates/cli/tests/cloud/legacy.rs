//! Every request that the original's command-line client makes, in its form, and the answer that
//! it parses: one row each, with and without the slash at the end.

use super::server::{Server, wait_for};
use super::user::{PASSWORD, User};
use contract::state::JobState;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

/// A call as the original's client makes it: JSON as content type, always.
fn call(user: &User, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", user.url()))
        .header("Authorization", user.authorization())
        .header("Content-Type", "application/json")
        .body(body)
        .unwrap();
    let agent = agent.configure_request(request).allow_non_standard_methods(true).build();
    let mut response = ureq::Agent::new_with_defaults().run(agent).unwrap();
    let status = response.status().as_u16();
    (status, response.body_mut().read_json().unwrap())
}

/// Whether `answer` has everything that `expected` has; `"*"` stands for any text, `"#"` for any
/// time.
fn agrees(answer: &Value, expected: &Value) -> bool {
    match (answer, expected) {
        (Value::String(text), Value::String(wanted)) if wanted == "*" => !text.is_empty(),
        (Value::String(text), Value::String(wanted)) if wanted == "#" => {
            text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
        }
        (Value::Object(answer), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| answer.get(key).is_some_and(|found| agrees(found, value))),
        (Value::Array(answer), Value::Array(expected)) => {
            answer.len() == expected.len()
                && answer.iter().zip(expected).all(|(found, value)| agrees(found, value))
        }
        (answer, expected) => answer == expected,
    }
}

fn check(user: &User, (method, path, body, expected): (&str, &str, Value, Value)) {
    // A request that changes something is not made twice, but as it is written.
    let is_safe = method == "GET" || path.starts_with("/api-token-auth");
    let (plain, query) = path.split_once('?').unwrap_or((path, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let slashes = if is_safe { &["", "/"][..] } else { &[""] };
    for slash in slashes {
        let path = format!("{plain}{slash}{query}");
        let (status, answer) = call(user, method, &path, &body);
        assert!(
            status == 200 && agrees(&answer, &expected),
            "{method} {path}\nanswer: {status} {answer:#}\nexpected: {expected:#}"
        );
    }
}

#[test]
fn the_original_client_finds_what_it_asks_for() {
    let server = Server::start();
    let user = server.user("wu@example.com");
    let home = "/pfs/local/home/wu@example.com";
    let script = "import os\nprint('trainer', os.environ['PADDLE_INIT_TRAINER_ID'])\n\
                  while not os.path.exists('../../go'):\n    import time; time.sleep(0.02)\n";
    // `submit` uploads its files one by one.
    let upload = |name: &str, text: &str| {
        let boundary = "8d7b0e5709d756e21e971ff4d9ac3b20";
        let form = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n{text}\r\n--{boundary}--\r\n"
        );
        let agent: ureq::Agent = ureq::Agent::new_with_defaults();
        let path = format!("{}/api/v1/file/?path={home}/jobs/demo/{name}", user.url());
        let call = agent
            .post(path)
            .header("Authorization", user.authorization())
            .header("Content-Type", format!("multipart/form-data; boundary={boundary}"));
        let answer: Value = call.send(form.as_bytes()).unwrap().body_mut().read_json().unwrap();
        assert_eq!(answer, json!({"msg": ""}));
    };
    upload("train.py", script);
    upload("lib/data.py", "");
    let submit = |name: &str| {
        json!({
            "name": name, "jobPackage": "./demo", "parallelism": 2, "cpu": 1, "gpu": 0,
            "memory": "1Gi", "pservers": 1, "pscpu": 1, "psmemory": "1Gi", "topology": "",
            "entry": "python3 train.py", "passes": 1, "image": "", "registry": "",
            "faulttolerant": false, "minInstance": 1, "maxInstance": 1, "datacenter": "datacenter1",
        })
    };
    let login = json!({"username": "wu@example.com", "password": PASSWORD});
    let none = Value::Null;
    let rows = [
        ("POST", "/api-token-auth", login, json!({"token": "*"})),
        ("GET", "/api/v1/token2user", none.clone(), json!({"user": "wu@example.com"})),
        ("GET", "/api/v1/jobs", none.clone(), json!({"items": [], "terminating": []})),
        ("GET", "/api/v1/pservers", none.clone(), json!({"items": []})),
        ("GET", "/api/v1/workers?jobname=demo", none.clone(), json!({"items": []})),
        (
            "GET",
            "/api/v1/filelist?path=/pfs/datacenter1/home/wu@example.com/jobs/demo&dc=local",
            none.clone(),
            json!({"msg": "", "items": ["lib", "train.py"]}),
        ),
        ("POST", "/api/v1/jobs/", submit("demo"), json!({"code": 200, "msg": ""})),
        ("POST", "/api/v1/jobs/", submit("my_job"), json!({"msg": "*"})),
        ("POST", "/api/v1/jobs/", submit("missing"), json!({"msg": "*"})),
    ];
    rows.into_iter().for_each(|row| check(&user, row));
    user.wait_until("demo", JobState::Running);
    wait_for("both trainers", || {
        ["trainer-0", "trainer-1"]
            .iter()
            .all(|worker| user.log("demo", worker).contains("trainer"))
            .then_some(())
    });
    let trainer = |rank: u32, phase: &str, state: Value| {
        json!({
            "metadata": {"name": format!("demo-trainer-{rank}")},
            "status": {
                "phase": phase, "start_time": "#",
                "container_statuses": [{"state": {"terminated": state}}],
            },
        })
    };
    let line = "=".repeat(26);
    let banner = |rank: u32| format!("{line}demo-trainer-{rank}{line}\ntrainer {rank}\n");
    let rows = [
        ("POST", "/api/v1/jobs/", submit("demo"), json!({"msg": "*"})),
        (
            "GET",
            "/api/v1/jobs",
            none.clone(),
            json!({"items": [{
                "metadata": {"name": "demo-trainer"},
                "status": {"active": 2, "succeeded": 0, "failed": 0, "start_time": "#", "completion_time": ""},
            }], "terminating": []}),
        ),
        (
            "GET",
            "/api/v1/pservers",
            none.clone(),
            json!({"items": [{
                "metadata": {"name": "demo-pserver"},
                "status": {"ready_replicas": 1, "replicas": 1},
            }]}),
        ),
        (
            "GET",
            "/api/v1/workers?jobname=demo",
            none.clone(),
            json!({"items": [trainer(0, "Running", Value::Null), trainer(1, "Running", Value::Null)]}),
        ),
        (
            "GET",
            "/api/v1/logs?n=1&w=&jobname=demo",
            none.clone(),
            json!({"code": 200, "msg": format!("{}{}", banner(0), banner(1))}),
        ),
        (
            "GET",
            "/api/v1/logs?n=1&w=demo-trainer-1&jobname=demo",
            none.clone(),
            json!({"code": 200, "msg": "trainer 1\n"}),
        ),
        (
            "GET",
            "/api/v1/logs?n=10&w=&jobname=nothing",
            none.clone(),
            json!({"code": 500, "msg": "*"}),
        ),
        (
            "GET",
            "/api/v1/quota",
            none.clone(),
            json!({"items": [{"status": {"hard": {
                "requests.cpu": "unlimited", "requests.memory": "unlimited",
                "alpha.kubernetes.io/nvidia-gpu": "unlimited", "pods": "unlimited",
            }, "used": {"pods": "3", "requests.cpu": "3"}}}]}),
        ),
        (
            "POST",
            "/api/v1/registry",
            json!({"name": "pcloud-registry-hub", "username": "u", "password": "hunter2", "server": "hub.example.com"}),
            json!({"code": 200, "msg": ""}),
        ),
        (
            "GET",
            "/api/v1/registry",
            none.clone(),
            json!({"code": 200, "msg": {"items": [{
                "metadata": {"name": "pcloud-registry-hub", "creation_timestamp": "#"},
            }]}}),
        ),
        (
            "DELETE",
            "/api/v1/registry/",
            json!({"name": "pcloud-registry-hub", "username": "", "password": "", "server": ""}),
            json!({"code": 200, "msg": ""}),
        ),
        (
            "DELETE",
            "/api/v1/registry",
            json!({"name": "pcloud-registry-hub", "username": "", "password": "", "server": ""}),
            json!({"code": 500, "msg": "there is no such registry (registry: hub)"}),
        ),
        (
            "DELETE",
            "/api/v1/jobs/",
            json!({"jobname": "nothing"}),
            json!({"code": 500, "msg": "*"}),
        ),
        (
            "GET",
            "/api/v1/trainingjobs",
            none.clone(),
            json!({"items": [{"metadata": {"name": "demo-trainer"}}], "terminating": []}),
        ),
        ("POST", "/api/v1/trainingjobs/", submit("demo"), json!({"msg": "*"})),
        (
            "POST",
            "/api/v1/publish",
            json!({"path": "/pfs/datacenter1/home/wu@example.com/jobs/demo/train.py"}),
            json!({"url": "*"}),
        ),
        (
            "GET",
            "/api/v1/publish",
            none.clone(),
            json!({"files": [format!("{home}/jobs/demo/train.py")], "urls": ["*"]}),
        ),
    ];
    rows.into_iter().for_each(|row| check(&user, row));
    std::fs::write(server.data().join("files/local/home/wu@example.com/go"), "").unwrap();
    user.wait_until("demo", JobState::Succeeded);
    let done = json!({"exit_code": 0, "message": ""});
    let rows = [
        (
            "GET",
            "/api/v1/workers?jobname=demo",
            none.clone(),
            json!({"items": [trainer(0, "Succeeded", done.clone()), trainer(1, "Succeeded", done)]}),
        ),
        (
            "GET",
            "/api/v1/jobs",
            none.clone(),
            json!({"items": [{"status": {"active": 0, "succeeded": 2, "completion_time": "#"}}]}),
        ),
        // The successor of the original's command submits to another path.
        ("POST", "/api/v1/trainingjobs/", submit("demo"), json!({"code": 200, "msg": ""})),
        (
            "DELETE",
            "/api/v1/trainingjobs/",
            json!({"jobname": "demo"}),
            json!({"code": 200, "msg": ""}),
        ),
    ];
    rows.into_iter().for_each(|row| check(&user, row));
    the_less_usual_calls(&server, &user, &submit);
    let path = format!("/api/v1/file/?path={home}/jobs/demo/train.py");
    assert_eq!(user.get(&path).text, script);
    for path in ["/etc/passwd", "/pfs/local/home/eve/x", "/pfs/local/home/wu@example.com/../x"] {
        let (status, answer) = call(&user, "GET", &format!("/api/v1/file/?path={path}"), &none);
        assert!(status == 200 && !answer["msg"].as_str().unwrap().is_empty(), "{answer}");
    }
    assert_eq!(User::nobody(&server).get("/api/v1/jobs/").status, 401);
}

/// A job that fails, one that is ending, programs that are named, and all pods and logs at once.
fn the_less_usual_calls(server: &Server, user: &User, submit: &dyn Fn(&str) -> Value) {
    let none = Value::Null;
    let home = "/pfs/local/home/wu@example.com";
    let own = server.data().join("files/local/home/wu@example.com");
    let owner = std::fs::metadata(&own).unwrap().uid();
    let put = |path: &str, text: &str| {
        let path = own.join(path);
        let folder = path.parent().unwrap();
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, text).unwrap();
        for path in [folder, &path] {
            std::os::unix::fs::chown(path, Some(owner), None).unwrap();
        }
    };
    put("jobs/bad/train.py", "import sys\nprint('one\\ntwo')\nsys.exit(3)\n");
    put("elsewhere/train.py", "print('elsewhere')\n");
    put(
        "jobs/slow/train.py",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         print('begun', flush=True)\nwhile True: time.sleep(0.02)\n",
    );
    let one = |name: &str, package: &str| {
        let mut body = submit(name);
        (body["parallelism"], body["pservers"]) = (json!(1), json!(0));
        body["jobPackage"] = json!(package);
        body
    };
    let fine = json!({"code": 200, "msg": ""});
    let login = json!({"username": "wu@example.com", "password": "wrong"});
    let (status, answer) = call(user, "POST", "/api-token-auth/", &login);
    assert!(status == 400 && answer["non_field_errors"].is_array(), "{status} {answer}");
    check(user, ("POST", "/api/v1/jobs/", one("bad", "./bad"), fine.clone()));
    user.wait_until("bad", JobState::Failed);
    let terminated = json!({"exit_code": 3, "message": ""});
    let failed = json!({
        "metadata": {"name": "bad-trainer-0"},
        "status": {
            "phase": "Failed",
            "container_statuses": [{"state": {"terminated": terminated}}],
        },
    });
    let workers = |jobname: &str| format!("/api/v1/workers?jobname={jobname}");
    check(user, ("GET", &workers("bad"), none.clone(), json!({"items": [failed]})));
    // Without a name the pods of all jobs.
    let (_, all) = call(user, "GET", &workers("").replace('?', "/?"), &none);
    let mut pods = all["items"].as_array().unwrap().iter();
    assert!(pods.any(|pod| agrees(pod, &failed)), "{all:#}");
    let (_, answer) = call(user, "GET", "/api/v1/logs/?n=&w=bad-trainer-0&jobname=bad", &none);
    assert!(answer["msg"].as_str().unwrap().contains("one\ntwo\n"), "{answer}");
    // A program that lies elsewhere is the one that runs, also when an upload has the job's name.
    let named = one("bad", &format!("{home}/elsewhere"));
    check(user, ("POST", "/api/v1/jobs/", named, fine.clone()));
    user.wait_until("bad", JobState::Succeeded);
    assert_eq!(user.log("bad", "trainer-0"), "elsewhere\n");
    check(user, ("POST", "/api/v1/jobs", one("slow", "./slow"), fine.clone()));
    wait_for("the slow job", || user.log("slow", "trainer-0").contains("begun").then_some(()));
    check(user, ("DELETE", "/api/v1/jobs", json!({"jobname": "slow"}), fine));
    check(user, ("GET", "/api/v1/jobs", none, json!({"terminating": ["slow"]})));
    let force = json!({"is_forced": true});
    let _: Value = user.post("/api/v2/datacenters/local/jobs/slow/kill", &force).read();
}
