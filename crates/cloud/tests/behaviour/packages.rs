//! Programs on their way to the server.

use super::cloud::Cloud;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
fn what_a_user_may_send_has_a_limit_and_what_no_job_needs_goes_first() {
    let cloud = Cloud::with("limits: {package_bytes: 1048576}");
    let (wu, eve) = (cloud.user("wu"), cloud.user("eve"));
    let put = |token: &str, byte: u8, count: usize| {
        let content = vec![byte; count];
        let sum = Sha256::digest(&content);
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        (cloud.send(token, "PUT", &format!("/api/v2/blobs/{sum}"), content), sum)
    };
    let (first, sum) = put(&wu, b'a', 700_000);
    first.expect(204);
    let message = put(&wu, b'b', 700_000).0.message(413);
    assert!(
        message.contains("at most 1048576 bytes") && message.contains("take 700000"),
        "{message}"
    );
    // What was refused does not count, and others have their own.
    put(&wu, b'b', 300_000).0.expect(204);
    put(&wu, b'c', 300_000).0.message(413);
    put(&eve, b'b', 700_000).0.expect(204);
    let file = cloud.folder.path().join("data/blobs/wu").join(&sum[..2]).join(&sum[2..]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    put(&wu, b'c', 300_000).0.expect(204);
    assert!(!file.exists());
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
