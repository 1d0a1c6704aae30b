//! Transfers that break: killed clients and servers, rotten disks, two writers, full disks.

use super::person::{Person, login, noise};
use super::server::Server;
use super::transfers::{self, steady};
use contract::api::file::{Completed, Upload};
use contract::checksum::Checksum;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

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
fn a_full_disk_is_told_and_leaves_what_was_there() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    let mount = Small::mount(disk.path(), "32m");
    let Some(_mount) = mount else { return };
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
        status.is_ok_and(|status| status.success()).then(|| Small(path.to_owned()))
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
