//! Transfers that break: killed clients and servers, rotten disks, two writers, full disks.

use super::component;
use super::person::{Person, login, noise};
use super::server::Server;
use super::transfers::{self, steady};
use contract::api::file::{Completed, Upload};
use contract::checksum::Checksum;
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_killed_client_goes_on_where_it_was() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    transfers::killed_client(&server, &wu);
    assert!(fs::read(wu.on_disk(&server).join("big")).unwrap() == wu.read("big"));
}

#[test]
fn a_killed_server_and_a_rotten_part_delay_a_transfer_and_no_more() {
    let mut server = steady("");
    let wu = Person::new(&server, "wu");
    transfers::killed_server(&mut server, &wu);
    assert!(fs::read(wu.on_disk(&server).join("big")).unwrap() == wu.read("big"));
}

#[test]
fn of_two_writers_the_last_complete_one_wins_and_nobody_sees_a_mix_or_a_gap() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let target = wu.on_disk(&server).join("file");
    transfers::two_writers(&wu, || Some(fs::read(&target).expect("a gap")));
}

#[test]
fn a_disk_quota_holds_against_uploads_that_race() {
    let server = Server::with_config("quota: {disk: 40Mi}");
    let wu = Person::new(&server, "wu");
    for name in ["a", "b", "c"] {
        wu.write(name, noise(7, 20 << 20));
    }
    let children: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| wu.command(&["cp", "-bwlimit", "20M", name, &wu.pfs("")]).spawn().unwrap())
        .collect();
    let outputs: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let refused: Vec<_> = outputs.iter().filter(|output| !output.status.success()).collect();
    assert_eq!(refused.len(), 1, "{outputs:?}");
    let err = String::from_utf8_lossy(&refused[0].stderr).into_owned();
    assert!(
        err.contains("the disk quota would be exceeded") && err.contains("limit_bytes: 41943040"),
        "{err}"
    );
    let quota = wu.says(&["get", "quota"]);
    assert!(quota.ok().contains("Disk            40Mi       40.0 MiB"), "{quota:?}");
    // Small files count, too; what replaces a file of the same size fits.
    wu.write("small", "x");
    assert!(wu.says(&["cp", "small", &wu.pfs("")]).failed(1).contains("disk quota"));
    wu.write("tiny", "x");
    let said = wu.says(&["cp", "small", "tiny", &wu.pfs("")]);
    assert!(said.failed(1).contains("Uploaded 0 files, 0 B"), "{said:?}");
    let kept = fs::read_dir(wu.on_disk(&server)).unwrap().next().unwrap().unwrap().file_name();
    let kept = kept.to_str().unwrap();
    wu.says(&["cp", kept, &wu.pfs("")]).ok();
    wu.says(&["rm", &wu.pfs(kept)]).ok();
    wu.says(&["cp", "small", &wu.pfs("")]).ok();
    // Where nothing more fits, a small file can still be replaced.
    wu.write("rest", noise(8, (20 << 20) - 1));
    wu.says(&["cp", "rest", &wu.pfs("")]).ok();
    assert!(wu.says(&["cp", "tiny", &wu.pfs("")]).failed(1).contains("disk quota"));
    wu.write("small", "y");
    wu.says(&["cp", "small", &wu.pfs("")]).ok();
    assert_eq!(wu.says(&["cat", &wu.pfs("small")]).ok(), "y");
}

#[test]
fn what_a_job_writes_while_an_upload_is_on_its_way_counts_at_its_end() {
    let server = Server::with_config("quota: {disk: 40Mi}");
    let wu = Person::new(&server, "wu");
    let user = login(&server, &wu);
    let content = noise(12, 20 << 20);
    let begin = json!({
        "path": wu.pfs("file"), "bytes": content.len(), "chunk_bytes": content.len(), "source": "s",
    });
    let upload: Upload = user.post("/api/v2/files/uploads", &begin).read();
    let sum = Checksum::of(&content).to_string();
    let call = |end: &str| format!("/api/v2/files/uploads/{}/{end}", upload.id);
    assert_eq!(user.put(&call(&format!("chunks/0?checksum={sum}")), &content).status, 204);
    // The server has looked at the home a moment ago, when the upload began.
    let own = wu.on_disk(&server).join("of a job");
    fs::write(&own, noise(13, 30 << 20)).unwrap();
    let complete = || user.post(&call("complete"), &json!({"checksums": [sum]}));
    assert!(complete().refusal(413).contains("the disk quota would be exceeded"));
    assert!(!wu.on_disk(&server).join("file").exists());
    fs::remove_file(&own).unwrap();
    assert!(complete().read::<Completed>().entry.is_some());
}

#[test]
fn sync_that_removes_goes_on_with_what_has_arrived() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("data/big", noise(1, 48 << 20));
    wu.says(&["cp", "-r", "data", &wu.pfs("")]).ok();
    let (from, back) = (wu.pfs("data"), wu.work().join("back"));
    let mut child =
        wu.command(&["sync", "--delete", "-bwlimit", "20M", &from, "back"]).spawn().unwrap();
    transfers::half_received(&back);
    child.kill().unwrap();
    child.wait().unwrap();
    // Of a file that nobody wants any more.
    wu.write("back/.old.0123456789abcdef.0123-12.download", "x");
    let plan = wu.says(&["sync", "--delete", "--dry-run", &from, "back"]);
    let removed = "remove back/.old.0123456789abcdef.0123-12.download";
    assert_eq!(plan.ok(), format!("download back/big\n{removed}\n"));
    let said = wu.says(&["sync", "--delete", &from, "back"]);
    said.ok();
    assert!(said.err.contains("were there already"), "{said:?}");
    assert!(wu.read("back/big") == wu.read("data/big"));
    assert_eq!(fs::read_dir(&back).unwrap().count(), 1, "something is left");
}

/// Between a client and its server: the answer to the first upload is lost.
fn losing(server: &Server) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = server.url().strip_prefix("http://").unwrap().to_owned();
    let is_lost = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_lost);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let upstream = TcpStream::connect(&server).unwrap();
            let is_upload = Arc::new(AtomicBool::new(false));
            let (seen, is_lost) = (Arc::clone(&is_upload), Arc::clone(&is_lost));
            let (from, to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || {
                forward(from, to, |bytes| {
                    seen.fetch_or(bytes.starts_with(b"PUT "), Ordering::Relaxed);
                    true
                });
            });
            std::thread::spawn(move || {
                forward(upstream, client, |_| {
                    !is_upload.load(Ordering::Relaxed) || is_lost.swap(true, Ordering::Relaxed)
                });
            });
        }
    });
    (url, told)
}

/// Passes on what arrives as long as it may.
fn forward(mut from: TcpStream, mut to: TcpStream, mut may_pass: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        if bytes.is_empty() || !may_pass(bytes) || to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn an_upload_whose_answer_was_lost_is_not_taken_for_another_file() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let (url, is_lost) = losing(&server);
    let config = wu.work().join("../.paddle/config");
    let text = fs::read_to_string(&config).unwrap().replace(server.url(), &url);
    fs::write(&config, text).unwrap();
    wu.write("file", noise(14, 100_000));
    wu.says(&["cp", "-n", "file", &wu.pfs("file")]).ok();
    assert!(is_lost.load(Ordering::Relaxed), "no answer was lost");
    assert!(fs::read(wu.on_disk(&server).join("file")).unwrap() == wu.read("file"));
    assert!(wu.says(&["cp", "-n", "file", &wu.pfs("file")]).failed(1).contains("already"));
}

#[test]
fn a_full_disk_is_told_and_leaves_what_was_there() {
    let disk = tempfile::tempdir().unwrap();
    let Some(_mount) = Small::mount(disk.path(), "32m") else { return };
    let config = format!("datacenters: [{{name: local, files: {}}}]", disk.path().display());
    let server = Server::with_config(&config);
    let wu = Person::new(&server, "wu");
    wu.write("first", noise(8, 20 << 20));
    wu.write("second", noise(9, 20 << 20));
    wu.write("single", noise(10, 14 << 20));
    wu.says(&["cp", "first", &wu.pfs("file")]).ok();
    for name in ["second", "single"] {
        let said = wu.says(&["cp", name, &wu.pfs("other")]);
        assert!(said.failed(1).contains("the datacenter's disk is full"), "{said:?}");
    }
    let home = disk.path().join("home/wu");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
    assert!(fs::read(home.join("file")).unwrap() == wu.read("first"));
    wu.says(&["rm", &wu.pfs("file")]).ok();
    wu.says(&["cp", "second", &wu.pfs("file")]).ok();
}

/// A small disk, as long as it is held.
struct Small(PathBuf);

impl Small {
    fn mount(path: &Path, size: &str) -> Option<Small> {
        let option = format!("size={size}");
        let status = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(path)
            .status();
        match status.is_ok_and(|status| status.success()) {
            true => Some(Small(path.to_owned())),
            false => component::missing("small disk", "nobody but root mounts one"),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn the_end_of_an_upload_can_be_repeated_and_names_what_is_wrong() {
    let mut server = steady("");
    let wu = Person::new(&server, "wu");
    let user = login(&server, &wu);
    let content = noise(11, 20_000);
    let path = wu.pfs("file");
    let begin = json!({"path": path, "bytes": 20_000, "chunk_bytes": 8192, "source": "s"});
    let upload: Upload = user.post("/api/v2/files/uploads", &begin).read();
    let sums: Vec<String> =
        content.chunks(8192).map(|chunk| Checksum::of(chunk).to_string()).collect();
    let put = |index: usize, bytes: &[u8]| {
        let chunk =
            format!("/api/v2/files/uploads/{}/chunks/{index}?checksum={}", upload.id, sums[index]);
        user.put(&chunk, bytes)
    };
    let complete = || {
        user.post(
            &format!("/api/v2/files/uploads/{}/complete", upload.id),
            &json!({"checksums": sums}),
        )
    };
    let chunks: Vec<&[u8]> = content.chunks(8192).collect();
    assert_eq!(put(0, chunks[0]).status, 204);
    assert_eq!(
        put(1, chunks[0]).refusal(422),
        "the chunk is not what its checksum says: send it again"
    );
    // The checksum may follow the chunk instead.
    let behind = |index: usize, query: &str, parts: &[&[u8]]| {
        let to = format!("/api/v2/files/uploads/{}/chunks/{index}{query}", upload.id);
        user.put(&to, &parts.concat())
    };
    let sum = Checksum::of(chunks[1]);
    for (query, parts, status) in [
        ("?is_checked=true", &[chunks[1], &Checksum::of(chunks[0]).0][..], 422),
        ("?is_checked=true", &[chunks[1], &sum.0[1..]], 400),
        ("?is_checked=true", &[chunks[1], &sum.0, b"x"], 400),
        ("?is_checked=true", &[chunks[1]], 400),
        ("", &[chunks[1]], 400),
        (&format!("?is_checked=true&checksum={sum}"), &[chunks[1], &sum.0], 400),
        ("?is_checked=true", &[chunks[1], &sum.0], 204),
    ] {
        assert_eq!(behind(1, query, parts).status, status, "{query}");
    }
    let done: Completed = complete().read();
    assert_eq!((done.entry, done.missing.len(), done.missing[0].first), (None, 1, 2));
    server.kill();
    server.restart();
    assert_eq!(put(2, chunks[2]).status, 204);
    let first: Completed = complete().read();
    let again: Completed = complete().read();
    assert_eq!(first.entry.as_ref().unwrap().bytes, 20_000);
    assert_eq!(first, again);
    assert!(fs::read(wu.on_disk(&server).join("file")).unwrap() == content);
    // Nobody writes into a published file any more.
    assert_eq!(put(0, chunks[0]).status, 404);
    let eve = server.user("eve");
    let foreign = eve.get(&format!("/api/v2/files/uploads/{}", upload.id));
    assert_eq!(foreign.status, 404);
}
