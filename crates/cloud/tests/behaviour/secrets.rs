//! What is secret is neither sent back nor on the disk.

use super::cloud::Cloud;
use serde_json::{Value, json};
use std::path::Path;

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
