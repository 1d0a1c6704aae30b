//! Requests about files that mean no good: paths, bodies, conditions.

use super::person::noise;
use super::server::Server;
use super::user::User;
use contract::api::file::Entry;
use contract::api::path::encode;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

fn content(path: &str) -> String {
    format!("/api/v2/files/content?path={}", encode(path))
}

#[test]
fn hostile_paths_are_refused_with_the_reason() {
    let server = Server::start();
    let (wu, eve) = (server.user("wu"), server.user("eve"));
    assert_eq!(eve.put(&content("/pfs/local/home/eve/secret"), b"hers").status, 200);
    assert_eq!(wu.put(&content("/pfs/local/home/wu/x"), b"x").status, 200);
    let home = server.data().join("files/local/home");
    symlink("../eve", home.join("wu/link")).unwrap();
    symlink("/etc", home.join("wu/etc")).unwrap();
    for (path, status) in [
        ("/pfs/local/home/eve/secret", 403),
        ("/pfs/local/home/wu/../eve/secret", 400),
        ("/pfs/local/home/wu/link/secret", 403),
        ("/pfs/local/home/wu/etc/passwd", 403),
        ("/pfs/mars/home/wu/x", 404),
        ("/pfs/local/uploads/eve", 400),
        ("/pfs/local/home/..", 400),
        ("/pfs/../../etc/passwd", 400),
        ("/etc/passwd", 400),
        ("", 400),
        ("/pfs/local/home/wu/a\0b", 400),
        ("/pfs/local/home/wu/\u{202e}txt.exe", 400),
        ("/pfs/local/home/wu/\u{ff0e}\u{ff0e}/x", 400),
        ("/pfs/local/home/wu/none", 404),
    ] {
        assert_eq!(wu.get(&content(path)).status, status, "{path:?}");
        let stat = wu.get(&format!("/api/v2/files/stat?path={}", encode(path)));
        assert_eq!(stat.status, status, "{path:?}");
        let message = stat.refusal(status);
        assert!(message.len() > 10 && !message.contains("data_dir"), "{message}");
        if status != 404 {
            assert_eq!(wu.put(&content(path), b"mine").status, status, "{path:?}");
            let delete = format!("/api/v2/files?path={}&is_recursive=true", encode(path));
            assert_eq!(wu.delete(&delete).status, status, "{path:?}");
            let begin = json!({"path": path, "bytes": 1, "chunk_bytes": 4096});
            assert_eq!(wu.post("/api/v2/files/uploads", &begin).status, status, "{path:?}");
            for call in ["move", "copy"] {
                let there = json!({"from": "/pfs/local/home/wu/x", "to": path});
                assert_eq!(wu.post(&format!("/api/v2/files/{call}"), &there).status, status);
                let here = json!({"from": path, "to": "/pfs/local/home/wu/y"});
                assert_eq!(wu.post(&format!("/api/v2/files/{call}"), &here).status, status);
            }
        }
    }
    assert_eq!(fs::read_to_string(home.join("eve/secret")).unwrap(), "hers");
    assert_eq!(fs::read_dir(home.join("eve")).unwrap().count(), 1);
    assert_eq!(User::nobody(&server).get(&content("/pfs/local/public")).status, 401);
}

#[test]
fn hostile_bodies_leave_nothing_behind() {
    let server = Server::start();
    let wu = server.user("wu");
    let begin = |body: Value| wu.post("/api/v2/files/uploads", &body);
    let path = "/pfs/local/home/wu/f";
    for (body, status) in [
        (json!({"path": path, "bytes": 1, "chunk_bytes": 1}), 400),
        (json!({"path": path, "bytes": u64::MAX, "chunk_bytes": 4096}), 413),
        (json!({"path": path, "bytes": 1_u64 << 41, "chunk_bytes": 4096}), 413),
        (json!({"path": path, "bytes": 1_u64 << 42, "chunk_bytes": 64 << 20}), 413),
        (json!({"path": path, "bytes": -1, "chunk_bytes": 4096}), 400),
        (json!({"path": path, "bytes": 1, "chunk_bytes": 4096, "source": "s".repeat(257)}), 400),
        (json!({"path": path, "bytes": 1, "chunk_bytes": 4096, "colour": "red"}), 400),
        (json!({"path": "/pfs/local/home/wu", "bytes": 1, "chunk_bytes": 4096}), 400),
        (json!([]), 400),
    ] {
        assert_eq!(begin(body.clone()).status, status, "{body}");
    }
    let pack = "/api/v2/files/pack?path=%2Fpfs%2Flocal%2Fhome%2Fwu";
    let header = |json: &str| {
        let mut bytes = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        bytes
    };
    for body in [
        &b""[..],
        &[255; 100],
        &header("{}"),
        &header(r#"{"path": "/pfs/local/home/wu/f", "bytes": 100}"#),
        &header(r#"{"path": "/pfs/local/home/wu/f", "bytes": 99999999999}"#),
        &noise(1, 100_000),
    ] {
        let refused = User::send_post(&wu, pack, body);
        assert!((400..500).contains(&refused.status), "{refused:?}");
    }
    // A wrong checksum, and a path of somebody else, are told file by file.
    let mut body = Vec::new();
    for (name, sum) in [("wu/bad", [0; 32]), ("eve/x", contract::checksum::Checksum::of(b"x").0)] {
        body.extend(header(&format!(r#"{{"path": "/pfs/local/home/{name}", "bytes": 1}}"#)));
        body.push(b'x');
        body.extend_from_slice(&sum);
    }
    body.extend_from_slice(&[0; 4]);
    let told: Vec<Value> = User::send_post(&wu, pack, &body).read();
    assert_eq!(told[0]["error"]["kind"], "damaged");
    assert_eq!(told[1]["error"]["kind"], "forbidden");
    let home = server.data().join("files/local/home/wu");
    assert_eq!(fs::read_dir(home).unwrap().count(), 0);
    let uploads = server.data().join("files/local/uploads/wu");
    assert_eq!(fs::read_dir(uploads).unwrap().count(), 0);
}

#[test]
fn conditions_are_honoured() {
    let server = Server::start();
    let wu = server.user("wu");
    let path = content("/pfs/local/home/wu/f");
    let entry: Entry = wu.put(&path, b"one").read();
    let tag = format!("\"{}\"", entry.etag);
    let call = |method: &str, header: &str, value: &str, body: &[u8]| {
        wu.send_with(method, &path, (header, value), body).status
    };
    assert_eq!(call("GET", "If-None-Match", &tag, b""), 304);
    assert_eq!(call("GET", "If-Match", "\"other\"", b""), 412);
    assert_eq!(call("GET", "Range", "bytes=1-1", b""), 206);
    assert_eq!(call("GET", "Range", "bytes=9-", b""), 416);
    assert_eq!(call("PUT", "If-None-Match", "*", b"two"), 409);
    assert_eq!(call("PUT", "If-Match", "\"other\"", b"two"), 409);
    assert_eq!(call("PUT", "If-Match", &tag, b"two"), 200);
    assert_eq!(call("PUT", "If-Match", &tag, b"three"), 409);
    assert_eq!(wu.get(&path).text, "two");
}
