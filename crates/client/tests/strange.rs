//! Servers that a real one is not: busy, cut off, of somebody else. Most answer a list of replies,
//! one per connection, and remember what they were asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use client::{Client, Datacenter, Profile, Which};
use contract::Kind;
use contract::api::user::NewUser;
use contract::checksum::Checksum;
use contract::path::PfsPath;
use contract::secret::Secret;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const PLACES: &str = r#"[{"name": "dc", "backend": "local", "notes": []}]"#;
const ME: &str = r#"{"username": "wuyi", "is_admin": false, "is_enabled": true, "created_ms": 0,
    "expires_ms": 0, "server_version": "9"}"#;

struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(replies: Vec<String>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for reply in replies {
                let mut reader = BufReader::new(listener.accept().unwrap().0);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(reader.read_line(&mut head).unwrap(), 0);
                }
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                reader.read_exact(&mut body).unwrap();
                heard.lock().unwrap().push(head);
                reader.into_inner().write_all(reply.as_bytes()).unwrap();
            }
        });
        Server { port, asked }
    }

    /// The request lines.
    fn asked(&self) -> Vec<String> {
        let heads = self.asked.lock().unwrap();
        heads.iter().map(|head| head.lines().next().unwrap().to_owned()).collect()
    }

    /// A client with a token, so that no login is needed.
    fn client(&self) -> Client {
        let profile = Profile {
            home: std::path::PathBuf::from("/nonexistent"),
            config: None,
            datacenter: None,
            token: Some(Secret::new("t0")),
            notice: |_| (),
        };
        let datacenter = Datacenter {
            name: "dc".into(),
            username: "wuyi".into(),
            password: None,
            endpoint: format!("http://127.0.0.1:{}", self.port).parse().unwrap(),
            ca: None,
            socket: None,
        };
        Client::at(&profile, datacenter).unwrap()
    }
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn ok(body: &str) -> String {
    reply("200 OK", "", body)
}

#[test]
fn what_may_be_repeated_is_repeated() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{".to_owned();
    let busy = reply("503 Service Unavailable", "retry-after: 0\r\n", "<html>");
    let server = Server::start(vec![ok(PLACES), busy, cut, String::new(), ok(ME)]);
    assert_eq!(server.client().whoami().unwrap().server_version, "9");
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn a_list_is_asked_for_again_where_it_has_not_begun() {
    let slow = reply("429 Too Many Requests", "retry-after: 0\r\n", "");
    let server = Server::start(vec![ok(PLACES), slow, String::new(), ok("{\"end\":0}\n")]);
    assert_eq!(server.client().list_path("/pfs/dc/home/wuyi", false).unwrap(), []);
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn what_would_be_done_twice_is_not_repeated() {
    let server = Server::start(vec![ok(PLACES), String::new()]);
    let user = NewUser { username: "eve".into(), password: None, is_admin: false };
    let error = server.client().add_user(&user).err().unwrap();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(server.asked(), ["GET /api/v2/datacenters HTTP/1.1", "POST /api/v2/users HTTP/1.1"]);
}

#[test]
fn a_removal_whose_answer_was_lost_is_done() {
    let gone = reply("404 Not Found", "", r#"{"kind": "not_found", "message": "no such job"}"#);
    let server = Server::start(vec![ok(PLACES), String::new(), gone.clone()]);
    server.client().delete_job("ctr").unwrap();
    let server = Server::start(vec![ok(PLACES), gone]);
    assert_eq!(server.client().delete_job("ctr").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_token_is_not_taken_elsewhere() {
    let other = Server::start(vec![ok(ME)]);
    let there = format!("location: http://127.0.0.1:{}/\r\n", other.port);
    let server = Server::start(vec![ok(PLACES), reply("307 Temporary Redirect", &there, "")]);
    let error = server.client().whoami().unwrap_err();
    assert!(error.to_string().contains("correct `endpoint`"), "{error}");
    assert!(other.asked().is_empty());
}

#[test]
fn the_server_of_somebody_else_is_told_so() {
    let server = Server::start(vec![ok("<html>welcome</html>")]);
    let error = server.client().whoami().unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(error.to_string().contains("is `endpoint` that of a cloud"), "{error}");
    let server = Server::start(vec![reply("404 Not Found", "", "<html>")]);
    assert_eq!(server.client().whoami().unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn a_name_cannot_leave_its_place_in_a_path() {
    let server = Server::start(vec![ok(PLACES), reply("404 Not Found", "", "")]);
    let _ = server.client().job("../../users?x=#\r\nA: b");
    let path = "/api/v2/datacenters/dc/jobs/..%2F..%2Fusers%3Fx%3D%23%0D%0AA%3A%20b";
    assert_eq!(server.asked()[1], format!("GET {path} HTTP/1.1"));
}

#[test]
fn an_older_server_may_say_less() {
    let job = r#"{"name": "ctr", "uid": "ctr-1", "user": "wuyi", "datacenter": "dc",
        "state": "running"}"#;
    let replies = [
        format!(r#"{{"items": [{job}]}}"#),
        job.replace('}', r#", "spec": {"version": 3, "name": "ctr", "entry": "true"}}"#),
        r#"{"state": "running", "sentence": "it runs"}"#.to_owned(),
        r#"{"user": "wuyi"}"#.to_owned(),
        r#"{"username": "wuyi", "is_admin": false, "is_enabled": true}"#.to_owned(),
    ];
    let places = ok(r#"[{"name": "dc"}]"#);
    let server = Server::start([places].into_iter().chain(replies.iter().map(|r| ok(r))).collect());
    let client = server.client();
    let page = client.jobs(&Which::default(), 10).unwrap();
    assert_eq!((page.rows[0].name.as_str(), page.rows[0].trainers), ("ctr", 0));
    assert_eq!(client.job("ctr").unwrap().workers, []);
    assert_eq!(client.why("ctr").unwrap().sentence, "it runs");
    assert_eq!(client.quota(None).unwrap().used.jobs, 0);
    assert_eq!(client.whoami().unwrap().server_version, "");
}

/// Answers every request of a connection, those for a file by its content and checksum.
fn serve_file(stream: TcpStream, content: &[u8]) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let body = match head.starts_with("GET /api/v2/files/content?") {
            true => [content, &Checksum::of(content).0].concat(),
            false => PLACES.as_bytes().to_vec(),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        reader.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
    }
}

#[test]
fn the_parts_of_a_file_come_over_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || serve_file(stream.unwrap(), b"content"));
        }
    });
    let client = Server { port, asked: Arc::default() }.client();
    let path = PfsPath::parse("/pfs/dc/home/wuyi/file", "dc").unwrap();
    for offset in [0, 7, 14] {
        assert_eq!(client.read_range(&path, "etag", offset, 7).unwrap(), b"content");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

fn relocation() -> contract::api::file::Relocate {
    let path = |name: &str| format!("/pfs/dc/home/wuyi/{name}");
    contract::api::file::Relocate { from: path("a"), to: path("b"), if_absent: false }
}

const MOVED: &str = r#"{"path": "/pfs/dc/home/wuyi/b", "kind": "file", "bytes": 7, "mode": 420,
    "modified_ms": 0}"#;

#[test]
fn long_work_is_waited_for_by_its_name_when_the_connection_breaks() {
    let working = r#"{"working": {"files": 0, "bytes": 5}}"#;
    let ended = format!(r#"{{"ended": {{"status": 200, "body": {:?}}}}}"#, MOVED.replace('\n', ""));
    let cut = format!("HTTP/1.1 202 Accepted\r\ncontent-length: 1000\r\n\r\n{working}\n");
    let rest = reply("202 Accepted", "", &format!("\n{working}\n{ended}\n"));
    let server = Server::start(vec![ok(PLACES), cut, String::new(), rest]);
    let client = server.client();
    let moved = std::cell::Cell::new(0);
    let entry = client.copy_file(&relocation(), |bytes| moved.set(moved.get() + bytes)).unwrap();
    assert_eq!((entry.bytes, moved.get()), (7, 5));
    let heads = server.asked.lock().unwrap();
    let names: Vec<&str> = heads
        .iter()
        .filter_map(|head| head.lines().find_map(|line| line.strip_prefix("operation-id: ")))
        .collect();
    assert!(names.len() == 3 && names.iter().all(|name| *name == names[0]), "{names:?}");
}

#[test]
fn long_work_may_fail_and_what_was_cut_off_is_not_guessed_at() {
    let body = r#"{\"kind\": \"conflict\", \"message\": \"files were added\"}"#;
    let failed = format!(r#"{{"ended": {{"status": 409, "body": "{body}"}}}}"#);
    let server = Server::start(vec![ok(PLACES), reply("202 Accepted", "", &format!("{failed}\n"))]);
    let error = server.client().rename(&relocation()).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (Kind::Conflict, "files were added".to_owned()));
    // The server died, and does not know whether it had done it.
    let gone = reply("404 Not Found", "", r#"{"kind": "not_found", "message": "no such file"}"#);
    let server = Server::start(vec![ok(PLACES), String::new(), gone.clone()]);
    let error = server.client().rename(&relocation()).unwrap_err();
    insta::assert_snapshot!(error, @"cannot move files, or it is done already: the connection broke in the middle, and now: no such file; look at both paths");
    let server = Server::start(vec![ok(PLACES), String::new(), gone]);
    let query = contract::api::file::RemoveQuery { path: relocation().from, is_recursive: true };
    server.client().remove(&query).unwrap();
}

#[test]
fn an_answer_about_another_file_is_refused() {
    let path = PfsPath::parse("/pfs/dc/home/wuyi/file", "dc").unwrap();
    let other = r#"{"path": "/pfs/dc/home/wuyi/other", "kind": "file", "bytes": 7,
        "modified_ms": 0, "mode": 0}"#;
    let server = Server::start(vec![ok(PLACES), ok(other)]);
    assert_eq!(server.client().stat(&path).unwrap_err().kind(), Kind::Damaged);
    for header in ["etag: \"other\"\r\n", "content-range: bytes 7-13/14\r\n"] {
        let server = Server::start(vec![ok(PLACES), reply("200 OK", header, "content")]);
        let error = server.client().read_range(&path, "etag", 0, 7).unwrap_err();
        let expected = "the server answered with another file than was asked for";
        assert!(error.to_string().starts_with(expected), "{header}: {error}");
    }
}
