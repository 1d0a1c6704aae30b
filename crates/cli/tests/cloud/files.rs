//! Files by the command: what people type, and what is where afterwards.

use super::person::{Person, noise, tree};
use super::server::Server;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn files_and_directories_go_there_and_back_as_they_are() {
    let server = Server::start();
    let wu = Person::new(&server, "wu@example.com");
    wu.write("data/small.txt", "hello");
    wu.write("data/empty", "");
    wu.write("data/deep/er/one", noise(1, 1_500_000));
    wu.write("data/large", noise(2, 20_000_000));
    wu.write("data/odd names/é *[x]?", "odd");
    fs::create_dir_all(wu.work().join("data/nothing/here")).unwrap();
    let script = wu.write("data/run.sh", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let old = UNIX_EPOCH + Duration::from_millis(1_400_000_000_250);
    fs::File::options().write(true).open(&script).unwrap().set_modified(old).unwrap();
    for (name, mode) in [("data/nothing/here", 0o700), ("data/deep", 0o750), ("data", 0o711)] {
        let path = wu.work().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::File::open(path).unwrap().set_modified(old).unwrap();
    }

    let said = wu.says(&["cp", "-r", "data", &wu.pfs("")]);
    assert!(said.ok().contains("Uploaded data/small.txt"), "{said:?}");
    assert!(said.err.contains("Uploaded 6 files"), "{said:?}");
    assert_eq!(tree(&wu.on_disk(&server).join("data")), tree(&wu.work().join("data")));
    wu.says(&["cp", "-r", &wu.pfs("data"), "back"]).ok();
    assert_eq!(tree(&wu.work().join("back")), tree(&wu.work().join("data")));
    let back = fs::metadata(wu.work().join("back/run.sh")).unwrap();
    assert_eq!((back.mode() & 0o777, back.modified().unwrap()), (0o750, old));
    wu.says(&["cp", "-r", &wu.pfs("data"), &wu.pfs("copy")]).ok();
    let (there, copy) = (wu.on_disk(&server).join("data"), wu.on_disk(&server).join("copy"));
    for (name, mode) in [("nothing/here", 0o700), ("deep", 0o750), ("", 0o711)] {
        for top in [&there, &copy, &wu.work().join("back")] {
            let found = fs::metadata(top.join(name)).unwrap();
            let place = top.join(name);
            assert_eq!((found.mode() & 0o777, found.modified().unwrap()), (mode, old), "{place:?}");
        }
    }
    // Nothing is left of the transfers, on either side.
    let uploads = server.data().join("files/local/uploads/wu@example.com");
    let mut unfinished = fs::read_dir(uploads).unwrap().map(|entry| entry.unwrap().path());
    assert!(!unfinished.any(|path| path.join("data").exists()));
    assert!(!tree(&wu.work()).iter().any(|(name, _)| name.contains(".download")));

    let listed = wu.says(&["ls", "-r", &wu.pfs("data")]);
    let lines: Vec<&str> = listed.ok().lines().collect();
    assert_eq!(lines[0], format!("{} :", wu.pfs("data")));
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with(" f 20000000 /pfs/local/home/wu@example.com/data/large"))
    );
    assert!(
        lines.contains(
            &format!("2014-05-13 16:53:20 f {:>8} {}", 10, wu.pfs("data/run.sh")).as_str()
        )
    );
    assert_eq!(wu.says(&["cat", &wu.pfs("data/small.txt")]).ok(), "hello");
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("data/deep")]).ok(), "er\n");
    let usage = wu.says(&["du", "-bytes", &wu.pfs("data")]);
    assert!(usage.ok().contains("21500018"), "{usage:?}");
}

#[test]
fn what_cannot_be_copied_is_listed_and_the_rest_is_copied() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("data/good", "good");
    let odd = wu.work().join("data").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::write(&odd, "odd").unwrap();
    let said = wu.says(&["cp", "-r", "data", &wu.pfs("")]);
    let err = said.failed(1);
    assert!(err.contains("Uploaded 1 file, 4 B") && err.contains("rename it"), "{err}");
    assert!(err.contains("1 of 2 files failed"), "{err}");
    assert_eq!(wu.says(&["cat", &wu.pfs("data/good")]).ok(), "good");
    // What could not be read is not taken for what is not there.
    fs::remove_file(wu.work().join("data/good")).unwrap();
    let said = wu.says(&["sync", "data", &wu.pfs("data"), "--delete"]);
    assert!(said.failed(1).contains("nothing is removed"), "{said:?}");
    assert_eq!(wu.says(&["cat", &wu.pfs("data/good")]).ok(), "good");
    // As a job could.
    fs::create_dir(wu.on_disk(&server).join("data/odd\nname")).unwrap();
    fs::write(wu.on_disk(&server).join("data/odd\nname/inner"), "x").unwrap();
    let said = wu.says(&["cp", "-r", &wu.pfs("data"), "back"]);
    let err = said.failed(1);
    assert!(err.contains("Downloaded 1 file") && err.contains("1 of 2 files failed"), "{err}");
    assert_eq!(wu.read("back/good"), b"good");
    let said = wu.says(&["cp", "-r", &wu.pfs("data"), &wu.pfs("copy")]);
    assert!(said.failed(1).contains("Copied 1 file"), "{said:?}");
    assert_eq!(wu.says(&["cat", &wu.pfs("copy/good")]).ok(), "good");
    // Before anything is done, too.
    let said = wu.says(&["sync", "-dry-run", &wu.pfs("data"), "other"]);
    assert!(said.failed(1).contains("would fail: /pfs/local/home/wu/data/odd?name:"), "{said:?}");
    assert_eq!(said.out, "download other/good\n");
    // What is there under such a name hinders nobody, and cannot be removed.
    wu.write("plain/good", "better");
    wu.write("plain/more", "more");
    wu.says(&["sync", "plain", &wu.pfs("data")]).ok();
    assert_eq!(wu.says(&["cat", &wu.pfs("data/good")]).ok(), "better");
    fs::remove_file(wu.work().join("plain/more")).unwrap();
    let said = wu.says(&["sync", "--delete", "plain", &wu.pfs("data")]);
    assert!(said.failed(1).contains("removed /pfs/local/home/wu/data/more"), "{said:?}");
    assert!(said.err.contains("failed: /pfs/local/home/wu/data/odd?name:"), "{said:?}");
}

#[test]
fn a_link_that_a_job_has_made_does_not_hide_what_is_beside_it() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("data/a/x", "x");
    wu.write("data/b", "b");
    wu.says(&["cp", "-r", "data", &wu.pfs("")]).ok();
    symlink("/etc", wu.on_disk(&server).join("data/link")).unwrap();
    let listed = wu.says(&["file", "ls", &wu.pfs("data/*/x")]);
    assert_eq!(listed.ok(), "x\n");
    let said = wu.says(&["cp", "-r", &wu.pfs("data/*"), "back/"]);
    assert!(said.failed(1).contains("failed: /pfs/local/home/wu/data/link: this is a link"));
    assert_eq!((wu.read("back/a/x"), wu.read("back/b")), (b"x".to_vec(), b"b".to_vec()));
}

#[test]
fn a_terminal_sees_a_bar_with_rate_and_remaining_time() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("big", noise(9, 24 << 20));
    let script =
        "import os, pty, sys\nsys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let words = ["cp", "-bwlimit", "12M", "big", &wu.pfs("big")];
    let home = wu.work().parent().unwrap().to_owned();
    let mut terminal = Command::new("python3");
    terminal.args(["-c", script, env!("CARGO_BIN_EXE_paddlecloud")]).args(words);
    terminal.env("HOME", home).env("TERM", "xterm").current_dir(wu.work());
    let output = terminal.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let mut frames = text.split('\r').filter(|frame| frame.contains("/24.00 MiB "));
    let has_times = |frame: &str| {
        let rest = frame.split_once("MiB/s ").map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    assert!(frames.any(has_times), "{text:?}");
    assert!(text.contains("Uploaded 1 file, 24.0 MiB in "), "{text:?}");
    assert!(!text.contains("Uploaded big"), "a line beside the bar: {text:?}");
}

#[test]
fn what_is_no_file_is_not_taken_for_an_empty_one() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("a", "a");
    wu.says(&["cp", "a", &wu.pfs("a")]).ok();
    // As a job could.
    std::os::unix::fs::symlink("a", wu.on_disk(&server).join("link")).unwrap();
    insta::assert_snapshot!(wu.says(&["cat", &wu.pfs("link")]).failed(2), @"paddlecloud: this is a link, a pipe or a socket that a job has made, and no file (path: /pfs/local/home/wu/link)");
    insta::assert_snapshot!(wu.says(&["cat", &wu.pfs("")]).failed(2), @"paddlecloud: this is a directory, and no file (path: /pfs/local/home/wu)");
    // Nor is something made that is not.
    let said = wu.says(&["mkdir", &wu.pfs("a"), &wu.pfs("b")]);
    assert_eq!((said.out.as_str(), said.code), ("mkdir /pfs/local/home/wu/b\n", 1), "{said:?}");
}

#[test]
fn cp_is_as_careful_as_the_systems_own() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("a", "a");
    wu.write("b", "b");
    wu.write("d/a", "other");
    let (home, file) = (wu.pfs(""), wu.pfs("file"));
    insta::assert_snapshot!(wu.says(&["cp", "a", "b"]).failed(2), @"paddlecloud: neither is in the cloud: paths there begin with /pfs/; use `cp` for files of this machine (destination: b)");
    insta::assert_snapshot!(wu.says(&["cp", "d", &home]).failed(2), @"paddlecloud: this is a directory: use -r to copy everything in it (path: d)");
    insta::assert_snapshot!(wu.says(&["cp", "a", "b", &file]).failed(2), @"paddlecloud: several files cannot become one: the destination must be a directory; end it with a slash to have it made (destination: /pfs/local/home/wu/file)");
    insta::assert_snapshot!(wu.says(&["cp", "a", "d/a", &home]).failed(1), @"paddlecloud: two sources would become the same file: give one another name (path: /pfs/local/home/wu/a)");
    assert!(wu.says(&["cp", "none", &home]).failed(1).contains("cannot read (file: none)"));
    assert!(wu.says(&["cp", &wu.pfs("none"), "x"]).failed(1).contains("no such file or directory"));
    assert!(
        wu.says(&["cp", "a", "/pfs/local/home/eve/x"]).failed(1).contains("another user's home")
    );
    assert!(
        wu.says(&["cp", "a", "/pfs/local/public/x"]).failed(1).contains("administrators alone")
    );
    assert!(wu.says(&["cp", "a", "/pfs/mars/home/wu/x"]).failed(1).contains("no such datacenter"));
    assert!(wu.says(&["cp", "a", &wu.pfs("../eve/x")]).failed(2).contains("climbs out"));
    assert!(wu.says(&["cp", "-chunksize", "1", "a", &home]).failed(2).contains("from 4 to 65536"));
    assert!(wu.says(&["ls", "/etc"]).failed(2).contains("not a path of the file system"));
    assert_eq!(tree(&wu.on_disk(&server)), []);

    wu.says(&["cp", "a", &file]).ok();
    wu.says(&["cp", "a", "b", &wu.pfs("new/")]).ok();
    wu.says(&["cp", "-n", "b", &file]).failed(1);
    assert_eq!(wu.says(&["cat", &file]).ok(), "a");
    // In the other direction, too; a link is followed, and a device stays one.
    let said = wu.says(&["cp", "-n", &file, "b"]);
    assert!(said.failed(1).contains("there is something already (file: b)"), "{said:?}");
    assert_eq!(wu.read("b"), b"b");
    symlink("d/a", wu.work().join("link")).unwrap();
    wu.says(&["cp", &file, "link"]).ok();
    assert_eq!((wu.read("d/a"), wu.read("link")), (b"a".to_vec(), b"a".to_vec()));
    assert!(wu.work().join("link").is_symlink());
    let socket = UnixListener::bind(wu.work().join("socket")).unwrap();
    let said = wu.says(&["cp", &file, "socket"]);
    assert!(said.failed(1).contains("cannot become a file"), "{said:?}");
    assert!(wu.work().join("socket").metadata().unwrap().file_type().is_socket());
    drop(socket);
    // Inside the cloud, patterns, and other names.
    wu.says(&["cp", &wu.pfs("new/*"), &wu.pfs("copies/")]).ok();
    wu.says(&["cp", "-r", &wu.pfs("new"), &wu.pfs("again")]).ok();
    wu.says(&["mv", &wu.pfs("again/a"), &wu.pfs("again/z")]).ok();
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("again")]).ok(), "b\nz\n");
    assert!(wu.says(&["tree", &wu.pfs("again/z")]).failed(2).contains("this is a file"));
    insta::assert_snapshot!(wu.says(&["mv", "-n", &wu.pfs("again/z"), &file]).failed(1), @"paddlecloud: there is something already at /pfs/local/home/wu/file (file: /pfs/local/home/wu/again/z)");
    assert!(
        wu.says(&["mv", &wu.pfs("again"), &wu.pfs("again/in")]).failed(2).contains("into itself")
    );
    assert!(wu.says(&["rm", &wu.pfs("new")]).failed(2).contains("use -r"));
    let gone = wu.says(&["rm", &wu.pfs("none"), &wu.pfs("new/a"), &wu.pfs("again")]);
    assert!(gone.failed(1).contains("2 of 3 could not be removed"), "{gone:?}");
    assert!(gone.out.contains("rm /pfs/local/home/wu/new/a"));
    wu.says(&["rm", "-r", &wu.pfs("*")]).ok();
    assert_eq!(tree(&wu.on_disk(&server)), []);
    assert!(wu.says(&["rm", "-r", &wu.pfs("")]).failed(2).contains("top of a home"));
    wu.says(&["mkdir", &wu.pfs("x/y"), &wu.pfs("x/y")]).ok();
}

#[test]
fn a_directory_takes_the_place_of_no_file_in_any_direction() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("d/inner/a", "a");
    wu.write("file", "x");
    wu.says(&["cp", "-r", "d", "file", &wu.pfs("")]).ok();
    wu.write("into/d", "in the way");
    let (d, file, f) = (wu.pfs("d"), wu.pfs("file"), wu.pfs("f"));
    wu.says(&["cp", "file", &wu.pfs("f/d")]).ok();
    for words in [
        &["cp", "-r", "d", &file][..],
        &["cp", "-r", "d", &f],
        &["cp", "-r", &d, "file"],
        &["cp", "-r", &d, "into"],
        &["cp", "-r", &d, &file],
        &["cp", "-r", &d, &f],
        &["file", "put", "d", &f],
        &["file", "put", "d/", &file],
    ] {
        let said = wu.says(words);
        assert!(said.failed(2).contains("cannot take the place of a file"), "{words:?} {said:?}");
    }
    assert_eq!((wu.read("file"), wu.read("into/d")), (b"x".to_vec(), b"in the way".to_vec()));
    let said = wu.says(&["sync", &d, "file"]);
    assert!(said.failed(2).contains("this is no directory"), "{said:?}");
}

#[test]
fn of_several_sources_those_that_can_be_copied_are() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("src/a", "a");
    wu.write("src/b", "b");
    symlink("nowhere", wu.work().join("src/broken")).unwrap();
    let _socket = UnixListener::bind(wu.work().join("src/socket")).unwrap();
    for sources in [&["src/*"][..], &["src/a", "src/b", "src/broken", "src/socket"]] {
        let to = wu.pfs("copy/");
        let said = wu.says(&[&["cp"], sources, &[&*to]].concat());
        let err = said.failed(1);
        assert!(err.contains("Uploaded 2 files") && err.contains("2 of 4 files failed"), "{err}");
        assert!(err.contains("failed: src/broken: cannot read"), "{err}");
        assert!(err.contains("failed: src/socket: this is neither a file"), "{err}");
        assert_eq!(wu.says(&["file", "ls", &to]).ok(), "a\nb\n");
        wu.says(&["rm", "-r", &to]).ok();
    }
    // One that cannot be copied counts, too: the other does not become the destination.
    let said = wu.says(&["cp", "src/a", "src/broken", &wu.pfs("new")]);
    assert!(said.failed(2).contains("several files cannot become one"), "{said:?}");
}

#[test]
fn file_put_follows_the_slash_and_stays_below_the_current_directory() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("src/a", "a");
    wu.write("src/sub/b", "b");
    wu.says(&["file", "put", "src/", &wu.pfs("contents")]).ok();
    wu.says(&["file", "put", "src", &wu.pfs("itself")]).ok();
    wu.says(&["file", "put", "src/a", &wu.pfs("file")]).ok();
    let names = |below: &str| {
        let found = tree(&wu.on_disk(&server).join(below));
        found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("contents"), ["a", "sub/", "sub/b"]);
    assert_eq!(names("itself"), ["src/", "src/a", "src/sub/", "src/sub/b"]);
    assert_eq!(names("file"), ["a"]);
    insta::assert_snapshot!(wu.says(&["file", "put", "../src", &wu.pfs("x")]).failed(2), @"paddlecloud: src must be below the current directory: ../ is not allowed (src: ../src)");
    assert!(
        wu.says(&["file", "put", "/etc/passwd", &wu.pfs("x")]).failed(2).contains("must be below")
    );
    insta::assert_snapshot!(wu.says(&["file", "put", "src", "/pfs/local/public/x"]).failed(2), @"paddlecloud: dest must be in your home: /pfs/local/home/wu/… (dest: /pfs/local/public/x)");
    assert!(
        wu.says(&["file", "put", "src", "somewhere"])
            .failed(2)
            .contains("dest must be in your home")
    );
    wu.says(&["file", "get", &wu.pfs("file/a"), "got/"]).ok();
    wu.says(&["file", "get", &wu.pfs("file/a")]).ok();
    assert_eq!((wu.read("got/a"), wu.read("a")), (b"a".to_vec(), b"a".to_vec()));
    assert!(
        wu.says(&["file", "get", &wu.pfs("file/a"), "a"]).failed(1).contains("something already")
    );
    // What the server says is never saved as a file.
    assert!(wu.says(&["file", "get", &wu.pfs("none"), "none"]).failed(1).contains("no such file"));
    assert!(!wu.work().join("none").exists());
}

#[test]
fn sync_sends_what_differs_and_removes_what_is_gone_if_asked() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    for name in ["a", "b", "sub/c", "sub/d"] {
        wu.write(&format!("data/{name}"), name);
    }
    let to = wu.pfs("data");
    let plan = wu.says(&["sync", "-dry-run", "data", &to]);
    assert_eq!(plan.ok().lines().count(), 4);
    assert_eq!(tree(&wu.on_disk(&server)), []);
    assert!(wu.says(&["sync", "data", &to]).err.contains("Uploaded 4 files"));
    assert!(wu.says(&["sync", "data", &to]).err.contains("Uploaded 0 files"));
    wu.write("data/a", "changed");
    fs::remove_dir_all(wu.work().join("data/sub")).unwrap();
    let plan = wu.says(&["sync", "--dry-run", "--delete", "data", &to]);
    assert_eq!(plan.ok(), format!("upload {to}/a\nremove {to}/sub\n"));
    assert!(wu.says(&["sync", "data", &to]).err.contains("Uploaded 1 file,"));
    assert_eq!(wu.says(&["cat", &format!("{to}/sub/c")]).ok(), "sub/c");
    wu.says(&["sync", "--delete", "data", &to]).ok();
    assert_eq!(tree(&wu.on_disk(&server).join("data")), tree(&wu.work().join("data")));
    // And back.
    wu.write("copy/stale", "x");
    wu.says(&["sync", "--delete", &to, "copy"]).ok();
    assert_eq!(tree(&wu.work().join("copy")), tree(&wu.work().join("data")));
    assert!(wu.says(&["sync", &to, "copy"]).err.contains("Downloaded 0 files"));
}

/// A file where a directory is wanted, and a directory where a file is, in either direction.
#[test]
fn sync_replaces_what_is_of_another_kind_only_if_it_may_remove() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let (to, there) = (wu.pfs("data"), wu.on_disk(&server).join("data"));
    for name in ["empty", "full", "file/below"] {
        wu.write(&format!("old/{name}"), name);
    }
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(wu.work().join("old/full"), private).unwrap();
    for name in ["full/below", "file"] {
        wu.write(&format!("new/{name}"), name);
    }
    fs::create_dir(wu.work().join("new/empty")).unwrap();
    wu.says(&["sync", "old", &to]).ok();
    wu.says(&["sync", "new", &to]).failed(1);
    assert_eq!(tree(&there), tree(&wu.work().join("old")));
    assert_eq!(fs::metadata(there.join("full")).unwrap().permissions().mode() & 0o777, 0o600);
    wu.says(&["sync", "--delete", "new", &to]).ok();
    assert_eq!(tree(&there), tree(&wu.work().join("new")));
    assert!(there.join("empty").is_dir());
    wu.says(&["sync", &to, "old"]).failed(1);
    let full = fs::metadata(wu.work().join("old/full")).unwrap();
    assert_eq!(full.permissions().mode() & 0o777, 0o600);
    wu.says(&["sync", "--delete", &to, "old"]).ok();
    assert_eq!(tree(&wu.work().join("old")), tree(&there));
    // What is a link here was a directory when it was copied before: it stays.
    fs::rename(wu.work().join("new/full"), wu.work().join("new/real")).unwrap();
    symlink("real", wu.work().join("new/full")).unwrap();
    wu.says(&["sync", "--delete", "new", &to]).ok();
    assert!(there.join("full/below").exists() && there.join("real/below").exists());
    // A slip of the finger would cost everything else at home.
    for above in ["..", "../.paddle/..", "/"] {
        let said = wu.says(&["sync", "--delete", &to, above]);
        assert!(said.failed(2).contains("of your home directory"), "{above} {said:?}");
    }
    // Or what jobs have written.
    let home = to.strip_suffix("/data").unwrap();
    let said = wu.says(&["sync", "--delete", "new", home]);
    assert!(said.failed(2).contains("name a directory in it"), "{said:?}");
}

#[test]
fn only_the_chunks_that_differ_are_sent() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mut content = noise(3, 40 << 20);
    wu.write("model", &content);
    wu.says(&["cp", "model", &wu.pfs("model")]).ok();
    content[20 << 20] ^= 1;
    content.extend_from_slice(b"more");
    wu.write("model", &content);
    let said = wu.says(&["cp", "model", &wu.pfs("model")]);
    said.ok();
    assert!(said.err.contains("36.0 MiB were there already"), "{said:?}");
    assert!(fs::read(wu.on_disk(&server).join("model")).unwrap() == content);
}

#[test]
fn a_link_is_for_everybody_until_it_is_revoked() {
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let content = noise(4, 100_000);
    wu.write("model.tar", &content);
    wu.says(&["cp", "model.tar", &wu.pfs("models/model.tar")]).ok();
    let url = wu.says(&["publish", &wu.pfs("models/model.tar")]).ok().trim().to_owned();
    assert!(url.contains("/filepub/?uuid=") && url.len() > 60, "{url}");
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let get = |range: Option<&str>| {
        let mut call = agent.get(&url);
        if let Some(range) = range {
            call = call.header("Range", range);
        }
        let mut answer = call.call().unwrap();
        let bytes = answer.body_mut().read_to_vec().unwrap();
        (answer.status().as_u16(), answer.headers().clone(), bytes)
    };
    let (status, headers, bytes) = get(None);
    assert_eq!(status, 200);
    assert!(bytes == content);
    assert_eq!(headers["content-disposition"], "attachment; filename*=UTF-8''model.tar");
    let (status, headers, bytes) = get(Some("bytes=10-19"));
    assert_eq!((status, &bytes[..]), (206, &content[10..20]));
    assert_eq!(headers["content-range"], "bytes 10-19/100000");
    assert_eq!(get(Some("bytes=100000-")).0, 416);
    let listed = wu.says(&["publish", "list"]);
    let id = listed.ok().lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    // Only for own files, and only files.
    let eve = Person::new(&server, "eve");
    assert!(
        eve.says(&["publish", &wu.pfs("models/model.tar")]).failed(1).contains("another user's")
    );
    assert!(eve.says(&["publish", "revoke", &id]).failed(1).contains("no such link"));
    assert_eq!(eve.says(&["publish"]).ok().lines().count(), 1);
    assert!(wu.says(&["publish", &wu.pfs("models")]).failed(2).contains("only files"));
    let admin = Person::admin(&server);
    assert!(admin.says(&["publish", "/pfs/local/public/x"]).failed(1).contains("your own home"));
    wu.says(&["publish", "revoke", &id]).ok();
    assert_eq!(get(None).0, 404);
}

#[test]
fn administrators_fill_the_public_area_and_everybody_reads_it() {
    let server = Server::start();
    let (admin, wu) = (Person::admin(&server), Person::new(&server, "wu"));
    let file = admin.write("train-00000.pickle", "data");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    admin.says(&["dataset", "put", "uci_housing", "train-00000.pickle"]).ok();
    let there = "/pfs/local/public/dataset/uci_housing/train-00000.pickle";
    assert_eq!(wu.says(&["cat", there]).ok(), "data");
    assert_eq!(
        wu.says(&["cat", "/pfs/public/dataset/uci_housing/train-00000.pickle"]).ok(),
        "data"
    );
    let disk = server.data().join("files/local/public/dataset/uci_housing/train-00000.pickle");
    assert_eq!(fs::metadata(disk).unwrap().mode() & 0o777, 0o644);
    wu.write("x", "x");
    assert!(wu.says(&["dataset", "put", "mine", "x"]).failed(1).contains("by administrators"));
    assert!(wu.says(&["rm", there]).failed(1).contains("administrators alone"));
    admin.says(&["rm", "-r", "/pfs/local/public/dataset"]).ok();
}
