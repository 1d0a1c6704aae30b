//! Programs in a mounted directory: files that are open while their names change, many small files,
//! and a server that is started again meanwhile.

use super::mounting::{Mounted, has_fuse};
use super::person::{Person, noise};
use super::server::{Server, wait_until};
use super::transfers::steady;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes of an open file that are read last.
fn end_of(file: &File, length: usize) -> Vec<u8> {
    let mut part = vec![0; 100];
    file.read_exact_at(&mut part, length as u64 - 100).unwrap();
    part
}

#[test]
fn what_is_open_stays_what_it_was_whatever_becomes_of_its_name() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    let on_disk = wu.on_disk(&server);
    let content = noise(1, 3_000_000);
    let opened = |name: &str| {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), &content).unwrap();
        File::open(home.join(name)).unwrap()
    };
    let is_whole = |file: &File| end_of(file, content.len()) == content[content.len() - 100..];

    let removed = opened("removed");
    fs::remove_file(home.join("removed")).unwrap();
    let replaced = opened("replaced");
    fs::write(home.join("new"), "new").unwrap();
    fs::rename(home.join("new"), home.join("replaced")).unwrap();
    let renamed = opened("old");
    fs::rename(home.join("old"), home.join("renamed")).unwrap();
    let moved = opened("directory/below/file");
    fs::rename(home.join("directory"), home.join("elsewhere")).unwrap();
    for (name, file) in
        [("removed", removed), ("replaced", replaced), ("renamed", renamed), ("moved", moved)]
    {
        assert!(is_whole(&file), "{name}");
    }
    assert_eq!(fs::read_to_string(home.join("replaced")).unwrap(), "new");

    // A part of it is changed only now, of the content that has another name.
    let changed = opened("before");
    let writer = File::options().write(true).open(home.join("before")).unwrap();
    fs::rename(home.join("before"), home.join("after")).unwrap();
    writer.write_all_at(b"changed", 0).unwrap();
    drop(writer);
    assert!(is_whole(&changed));
    assert!(fs::read(on_disk.join("after")).unwrap()[..7] == *b"changed");
    assert!(!on_disk.join("before").exists());

    // Who reads a log sees what another program appends, also after it has closed it.
    fs::write(home.join("log"), "one\n").unwrap();
    let reader = File::open(home.join("log")).unwrap();
    for line in ["two\n", "more\n"] {
        let mut log = File::options().append(true).open(home.join("log")).unwrap();
        log.write_all(line.as_bytes()).unwrap();
    }
    let mut seen = [0; 13];
    reader.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(&seen, b"one\ntwo\nmore\n");
}

#[test]
fn a_directory_with_a_file_that_is_being_written_is_not_empty() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    for name in ["full", "other"] {
        fs::create_dir(home.join(name)).unwrap();
    }
    let mut file = File::create(home.join("full/file")).unwrap();
    file.write_all(b"content").unwrap();
    let code = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(code(fs::remove_dir(home.join("full"))), Some(39));
    assert_eq!(code(fs::rename(home.join("other"), home.join("full"))), Some(39));
    fs::rename(home.join("full"), home.join("moved")).unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(wu.on_disk(&server).join("moved/file")).unwrap(), "content");
}

#[test]
fn programs_wait_for_a_server_that_is_started_again_whatever_they_ask() {
    if !has_fuse() {
        return;
    }
    let mut server = steady("");
    let wu = Person::new(&server, "wu");
    wu.write("a", "a");
    wu.says(&["cp", "a", &wu.pfs("sub/a")]).ok();
    let log = wu.work().join("mount.log");
    let mounted = Mounted::logged(&wu, &[], File::create(&log).unwrap().into());
    let home = mounted.home(&wu);
    server.kill();
    let asks: [fn(&Path) -> std::io::Result<()>; 4] = [
        |home| fs::read_dir(home.join("sub")).map(|_| ()),
        |home| fs::metadata(home.join("sub/a")).map(|_| ()),
        |home| fs::create_dir(home.join("new")),
        |home| fs::write(home.join("written"), "written"),
    ];
    let answers: Vec<_> = std::thread::scope(|scope| {
        let home = &home;
        let asking = asks.map(|ask| scope.spawn(move || ask(home)));
        // The kernel lets one of them look for the home; the others wait for it.
        let is_waiting = || fs::read_to_string(&log).unwrap().contains("trying again");
        wait_until("somebody to wait", is_waiting);
        server.restart();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(fs::read(wu.on_disk(&server).join("written")).unwrap(), b"written");
}

#[test]
fn many_small_files_are_slow_and_no_error_where_requests_are_few() {
    if !has_fuse() {
        return;
    }
    let server = Server::with("limits: {requests_per_second: 50}", &[]);
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    std::thread::scope(|scope| {
        let write = |thread: u32| {
            let folder = home.join(thread.to_string());
            fs::create_dir(&folder).unwrap();
            for file in 0..8 {
                fs::write(folder.join(file.to_string()), "x").unwrap();
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 8);
        };
        for thread in 0..8 {
            scope.spawn(move || write(thread));
        }
    });
}
