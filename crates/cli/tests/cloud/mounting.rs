//! `paddlecloud mount`: the cloud's files by the system's own calls and commands.

use super::component;
use super::person::{Person, noise, tree};
use super::server::{Server, wait_until};
use super::sshd;
use super::transfers::steady;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

/// A mounted directory, which goes with its test.
pub(crate) struct Mounted {
    directory: PathBuf,
    process: Option<Child>,
}

impl Mounted {
    /// In the foreground, so that its process is known.
    pub(crate) fn foreground(person: &Person, more: &[&str]) -> Mounted {
        Mounted::logged(person, more, Stdio::null())
    }

    /// The same, with a place for its log.
    pub(crate) fn logged(person: &Person, more: &[&str], log: Stdio) -> Mounted {
        let directory = person.work().join("mnt");
        fs::create_dir_all(&directory).unwrap();
        let words = [&["mount", "-foreground", "mnt"], more].concat();
        let process = person.command(&words).stderr(log).spawn().unwrap();
        wait_until("the mount", || is_mounted(&directory));
        Mounted { directory, process: Some(process) }
    }

    /// The home in it.
    pub(crate) fn home(&self, person: &Person) -> PathBuf {
        self.directory.join("local/home").join(&person.name)
    }

    /// Asks it to end, and its exit code.
    fn stop(&mut self) -> Option<i32> {
        let mut process = self.process.take().unwrap();
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.wait().unwrap().code()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if is_mounted(&self.directory) {
            let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        }
    }
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

/// Whether this machine can be tested; says so if not.
pub(crate) fn has_fuse() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let is_here = is_root && File::options().read(true).write(true).open("/dev/fuse").is_ok();
    is_here || component::missing::<()>("fuse", "no root, or no /dev/fuse").is_some()
}

#[test]
fn a_mounted_directory_is_like_any_other() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("data/small.txt", "hello");
    wu.write("data/empty", "");
    wu.write("data/deep/er/one", noise(1, 1_500_000));
    wu.write("data/large", noise(2, 20_000_000));
    wu.write("data/odd names/é *[x]?", "odd");
    fs::create_dir_all(wu.work().join("data/nothing/here")).unwrap();
    let mut mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);

    // There, by the system's own cp, and on the server's disk.
    let status = Command::new("cp").arg("-a").arg(wu.work().join("data")).arg(&home).status();
    assert!(status.unwrap().success());
    assert_eq!(tree(&wu.on_disk(&server).join("data")), tree(&wu.work().join("data")));
    assert_eq!(tree(&home.join("data")), tree(&wu.work().join("data")));
    for name in ["data/large", "data/small.txt", "data/deep"] {
        let (here, there) = (fs::metadata(wu.work().join(name)), fs::metadata(home.join(name)));
        let (here, there) = (here.unwrap(), there.unwrap());
        assert_eq!(here.mode(), there.mode(), "{name}");
        assert_eq!(here.mtime(), there.mtime(), "{name}");
    }

    // Parts of files are read, changed, appended and cut.
    let large = home.join("data/large");
    let mut content = noise(2, 20_000_000);
    let mut file = File::options().read(true).write(true).open(&large).unwrap();
    file.seek(SeekFrom::Start(12_345_678)).unwrap();
    let mut part = vec![0; 1000];
    file.read_exact(&mut part).unwrap();
    assert_eq!(part, content[12_345_678..12_346_678]);
    file.write_all_at(b"changed", 5_000_000).unwrap();
    content[5_000_000..5_000_007].copy_from_slice(b"changed");
    let on_disk = wu.on_disk(&server).join("data/large");
    assert_ne!(fs::read(&on_disk).unwrap(), content, "seen before it was closed");
    drop(file);
    assert!(fs::read(&on_disk).unwrap() == content);
    let mut file = File::options().append(true).open(&large).unwrap();
    file.write_all(b"the end").unwrap();
    file.sync_all().unwrap();
    content.extend_from_slice(b"the end");
    assert!(fs::read(&on_disk).unwrap() == content, "synced, and not there");
    drop(file);
    File::options().write(true).open(&large).unwrap().set_len(3).unwrap();
    assert_eq!(fs::read(&on_disk).unwrap(), content[..3]);

    // Names, permissions and times.
    fs::rename(home.join("data/deep"), home.join("data/flat")).unwrap();
    assert!(fs::read(home.join("data/flat/er/one")).unwrap() == noise(1, 1_500_000));
    fs::write(home.join("new"), "new").unwrap();
    fs::rename(home.join("new"), home.join("data/small.txt")).unwrap();
    assert_eq!(fs::read_to_string(home.join("data/small.txt")).unwrap(), "new");
    fs::set_permissions(&large, fs::Permissions::from_mode(0o640)).unwrap();
    let old = UNIX_EPOCH + Duration::from_millis(1_400_000_000_250);
    File::options().write(true).open(&large).unwrap().set_modified(old).unwrap();
    let found = fs::metadata(&on_disk).unwrap();
    assert_eq!((found.mode() & 0o777, found.modified().unwrap()), (0o640, old));
    assert!(fs::remove_dir(home.join("data")).unwrap_err().raw_os_error() == Some(39));
    assert!(fs::create_dir(home.join("data")).unwrap_err().raw_os_error() == Some(17));
    fs::remove_file(home.join("data/small.txt")).unwrap();
    assert!(!wu.on_disk(&server).join("data/small.txt").exists());
    fs::remove_dir_all(home.join("data")).unwrap();
    assert!(!wu.on_disk(&server).join("data").exists());

    // What belongs to others is not there, or not to be changed.
    let top = fs::read_dir(mounted.directory.join("local/home")).unwrap();
    assert_eq!(top.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["wu"]);
    let refused = fs::write(mounted.directory.join("local/public/x"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
    assert!(mounted.directory.join("public").is_dir());
    assert_eq!(mounted.stop(), Some(0));
    assert!(!is_mounted(&mounted.directory));
}

#[test]
fn a_file_is_whole_for_others_when_the_program_that_wrote_it_closes_it() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    let on_disk = wu.on_disk(&server);
    let mut file = File::create(home.join("slow")).unwrap();
    file.write_all(b"first ").unwrap();
    // A child that had the file ends; this process still has it.
    let echo = Command::new("echo").arg("child").stdout(file.try_clone().unwrap()).status();
    assert!(echo.unwrap().success());
    assert!(!on_disk.join("slow").exists(), "half a file is seen");
    assert_eq!(fs::read_to_string(home.join("slow")).unwrap(), "first child\n");
    drop(file);
    assert_eq!(fs::read_to_string(on_disk.join("slow")).unwrap(), "first child\n");
    // The shell gives each of them its own output, which is one file.
    let script = format!("{{ echo a; echo b; }} > {}/both", home.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(fs::read_to_string(on_disk.join("both")).unwrap(), "a\nb\n");
    // One that was removed before it was closed never appears.
    let gone = File::create(home.join("gone")).unwrap();
    fs::remove_file(home.join("gone")).unwrap();
    drop(gone);
    assert!(!on_disk.join("gone").exists() && !home.join("gone").exists());
    // Of two who want to be the first, one is.
    let first =
        |name: &str| File::options().write(true).create_new(true).mode(0o600).open(home.join(name));
    fs::write(on_disk.join("there"), "x").unwrap();
    assert!(first("there").is_err());
    drop(first("lock").unwrap());
    assert_eq!(fs::metadata(on_disk.join("lock")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_a_killed_program_has_written_takes_the_place_of_nothing() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    let on_disk = wu.on_disk(&server);
    fs::write(home.join("model"), "whole").unwrap();
    let end = |last: &str| {
        let script = format!(
            "import os, signal, sys, threading, time\n\
             threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n\
             f = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)\nos.write(f, b'half')\n{last}"
        );
        Command::new("python3").args(["-c", &script]).arg(home.join("model")).status().unwrap()
    };
    for signal in ["SIGKILL", "SIGTERM", "SIGABRT"] {
        let status = end(&format!("os.kill(os.getpid(), signal.{signal})\ntime.sleep(600)"));
        assert_eq!(status.code(), None, "{signal}");
        assert_eq!(fs::read_to_string(on_disk.join("model")).unwrap(), "whole", "{signal}");
        assert_eq!(fs::read_to_string(on_disk.join(".model.killed")).unwrap(), "half");
        fs::remove_file(home.join(".model.killed")).unwrap();
    }
    // One that ends by itself, if by no close, has written what it wanted to.
    assert_eq!(end("os._exit(3)").code(), Some(3));
    assert_eq!(fs::read_to_string(on_disk.join("model")).unwrap(), "half");
    assert!(!on_disk.join(".model.killed").exists());
}

#[test]
fn what_cannot_be_kept_is_told_to_whoever_closes_it() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let admin = Person::admin(&server);
    admin.says(&["user", "quota", "wu", "-disk", "1Mi"]).ok();
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    // The kernel's own words for it, by a program that looks at what closing says.
    let script = "import os, sys\nf = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n\
                  os.write(f, b'x' * 2000000)\ntry:\n    os.close(f)\nexcept OSError as e:\n    print(e.errno)";
    let python = Command::new("python3").args(["-c", script]).arg(home.join("big")).output();
    assert_eq!(String::from_utf8_lossy(&python.unwrap().stdout), "122\n");
    assert!(!wu.on_disk(&server).join("big").exists());
    let mut file = File::create(home.join("big")).unwrap();
    file.write_all(&[1; 2_000_000]).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(122));
    drop(file);
    // It has two descriptors at first, and closes one before it writes.
    let of = format!("of={}", home.join("zeros").display());
    let dd = Command::new("dd").args(["if=/dev/zero", &of, "bs=1M", "count=2"]).output().unwrap();
    assert!(!dd.status.success(), "{dd:?}");
    assert!(!wu.on_disk(&server).join("zeros").exists());
    let free = Command::new("stat").args(["-f", "-c", "%b %S"]).arg(&home).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&free.stdout).trim(), "256 4096");
}

#[test]
fn a_server_that_is_away_is_waited_for_and_then_there_is_an_error() {
    if !has_fuse() {
        return;
    }
    let mut server = steady("");
    let wu = Person::new(&server, "wu");
    let mut mounted = Mounted::foreground(&wu, &["-timeout", "2"]);
    let home = mounted.home(&wu);
    let content = noise(3, 5_000_000);
    fs::write(home.join("a"), &content).unwrap();
    let mut file = File::create(home.join("b")).unwrap();
    file.write_all(b"written before").unwrap();
    server.kill();
    assert_eq!(fs::read(home.join("none")).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(5));
    server.restart();
    // What was written is still here, and goes when it is asked for again.
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(wu.on_disk(&server).join("b")).unwrap(), b"written before");
    assert!(fs::read(home.join("a")).unwrap() == content);
    assert_eq!(mounted.stop(), Some(0));
}

#[test]
fn a_replaced_file_is_read_as_one_or_the_other() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let mounted = Mounted::foreground(&wu, &[]);
    let path = mounted.home(&wu).join("model");
    let (old, new) = (noise(1, 30_000_000), noise(2, 30_000_000));
    fs::write(&path, &old).unwrap();
    let reader = File::open(&path).unwrap();
    let mut part = vec![0; 4096];
    reader.read_exact_at(&mut part, 0).unwrap();
    assert_eq!(part, old[..4096]);
    // From elsewhere.
    wu.write("model", &new);
    wu.says(&["cp", "model", &wu.pfs("model")]).ok();
    match reader.read_exact_at(&mut part, 20_000_000) {
        Ok(()) => assert_eq!(part, old[20_000_000..20_004_096]),
        Err(error) => assert_eq!(error.raw_os_error(), Some(116), "{error}"),
    }
    drop(reader);
    assert!(fs::read(&path).unwrap() == new);
}

#[test]
fn other_permissions_do_not_disturb_whoever_reads() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    let content = noise(4, 20_000_000);
    wu.write("file", &content);
    wu.says(&["cp", "file", &wu.pfs("file")]).ok();
    let mounted = Mounted::foreground(&wu, &[]);
    let mut file = File::open(mounted.home(&wu).join("file")).unwrap();
    let mut seen = vec![0; 10];
    file.read_exact(&mut seen).unwrap();
    let on_disk = wu.on_disk(&server).join("file");
    fs::set_permissions(&on_disk, fs::Permissions::from_mode(0o600)).unwrap();
    file.read_to_end(&mut seen).unwrap();
    assert!(seen == content);
}

#[test]
fn the_command_comes_back_when_the_files_are_there_and_says_what_is_wrong() {
    if !has_fuse() {
        return;
    }
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("full/file", "x");
    wu.write("file", "x");
    let full = wu.says(&["mount", "full"]);
    assert!(full.failed(1).contains("the directory is not empty"), "{full:?}");
    assert!(wu.says(&["mount", "none"]).failed(1).contains("No such file"));
    assert!(wu.says(&["mount", "file"]).failed(2).contains("this is no directory"));
    fs::create_dir(wu.work().join("mnt")).unwrap();
    let eve = wu.says(&["mount", "-path", "/pfs/local/home/eve", "mnt"]);
    assert!(eve.failed(1).contains("another user's home"), "{eve:?}");
    assert!(wu.says(&["mount", "-timeout", "0", "mnt"]).failed(2).contains("timeout"));
    wu.says(&["mkdir", &wu.pfs("part/below")]).ok();
    let said = wu.says(&["mount", "-read-only", "-path", &wu.pfs("part"), "mnt"]);
    let mounted = Mounted { directory: wu.work().join("mnt"), process: None };
    assert!(said.ok().is_empty() && said.err.contains("mounted at mnt"), "{said:?}");
    assert!(mounted.directory.join("below").is_dir());
    let refused = fs::write(mounted.directory.join("x"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
    assert!(Command::new("umount").arg(&mounted.directory).status().unwrap().success());
    assert!(wu.says(&["mount", "mnt", "extra"]).failed(2).contains("extra"));
}

#[test]
fn scp_copies_directories_into_a_mount_of_the_machine_that_it_talks_to() {
    let (true, Some(machines)) = (has_fuse(), sshd::machines()) else { return };
    let server = Server::start();
    let wu = Person::new(&server, "wu");
    wu.write("my_training_data_dir/part-00000", noise(1, 3_000_000));
    wu.write("my_training_data_dir/sub/part-00001", noise(2, 10));
    wu.write("my_training_data_dir/empty", "");
    let mounted = Mounted::foreground(&wu, &[]);
    let hosts = machines.hosts(1);
    let (host, port) = hosts.split_once(':').unwrap();
    let target = format!("{host}:{}/", mounted.home(&wu).display());
    let scp = |words: &[&str]| {
        let mut scp = Command::new("scp");
        scp.arg("-q").arg("-F").arg(machines.ssh_config()).args(["-P", port]).args(words);
        let output = scp.current_dir(wu.work()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    scp(&["-r", "my_training_data_dir/", &target]);
    let there = wu.on_disk(&server).join("my_training_data_dir");
    assert_eq!(tree(&there), tree(&wu.work().join("my_training_data_dir")));
    // And back, with times.
    let source = format!("{host}:{}/my_training_data_dir", mounted.home(&wu).display());
    scp(&["-r", "-p", &source, "back"]);
    assert_eq!(tree(&wu.work().join("back")), tree(&there));
}

/// A server whose jobs see their files by a mount, if this machine can do that.
fn mounting() -> Option<Server> {
    if !has_fuse() {
        return None;
    }
    let server = Server::with_config("datacenters: [{name: local, mount: true}]");
    let places: Vec<serde_json::Value> = server.admin().get("/api/v2/datacenters").read();
    match places[0]["notes"] == serde_json::json!([]) {
        true => Some(server),
        false => component::missing("sandbox", &places[0]["notes"].to_string()),
    }
}

/// The processes that show the files of jobs.
fn mounts_of(server: &Server) -> Vec<u32> {
    let place = server.data().join("mounts").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&place)
    };
    numbers.filter(is_ours).collect()
}

#[test]
fn jobs_see_files_by_a_mount_and_get_no_credential() {
    let Some(server) = mounting() else { return };
    let admin = server.admin();
    let (user, _) = (admin.add_user("wu"), admin.add_user("eve"));
    let public = server.data().join("files/local/public/dataset");
    fs::create_dir_all(&public).unwrap();
    fs::write(public.join("part-0"), "data\n").unwrap();
    let script = "cat /pfs/local/public/dataset/part-0 /pfs/public/dataset/part-0\n\
                  echo mine > /pfs/local/home/wu/own && cat /pfs/local/home/wu/own\n\
                  ls /pfs/local/home; id -u; pwd\n\
                  echo x > /pfs/public/x || echo read only\n\
                  env | grep PADDLECLOUD_TOKEN || echo no token\n\
                  mkdir -p out && echo model > out/pass-00000";
    for _ in 0..2 {
        user.submit("job", script);
        user.wait_until("job", contract::state::JobState::Succeeded);
        let log = user.log("job", "trainer-0");
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("train.sh: ")).collect();
        let expected = ["data", "data", "mine", "wu", "200001", "/pfs/local/home/wu/jobs/job"];
        assert_eq!(lines, [&expected[..], &["read only", "no token"]].concat(), "{log}");
    }
    let home = server.data().join("files/local/home/wu");
    assert_eq!(fs::read_to_string(home.join("own")).unwrap(), "mine\n");
    assert_eq!(fs::read_to_string(home.join("jobs/job/out/pass-00000")).unwrap(), "model\n");
    wait_until("the mount to be gone", || mounts_of(&server).is_empty());
    let tokens: Vec<serde_json::Value> = user.get("/api/v2/tokens").read();
    let labels: Vec<&str> = tokens.iter().filter_map(|token| token["label"].as_str()).collect();
    assert!(!labels.iter().any(|label| label.starts_with("files of job")), "{labels:?}");
}

#[test]
fn mounted_files_outlive_the_right_of_their_user_to_log_in() {
    let Some(server) = mounting() else { return };
    let user = server.user("wu");
    let script = "echo begun > /pfs/local/home/wu/begun\n\
                  until [ -e /pfs/local/home/wu/go ]; do sleep 0.1; done\n\
                  echo done > /pfs/local/home/wu/done";
    let uid = user.submit("job", script).uid;
    let home = server.data().join("files/local/home/wu");
    wait_until("the job", || home.join("begun").exists());
    let change = br#"{"password": "another password", "is_enabled": false, "keeps_jobs": true}"#;
    let json = ("Content-Type", "application/json");
    let answer = server.admin().send_with("PATCH", "/api/v2/users/wu", json, change);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(user.get("/api/v2/whoami").status, 401);
    fs::write(home.join("go"), "").unwrap();
    let state = || server.admin().job(&uid).job.state;
    wait_until("the job to succeed", || state() == contract::state::JobState::Succeeded);
    assert_eq!(fs::read_to_string(home.join("done")).unwrap(), "done\n");
    wait_until("the mount to be gone", || mounts_of(&server).is_empty());
}

#[test]
fn mounted_files_outlive_the_server_and_their_loss_ends_the_job() {
    let Some(mut server) = mounting() else { return };
    let user = server.user("wu");
    let script = "echo begun > /pfs/local/home/wu/begun\n\
                  until [ -e /pfs/local/home/wu/go ]; do sleep 0.1; done\n\
                  echo done > /pfs/local/home/wu/done";
    user.submit("job", script);
    let home = server.data().join("files/local/home/wu");
    wait_until("the job", || home.join("begun").exists());
    server.kill();
    // Under another address.
    server.restart();
    let user = user.at(&server);
    fs::write(home.join("go"), "").unwrap();
    user.wait_until("job", contract::state::JobState::Succeeded);
    assert_eq!(fs::read_to_string(home.join("done")).unwrap(), "done\n");
    wait_until("the mount to be gone", || mounts_of(&server).is_empty());

    user.submit("lost", "echo begun > /pfs/local/home/wu/again; sleep 600");
    wait_until("the job", || home.join("again").exists());
    for pid in mounts_of(&server) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    wait_until("the end", || user.job("lost").job.state == contract::state::JobState::Failed);
    assert!(user.why("lost").contains("its files are gone"), "{}", user.why("lost"));
}
