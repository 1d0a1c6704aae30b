//! What is secret is neither sent back nor on the disk.

use super::cloud::Cloud;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

fn contains(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(contains(&entry.path(), needle));
        } else if let Ok(bytes) = std::fs::read(entry.path())
            && bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn the_password_of_a_registry_is_encrypted_and_never_told() {
    let cloud = Cloud::start();
    let (token, other) = (cloud.user("wu"), cloud.user("eve"));
    let path = "/api/v2/datacenters/local/registries/hub";
    let body =
        json!({"server": "hub.example.com", "username": "wu", "password": "hunter2-hunter2"});
    let kept = cloud.call(&token, "PUT", path, &body).expect(200);
    let list = cloud.get(&token, "/api/v2/datacenters/local/registries").expect(200);
    assert_eq!(list[0]["server"], "hub.example.com");
    for answer in [kept, list] {
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
    assert_eq!(contains(cloud.folder.path(), "hunter2-hunter2"), [""; 0]);
    let others = cloud.get(&other, "/api/v2/datacenters/local/registries").expect(200);
    assert_eq!(others, json!([]));
    cloud.call(&other, "DELETE", path, &Value::Null).expect(404);
    cloud.call(&token, "DELETE", path, &Value::Null).expect(204);
    cloud.call(&token, "DELETE", path, &Value::Null).expect(404);
    cloud
        .call(&token, "PUT", path, &json!({"server": "", "username": "", "password": ""}))
        .expect(400);
}

#[test]
fn neither_tokens_nor_passwords_are_on_the_disk() {
    let cloud = Cloud::start();
    let token = cloud.user("wu");
    assert_eq!(contains(cloud.folder.path(), &token), [""; 0]);
    assert_eq!(contains(cloud.folder.path(), "a password"), [""; 0]);
}

#[test]
fn every_change_is_noted_with_who_did_it() {
    let cloud = Cloud::start();
    let token = cloud.user("wu");
    cloud.call(&token, "POST", "/api/v2/users", &json!({"username": "x"})).expect(403);
    cloud
        .call("", "POST", "/api/v2/login", &json!({"username": "eve", "password": "x"}))
        .expect(401);
    let audit = cloud.get(&cloud.admin, "/api/v2/audit?limit=2").expect(200);
    assert_eq!(audit["items"][0]["action"], "login");
    assert_eq!(audit["items"][0]["outcome"], "unauthenticated");
    assert_eq!(audit["items"][0]["address"], "127.0.0.1");
    let next = audit["next"].as_str().unwrap();
    let more = cloud.get(&cloud.admin, &format!("/api/v2/audit?after={next}")).expect(200);
    let actions: Vec<&str> = more["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert!(actions.contains(&"user.add"), "{more}");
}

#[test]
fn changes_of_public_files_and_removals_are_noted_and_writing_at_home_is_not() {
    let cloud = Cloud::start();
    let (token, admin) = (cloud.user("wu"), cloud.admin.clone());
    let content = "/api/v2/files/content?path=/pfs/local";
    cloud.send(&token, "PUT", &format!("{content}/home/wu/a"), b"a".to_vec()).expect(200);
    cloud.send(&token, "PUT", &format!("{content}/public/a"), b"a".to_vec()).expect(403);
    cloud.send(&admin, "PUT", &format!("{content}/public/a"), b"a".to_vec()).expect(200);
    let path = |name: &str| format!("/pfs/local/{name}");
    let directory = json!({"path": path("public/d")});
    cloud.call(&admin, "POST", "/api/v2/files/directories", &directory).expect(200);
    let relocate = json!({"from": path("home/wu/a"), "to": path("home/wu/b")});
    cloud.call(&token, "POST", "/api/v2/files/copy", &relocate).expect(200);
    cloud.call(&token, "POST", "/api/v2/files/move", &relocate).expect(200);
    let remove = format!("/api/v2/files?path={}", path("home/wu/b"));
    cloud.call(&token, "DELETE", &remove, &Value::Null).expect(204);
    let touch = |path: String| json!({"method": "touch", "path": path, "filesize": 1});
    for (token, name) in [(&admin, "public/b"), (&token, "public/b"), (&token, "home/wu/b")] {
        cloud.call(token, "POST", "/api/v1/pfs/files", &touch(path(name))).expect(200);
    }
    let remove = json!({"method": "rm", "path": path("home/wu/b")});
    cloud.call(&token, "POST", "/api/v1/pfs/files", &remove).expect(200);
    cloud.call(&token, "POST", "/api/v2/packages", &json!({"files": {}})).expect(200);
    let audit = cloud.get(&cloud.admin, "/api/v2/audit?limit=1000").expect(200);
    let entries = audit["items"].as_array().unwrap().iter().rev();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let noted: Vec<String> = entries
        .map(|entry| ["action", "user", "object", "outcome"].map(|key| text(entry, key)).join(" "))
        .filter(|entry| entry.starts_with("files.") || entry.starts_with("package."))
        .collect();
    insta::assert_snapshot!(noted.join("\n"), @r"
    files.put wu /pfs/local/public/a forbidden
    files.put admin /pfs/local/public/a ok
    files.mkdir admin /pfs/local/public/d ok
    files.copy wu /pfs/local/home/wu/a to /pfs/local/home/wu/b ok
    files.move wu /pfs/local/home/wu/a to /pfs/local/home/wu/b ok
    files.remove wu /pfs/local/home/wu/b ok
    files.upload admin /pfs/local/public/b ok
    files.upload wu /pfs/local/public/b forbidden
    files.remove wu /pfs/local/home/wu/b ok
    package.put wu aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577 ok
    ");
}

#[test]
fn a_change_is_made_and_noted_although_its_caller_hangs_up() {
    let cloud = Cloud::start();
    let address = cloud.url.strip_prefix("http://").unwrap();
    let body = json!({"username": "wu", "password": "a password"}).to_string();
    let request = format!(
        "POST /api/v2/users HTTP/1.1\r\nHost: {address}\r\nAuthorization: Token {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        cloud.admin,
        body.len()
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // Its password is being hashed when the caller goes; or the server had not read it yet, and
        // the call has to be made again.
        let mut caller = TcpStream::connect(address).unwrap();
        caller.write_all(request.as_bytes()).unwrap();
        drop(caller);
        // It may be told to ask less often.
        let audit = cloud.get(&cloud.admin, "/api/v2/audit").body;
        let mut entries = audit["items"].as_array().into_iter().flatten();
        if entries.any(|entry| entry["action"] == "user.add" && entry["object"] == "wu") {
            break;
        }
        assert!(Instant::now() < deadline, "{audit}");
    }
    cloud.login("wu", "a password");
}
