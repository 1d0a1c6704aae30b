//! The original's chunk protocol, as its client speaks it.

use super::person::noise;
use super::server::Server;
use super::user::User;
use contract::api::path::encode;
use serde_json::{Value, json};

const BOUNDARY: &str = "8d7b0e5709d756e21e971ff4d9ac3b20";

fn results(answer: &super::user::Answer) -> Value {
    let body: Value = answer.read();
    assert_eq!(body["err"], "", "{body}");
    body["results"].clone()
}

#[test]
fn the_originals_client_copies_files_both_ways() {
    let server = Server::start();
    let wu = server.user("wu");
    let path = "/pfs/local/home/wu/dir/file";
    let files = "/api/v1/pfs/files";
    let stat = |path: &str| wu.get(&format!("{files}?method=stat&path={}", encode(path)));
    let missing: Value = stat(path).read();
    assert!(missing["err"].as_str().unwrap().contains("no such file or directory"));
    assert_eq!(
        results(&wu.post(files, &json!({"method": "mkdir", "path": ["/pfs/local/home/wu/dir"]})))
            [0]["path"],
        "/pfs/local/home/wu/dir"
    );
    results(&wu.post(files, &json!({"method": "touch", "path": path, "filesize": 10_000})));
    assert_eq!(results(&stat(path))["Size"], 10_000);
    let content = noise(1, 10_000);
    for (index, chunk) in content.chunks(4096).enumerate() {
        let name = format!("chunksize=4096&offset={}&path={}", index * 4096, encode(path));
        let mut body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"chunk\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(chunk);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let form = format!("multipart/form-data; boundary={BOUNDARY}");
        let sent =
            wu.send_with("POST", "/api/v1/pfs/storage/chunks", ("Content-Type", &form), &body);
        results(&sent);
    }
    let query = format!("offset=8192&chunksize=4096&path={}", encode(path));
    let meta = results(&wu.get(&format!("/api/v1/pfs/chunks?method=GetChunkMeta&{query}")));
    assert_eq!((meta["len"].as_u64(), meta["offset"].as_u64()), (Some(1808), Some(8192)));
    assert_eq!(meta["checksum"].as_str().unwrap().len(), 32);
    let got = wu.get_bytes(&format!("/api/v1/pfs/storage/chunks?{query}"));
    let begin = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(&got[begin..begin + 1808], &content[8192..]);
    assert!(got.ends_with(br#"{"err":"","results":null}"#));
    let disk = server.data().join("files/local/home/wu/dir/file");
    assert!(std::fs::read(&disk).unwrap() == content);
    // The same size again leaves it, another size makes it new.
    results(&wu.post(files, &json!({"method": "touch", "path": path, "filesize": 10_000})));
    assert!(std::fs::read(&disk).unwrap() == content);
    let listed =
        results(&wu.get(&format!("{files}?method=ls&r=true&arg=%2Fpfs%2Flocal%2Fhome%2Fwu%2F*")));
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let refused: Value =
        wu.post(files, &json!({"method": "rm", "path": ["/pfs/local/home/wu/dir"]})).read();
    assert!(refused["err"].as_str().unwrap().contains("use -r"));
    results(
        &wu.post(files, &json!({"method": "rm", "r": true, "path": ["/pfs/local/home/wu/d*"]})),
    );
    assert!(!disk.exists());
}

#[test]
fn the_originals_holes_are_closed() {
    let server = Server::start();
    let (wu, eve) = (server.user("wu"), server.user("eve"));
    let files = "/api/v1/pfs/files";
    results(
        &eve.post(
            files,
            &json!({"method": "touch", "path": "/pfs/local/home/eve/s", "filesize": 1}),
        ),
    );
    let error = |answer: &super::user::Answer| {
        let body: Value = answer.read();
        body["err"].as_str().unwrap().to_owned()
    };
    for path in ["/pfs/../a/b/c/wu", "/pfs/local/home/eve/s", "/pfs/local/etc/wu/x"] {
        assert!(
            !error(&wu.get(&format!("{files}?method=stat&path={}", encode(path)))).is_empty(),
            "{path}"
        );
        let touch = json!({"method": "touch", "path": path, "filesize": 1});
        assert!(!error(&wu.post(files, &touch)).is_empty(), "{path}");
    }
    assert_eq!(wu.get(&format!("{files}?method=format")).status, 405);
    for path in [json!(null), json!([])] {
        let unknown = json!({"method": "format", "path": path});
        assert_eq!(wu.post(files, &unknown).status, 405, "{unknown}");
        let nothing = json!({"method": "rm", "path": path});
        assert!(error(&wu.post(files, &nothing)).contains("`path` is missing"), "{nothing}");
    }
    let plain = User::send_post(&wu, "/api/v1/pfs/storage/chunks", b"no form");
    assert_eq!(plain.status, 400);
    // The public area can be read by chunks, too.
    let admin = server.admin();
    results(
        &admin
            .post(files, &json!({"method": "touch", "path": "/pfs/local/public/x", "filesize": 5})),
    );
    let query = "method=GetChunkMeta&offset=0&chunksize=4096&path=%2Fpfs%2Flocal%2Fpublic%2Fx";
    assert_eq!(results(&wu.get(&format!("/api/v1/pfs/chunks?{query}")))["len"], 5);
    // Links, as the original makes them.
    let body: Value =
        eve.post("/api/v1/publish/", &json!({"path": "/pfs/local/home/eve/s"})).read();
    let url = body["url"].as_str().unwrap();
    let listed: Value = eve.get("/api/v1/publish/").read();
    assert_eq!(listed, json!({"files": ["/pfs/local/home/eve/s"], "urls": [url]}));
    assert_eq!(wu.post("/api/v1/publish/", &json!({"path": "/pfs/local/home/eve/s"})).status, 403);
}

#[test]
fn an_upload_that_goes_on_does_not_need_its_room_twice() {
    let server = Server::with_config("quota: {disk: 1Mi}");
    let wu = server.user("wu");
    let touch = |name: &str, bytes: u64| {
        let path = format!("/pfs/local/home/wu/{name}");
        let body = json!({"method": "touch", "path": path, "filesize": bytes});
        let answer: Value = wu.post("/api/v1/pfs/files", &body).read();
        answer["err"].as_str().unwrap().to_owned()
    };
    // Its client begins every attempt so.
    for bytes in [700_000, 700_000, 900_000] {
        assert_eq!(touch("file", bytes), "");
    }
    assert!(touch("other", 700_000).contains("disk quota"));
}
