//! Programs on their way to the server.

use super::cloud::Cloud;
use serde_json::{Value, json};

/// The SHA-256 of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn manifest(sha256: &str, bytes: u64) -> Value {
    json!({"files": {"train.py": {"sha256": sha256, "bytes": bytes, "is_executable": false}}})
}

#[test]
fn only_what_is_missing_is_asked_for_and_each_user_has_their_own() {
    let cloud = Cloud::start();
    let (wu, eve) = (cloud.user("wu"), cloud.user("eve"));
    let offer = |token: &str| {
        let answer = cloud.call(token, "POST", "/api/v2/packages", &manifest(HELLO, 5));
        answer.expect(200)["missing"].clone()
    };
    assert_eq!(offer(&wu), json!([HELLO]));
    let path = format!("/api/v2/blobs/{HELLO}");
    cloud.send(&wu, "PUT", &path, b"hello".to_vec()).expect(204);
    cloud.send(&wu, "PUT", &path, b"hello".to_vec()).expect(204);
    assert_eq!(offer(&wu), json!([]));
    // Nobody gets a content by knowing its sum.
    assert_eq!(offer(&eve), json!([HELLO]));
    // A length that does not fit is another content.
    let answer = cloud.call(&wu, "POST", "/api/v2/packages", &manifest(HELLO, 6));
    assert_eq!(answer.expect(200)["missing"], json!([HELLO]));
}

#[test]
fn what_is_not_what_it_says_is_not_kept() {
    let cloud = Cloud::start();
    let token = cloud.user("wu");
    let path = format!("/api/v2/blobs/{HELLO}");
    let message = cloud.send(&token, "PUT", &path, b"hellO".to_vec()).message(422);
    assert!(message.contains("not what its sum says"), "{message}");
    for sum in ["", "..", "%2E%2E%2Fx", "ABC", &HELLO.to_uppercase(), &HELLO[1..]] {
        let answer = cloud.send(&token, "PUT", &format!("/api/v2/blobs/{sum}"), Vec::new());
        assert!([400, 404].contains(&answer.status), "{sum} {answer:?}");
    }
    let blobs = cloud.folder.path().join("data/blobs/wu");
    let left = std::fs::read_dir(blobs).into_iter().flatten().flatten();
    let files = left.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).count();
    assert_eq!(files, 0);
    for body in [
        json!({"files": {"../x": {"sha256": HELLO, "bytes": 5, "is_executable": false}}}),
        json!({"files": {"x": {"sha256": "y", "bytes": 5, "is_executable": false}}}),
        json!({"files": {"x": {"sha256": HELLO, "bytes": -5, "is_executable": false}}}),
        json!({"files": {"x": {"sha256": HELLO, "bytes": 5}}}),
        json!({"file": {}}),
        json!([]),
    ] {
        cloud.call(&token, "POST", "/api/v2/packages", &body).expect(400);
    }
    let large = manifest(HELLO, (1 << 30) + 1);
    cloud.call(&token, "POST", "/api/v2/packages", &large).expect(413);
}
