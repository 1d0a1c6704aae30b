//! Transfers that break, on whatever keeps the files: stories that the tests of every store tell.

use super::person::{Person, noise};
use super::server::{Server, wait_for};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that comes back under the same address.
pub(crate) fn steady(yaml: &str) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Server::with(yaml, &["--listen", &format!("127.0.0.1:{port}")])
}

/// The unfinished upload of a user.
pub(crate) fn upload_of(server: &Server, name: &str) -> Option<PathBuf> {
    let uploads = server.data().join("files/local/uploads").join(name);
    let entries = fs::read_dir(uploads).ok()?.map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.join("upload.json").exists() && path.join("data").exists())
}

/// Waits until some chunks of an upload have arrived, and not all of them.
fn half_sent(server: &Server, person: &Person) -> PathBuf {
    let arrived = |upload: &Path| {
        let parts = fs::read(upload.join("parts")).unwrap_or_default();
        parts.chunks(33).filter(|record| record[0] == 1).count()
    };
    wait_for("some chunks", || {
        upload_of(server, &person.name).filter(|upload| (2..10).contains(&arrived(upload)))
    })
}

/// Waits until some chunks of a download have arrived in a directory, and not all of them.
pub(crate) fn half_received(folder: &Path) {
    wait_for("some chunks", || {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let list = names.into_iter().find(|path| path.to_str().unwrap().ends_with(".chunks"))?;
        let list = fs::read_to_string(list).unwrap_or_default();
        (2..10).contains(&list.lines().count()).then_some(())
    });
}

/// A client is killed on the way there and on the way back, and goes on where it was.
pub(crate) fn killed_client(server: &Server, wu: &Person) {
    let content = noise(1, 48 << 20);
    wu.write("big", &content);
    let words = ["cp", "-bwlimit", "20M", "big", &wu.pfs("big")];
    let mut child = wu.command(&words).spawn().unwrap();
    let upload = half_sent(server, wu);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wu.says(&["stat", &wu.pfs("big")]).failed(1).contains("no such file"));
    let said = wu.says(&["cp", "big", &wu.pfs("big")]);
    said.ok();
    assert!(said.err.contains("were there already"), "{said:?}");
    assert!(!upload.join("data").exists());
    let mut child = wu.command(&["cp", "-bwlimit", "20M", &wu.pfs("big"), "back"]).spawn().unwrap();
    half_received(&wu.work());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!wu.work().join("back").exists());
    let said = wu.says(&["cp", &wu.pfs("big"), "back"]);
    said.ok();
    assert!(said.err.contains("were there already"), "{said:?}");
    assert!(wu.read("back") == content);
    assert_eq!(fs::read_dir(wu.work()).unwrap().count(), 2, "something is left");
}

/// A server is killed on the way there and on the way back, and a part rots meanwhile.
pub(crate) fn killed_server(server: &mut Server, wu: &Person) {
    let content = noise(2, 48 << 20);
    wu.write("big", &content);
    let mut child = wu.command(&["cp", "-bwlimit", "20M", "big", &wu.pfs("big")]).spawn().unwrap();
    let upload = half_sent(server, wu);
    server.kill();
    let data = fs::File::options().write(true).open(upload.join("data")).unwrap();
    data.write_all_at(b"rotten", 1000).unwrap();
    server.restart();
    assert!(child.wait().unwrap().success());
    let mut child = wu.command(&["cp", "-bwlimit", "20M", &wu.pfs("big"), "back"]).spawn().unwrap();
    half_received(&wu.work());
    server.kill();
    server.restart();
    assert!(child.wait().unwrap().success());
    assert!(wu.read("back") == content);
}

/// Two clients write one path, again and again, while somebody looks: `look` gives a content, or
/// `None` if it broke off.
pub(crate) fn two_writers(wu: &Person, look: impl Fn() -> Option<Vec<u8>> + Sync) {
    let contents = [noise(5, 24 << 20), noise(6, 30 << 20)];
    wu.write("a", &contents[0]);
    wu.write("b", &contents[1]);
    wu.says(&["cp", "a", &wu.pfs("file")]).ok();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut looks = 0;
            while !is_over.load(Ordering::Relaxed) || looks == 0 {
                let Some(seen) = look() else { continue };
                assert!(contents.contains(&seen), "a mix of two writers, or half a file");
                looks += 1;
            }
        });
        for _ in 0..3 {
            let children =
                ["a", "b"].map(|name| wu.command(&["cp", name, &wu.pfs("file")]).spawn().unwrap());
            for mut child in children {
                assert!(child.wait().unwrap().success());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    wu.says(&["cp", "a", &wu.pfs("file")]).ok();
    assert!(look().unwrap() == contents[0], "the last complete one did not win");
}
