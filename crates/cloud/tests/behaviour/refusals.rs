//! Requests that are wrong, too many or too large, and connections that are not what they should.

use super::cloud::Cloud;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn nonsense_gets_an_answer_that_says_so() {
    let cloud = Cloud::start();
    let token = cloud.user("wu");
    let check = |token: &str, method: &str, path: &str, status: u16| {
        let answer = cloud.call(token, method, path, &Value::Null);
        assert_eq!(answer.status, status, "{method} {path} {answer:?}");
        assert!(answer.body["message"].is_string(), "{answer:?}");
    };
    check("", "GET", "/api/v2/whoami", 401);
    check("nonsense", "GET", "/api/v2/whoami", 401);
    check(&token, "GET", "/nothing", 404);
    check(&token, "GET", "/api/v2/datacenters/moon/jobs", 404);
    check(&token, "GET", "/api/v2/datacenters/local/jobs/nothing", 404);
    check(&token, "GET", "/api/v2/datacenters/local/jobs/%2E%2E", 404);
    check(&token, "GET", "/api/v2/datacenters/local/jobs/%00", 404);
    check(&token, "GET", "/api/v2/datacenters/local/jobs/%FF", 400);
    check(&token, "PUT", "/api/v2/login", 405);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?limit=many", 400);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?limit=0", 400);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?limit=1001", 400);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?after=x", 400);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?state=happy", 400);
    check(&token, "GET", "/api/v2/datacenters/local/jobs?colour=red", 400);
    check(&token, "DELETE", "/api/v2/tokens/nothing", 404);
    for body in ["{", "[]", "null", "{\"username\": 1}", "\u{0}", "{\"a\": \"b\"}"] {
        let answer = cloud.send("", "POST", "/api/v2/login", body.into());
        assert_eq!(answer.status, 400, "{body} {answer:?}");
    }
    let large = vec![b' '; 3 << 20];
    let answer = cloud.send(&token, "POST", "/api/v2/tokens", large);
    assert_eq!(answer.message(413), "the body is too large");
    assert_eq!(cloud.get("", "/healthz").expect(200), json!("OK\n"));
    assert_eq!(cloud.get("", "/readyz").expect(200), json!("OK\n"));
    let figures = cloud.get("", "/metrics").expect(200);
    assert!(figures.as_str().unwrap().contains("cloud_requests"), "{figures}");
}

#[test]
fn who_asks_too_often_is_told_to_wait_and_others_are_not() {
    let cloud = Cloud::with("limits: {requests_per_second: 5}");
    let (wu, eve) = (cloud.user("wu"), cloud.user("eve"));
    // One after another they wait for their turn.
    let ask = || cloud.get(&wu, "/api/v2/whoami").status;
    let statuses: Vec<u16> = (0..15).map(|_| ask()).collect();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    // Too many at once are not kept waiting.
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(statuses.contains(&429) && statuses.contains(&200), "{statuses:?}");
    cloud.get(&eve, "/api/v2/whoami").expect(200);
}

#[test]
fn strangers_are_told_to_wait_whatever_they_say_they_are() {
    let cloud = Cloud::with("limits: {requests_per_second: 5}");
    let wu = cloud.user("wu");
    // The server has nothing to do for it, so no machine is too slow to ask too often.
    let ask = |token: &str| cloud.get(token, "/healthz").status;
    let statuses: Vec<u16> = (0..40).map(|_| cloud.get("x", "/api/v2/whoami").status).collect();
    assert!(statuses.contains(&429) && statuses[0] == 401, "{statuses:?}");
    // A call that needs no token is not free with a wrong one, or with the right one of somebody.
    for token in ["", "x", &wu] {
        let statuses: Vec<u16> = (0..40).map(|_| ask(token)).collect();
        assert!(statuses.contains(&429), "{statuses:?}");
    }
}

#[test]
fn attempts_that_come_too_early_leave_no_entries_in_the_audit_log() {
    let cloud = Cloud::start();
    cloud.user("wu");
    let login = json!({"username": "wu", "password": "a guess"});
    let statuses: Vec<u16> =
        (0..30).map(|_| cloud.call("", "POST", "/api/v2/login", &login).status).collect();
    let looked_at = statuses.iter().filter(|status| **status == 401).count();
    assert!(looked_at >= 5 && statuses.contains(&429), "{statuses:?}");
    let audit = cloud.get(&cloud.admin, "/api/v2/audit?limit=1000").expect(200);
    let entries = audit["items"].as_array().unwrap().iter();
    let refused = entries.filter(|entry| entry["outcome"] == "unauthenticated");
    assert_eq!(refused.count(), looked_at);
}

#[test]
fn a_proxy_says_from_where_a_request_came_and_nobody_else_does() {
    for (yaml, expected) in
        [("proxies: [127.0.0.0/8]", "203.0.113.9"), ("proxies: [10.0.0.0/8]", "127.0.0.1")]
    {
        let cloud = Cloud::with(yaml);
        // As a request of its own, with a name and a password.
        let guess = ureq::get(format!("{}/api/v2/whoami", cloud.url))
            .header("Authorization", "Basic ZXZlOmEgZ3Vlc3M=")
            .header("X-Forwarded-For", "198.51.100.1, 203.0.113.9");
        assert!(guess.call().is_err());
        let audit = cloud.get(&cloud.admin, "/api/v2/audit?limit=1").expect(200);
        let entry = &audit["items"][0];
        assert_eq!((&entry["user"], &entry["action"]), (&json!("eve"), &json!("login")));
        assert_eq!(entry["address"], expected);
    }
}

#[test]
fn a_connection_that_says_nothing_holds_up_nobody() {
    let cloud = Cloud::with("limits: {connections: 8}");
    let address = cloud.url.strip_prefix("http://").unwrap().to_owned();
    let mut open: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    cloud.get("", "/healthz").expect(200);
    // One too many is closed, and those that were there are served.
    let mut more: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let is_closed = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    };
    assert!(more.iter_mut().any(is_closed));
    drop(more);
    // They are finished like any other.
    for stream in &mut open {
        stream.write_all(b" x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn tls_is_spoken_where_a_certificate_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert_file, cert.pem()).unwrap();
    std::fs::write(&key_file, signing_key.serialize_pem()).unwrap();
    let yaml = format!("tls: {{cert: {}, key: {}}}", cert_file.display(), key_file.display());
    let cloud = Cloud::with(&yaml);
    let roots = vec![ureq::tls::Certificate::from_pem(cert.pem().as_bytes()).unwrap()];
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&roots))
        .build();
    let agent: ureq::Agent = ureq::Agent::config_builder().tls_config(tls).build().into();
    let mut answer = agent.get(format!("{}/healthz", cloud.url)).call().unwrap();
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "OK\n");
    let plain = cloud.url.replace("https://", "http://");
    assert!(ureq::get(format!("{plain}/healthz")).call().is_err());
}

#[test]
fn the_description_of_the_calls_is_served() {
    let cloud = Cloud::start();
    let description = cloud.get("", "/api/v2/openapi.json").expect(200);
    assert_eq!(description["info"]["title"], "paddlecloud");
    let login = &description["paths"]["/api/v2/login"]["post"];
    let body = &login["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(body, "#/components/schemas/Login");
}
