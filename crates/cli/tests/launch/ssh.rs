//! The suite on ssh hosts, and what only these promise: packages that arrive, results that come
//! back, and errors that name the host.

use super::job::{Ended, Harness, Job, processes_with, signal, spawn, wait_until};
use super::sshd::{Machines, machines};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `paddle launch --hosts` in workspaces that are on the hosts already.
struct Ssh(&'static Machines);

impl Ssh {
    /// The workspace has the folder in its name, by which everything of a job is found.
    fn relative(folder: &Path) -> &Path {
        folder.strip_prefix("/").unwrap()
    }

    fn base(&self, count: u32) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
        command.args(["launch", "--port=0", "--hosts", &self.0.hosts(count)]);
        command.arg("--ssh_config").arg(self.0.ssh_config());
        command
    }
}

impl Harness for Ssh {
    fn prepare(&self, folder: &Path, count: u32) {
        for rank in 0..count {
            fs::create_dir_all(self.workspace(folder, rank)).unwrap();
        }
    }

    fn launch(&self, folder: &Path, count: u32) -> Command {
        let mut command = self.base(count);
        command.arg(format!("--job_workspace=~/{}", Ssh::relative(folder).display()));
        command
    }

    fn workspace(&self, folder: &Path, rank: u32) -> PathBuf {
        self.0.home(rank).join(Ssh::relative(folder))
    }

    fn trainer_log(&self, folder: &Path, rank: u32) -> PathBuf {
        folder.join(format!("log/{rank}/train.log"))
    }

    fn many(&self) -> u32 {
        super::sshd::MACHINES
    }
}

mod suite {
    crate::launch::trials::suite!(match super::machines() {
        Some(machines) => super::Ssh(machines),
        None => return,
    });
}

/// A package that is copied, for jobs of two hosts.
struct Dispatch {
    ssh: Ssh,
    folder: tempfile::TempDir,
}

impl Dispatch {
    fn new(machines: &'static Machines) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("package/data")).unwrap();
        fs::write(folder.path().join("package/data/part 0"), "0\n").unwrap();
        fs::write(folder.path().join("package/train.list"), "a\nb\nc\n").unwrap();
        std::os::unix::fs::symlink("data/part 0", folder.path().join("package/link")).unwrap();
        Dispatch { ssh: Ssh(machines), folder }
    }

    fn package(&self) -> PathBuf {
        self.folder.path().join("package")
    }

    /// Where jobs of this test are on a host.
    fn root(&self, node: u32) -> PathBuf {
        self.ssh.workspace(self.folder.path(), node)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.ssh.base(2);
        command.args(["--job_dispatch_package", "package"]).args(flags);
        command.arg(format!("--root_dir=~/{}", Ssh::relative(self.folder.path()).display()));
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, flags: &[&str], program: &[&str]) -> Ended {
        let mut command = self.command(flags);
        command.arg("--").args(program);
        self.finish(command)
    }

    fn finish(&self, command: Command) -> Ended {
        let output = spawn(command).wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let marker = self.folder.path().to_str().unwrap();
        wait_until("no process is left", || processes_with(marker).is_empty());
        let code = output.status.code().unwrap();
        Ended { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The only job directory on a host.
    fn job(&self, node: u32) -> PathBuf {
        let is_job =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("JOB");
        let entries = fs::read_dir(self.root(node)).unwrap().flatten().map(|entry| entry.path());
        let mut jobs: Vec<_> = entries.filter(is_job).collect();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    fn mirror(&self, node: u32) -> PathBuf {
        let mirrors = fs::read_dir(self.root(node).join(".paddle_packages")).unwrap().flatten();
        mirrors.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap()
    }
}

#[test]
fn a_package_arrives_complete_and_results_come_back() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let script = "cat nodefile trainer_id trainer_count link; cat train.list | tr '\\n' ' '; \
                  mkdir -p output/pass-00000; echo $PADDLE_TRAINER_ID > output/pass-00000/model; \
                  ln -s /etc/hostname output/outside";
    let ended = dispatch.run(&["--shard_train_list"], &["sh", "-c", script]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let here = |path: &str| fs::read_to_string(dispatch.folder.path().join(path)).unwrap();
    assert_eq!(here("log/0/train.log"), "0\n0\n2\n0\na c ");
    assert_eq!(here("log/1/train.log"), "1\n1\n2\n0\nb ");
    assert_eq!(here("log/1/paddle_trainer.INFO"), here("log/1/train.log"));
    assert!(here("log/0/server.log").contains("paddle_ready"));
    assert!(here("log/0/paddle_pserver2.INFO").contains("listening"));
    // The output of the first host alone, without what leads out of it.
    assert_eq!(here("output/pass-00000/model"), "0\n");
    assert!(!dispatch.folder.path().join("output/outside").exists());
    assert!(ended.stderr.contains("not brought here"), "{ended:?}");
    let whole = fs::read_to_string(dispatch.job(1).join("train.list.all")).unwrap();
    assert_eq!(whole, "a\nb\nc\n");
}

#[test]
fn only_what_changed_is_sent_again_and_what_was_damaged_is_repaired() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let large = vec![b'x'; 3 << 20];
    fs::write(dispatch.package().join("large"), &large).unwrap();
    assert_eq!(dispatch.run(&[], &["true"]).code, 0);
    let inode = |node| {
        let file = fs::metadata(dispatch.mirror(node).join("large")).unwrap();
        std::os::unix::fs::MetadataExt::ino(&file)
    };
    let before = [inode(0), inode(1)];
    for node in 0..2 {
        fs::remove_dir_all(dispatch.job(node)).unwrap();
        fs::write(dispatch.mirror(node).join("train.list"), "damaged").unwrap();
        fs::write(dispatch.mirror(node).join("stranger"), "").unwrap();
    }
    fs::write(dispatch.package().join("new"), "new\n").unwrap();
    fs::remove_file(dispatch.package().join("link")).unwrap();
    let script = "cat new train.list; ls; cmp large $0/package/large";
    let folder = dispatch.folder.path().to_str().unwrap();
    let ended = dispatch.run(&[], &["sh", "-c", script, folder]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for node in 0..2 {
        let log = dispatch.folder.path().join(format!("log/{node}/train.log"));
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(
            log,
            "new\na\nb\nc\ndata\nlarge\nlog\nnew\nnodefile\nsupervisor.lock\ntrain.list\ntrainer_count\ntrainer_id\n"
        );
    }
    assert_eq!([inode(0), inode(1)], before, "the large file was not written again");
}

#[test]
fn the_documented_command_line_runs_the_package_with_its_flags() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let program = "import os, sys\nprint(sys.argv[1:], os.environ['PADDLE_INIT_TRAINER_COUNT'], \
                   os.environ['LD_LIBRARY_PATH'], os.environ['PADDLE_INIT_PORTS_NUM'])\n";
    fs::write(dispatch.package().join("train.py"), program).unwrap();
    let hosts: Vec<String> =
        machines.hosts(2).split(',').map(|host| format!("    \"{host}\",\n")).collect();
    let root = format!("~/{}", Ssh::relative(dispatch.folder.path()).display());
    let conf = format!(
        "HOSTS = [\n{}]\n'''\nnetwork\n'''\nROOT_DIR = \"{root}\"\nPADDLE_NIC = \"lo\"\n\
         PADDLE_PORT = 0\nPADDLE_PORTS_NUM = 2\nLD_LIBRARY_PATH=\"/opt/lib\"\n",
        hosts.concat()
    );
    fs::write(dispatch.folder.path().join("conf.py"), conf).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.args(["launch", "--conf", "conf.py", "--job_dispatch_package=package", "--ssh_config"]);
    command.arg(machines.ssh_config());
    command.args(["--dot_period=10", "--trainer_count=4", "--show_layer_stat"]);
    command.current_dir(dispatch.folder.path());
    let ended = dispatch.finish(command);
    assert_eq!(ended.code, 0, "{ended:?}");
    let expected =
        "trainer-1 | ['--dot_period=10', '--trainer_count=4', '--show_layer_stat'] 4 /opt/lib 2\n";
    assert!(ended.stdout.contains(expected), "{ended:?}");
}

#[test]
fn a_host_that_cannot_be_reached_fails_the_launch_before_anything_starts() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let dead = "127.0.0.1:1";
    let hosts = format!("{},{dead}", machines.hosts(1));
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
    command.args(["launch", "--hosts", &hosts, "--job_dispatch_package=package", "--ssh_config"]);
    command.arg(machines.ssh_config());
    command.arg(format!("--root_dir=~/{}", Ssh::relative(dispatch.folder.path()).display()));
    command.args(["--", "true"]).current_dir(dispatch.folder.path());
    let ended = dispatch.finish(command);
    assert_eq!(ended.code, 1, "{ended:?}");
    let words = format!("cannot reach this host (host: {dead}, said: ssh: connect to host");
    assert!(ended.stderr.contains(&words), "{ended:?}");
    assert!(ended.stderr.contains("Connection refused"), "{ended:?}");
    assert!(!dispatch.root(0).exists(), "nothing was made on the host that could be reached");
}

#[test]
fn a_host_without_paddle_or_interface_is_named_with_the_fix() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let ended = dispatch.run(&["--remote_paddle=/opt/none/paddle"], &["true"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("name it with --remote_paddle (host: 127.0.0.1:"), "{ended:?}");
    let ended = dispatch.run(&["--nics=none0"], &["true"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("no such network interface"), "{ended:?}");
}

#[test]
fn hosts_that_share_a_root_are_noticed() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let root = format!("--root_dir={}", dispatch.root(0).display());
    let mut command = dispatch.ssh.base(2);
    command.args(["--job_dispatch_package=package", &root, "--", "true"]);
    command.current_dir(dispatch.folder.path());
    let ended = dispatch.finish(command);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("hosts must not share ROOT_DIR"), "{ended:?}");
}

#[test]
fn a_package_that_leads_out_of_itself_is_refused() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    std::os::unix::fs::symlink("/etc/passwd", dispatch.package().join("data/secret")).unwrap();
    let ended = dispatch.run(&[], &["true"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("path: data/secret, target: /etc/passwd"), "{ended:?}");
}

#[test]
fn leftovers_of_one_job_are_killed_and_nothing_else() {
    let Some(machines) = machines() else { return };
    let ssh = Ssh(machines);
    let kept = Job::new(&ssh, 1);
    let script = "touch started; exec sleep 1000";
    let other = kept.start(&[], script);
    kept.await_file(0, "started");
    let job = Job::new(&ssh, 1);
    let launch = job.start(&[], script);
    job.await_file(0, "started");
    let mut kill = Command::new(env!("CARGO_BIN_EXE_paddle"));
    kill.args(["kill", "--hosts", &machines.hosts(2), "--ssh_config"]).arg(machines.ssh_config());
    kill.arg(format!("--job=~/{}", Ssh::relative(job.folder()).display()));
    // The second host has no such job.
    fs::create_dir_all(ssh.workspace(job.folder(), 1)).unwrap();
    let output = kill.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].ends_with(ssh.workspace(job.folder(), 0).to_str().unwrap()), "{shown}");
    assert!(lines[1].ends_with(": nothing ran"), "{shown}");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 1, "the launcher notices: {ended:?}");
    assert!(!processes_with(kept.folder().to_str().unwrap()).is_empty(), "the other job goes on");
    signal(other.id(), "TERM");
    assert_eq!(kept.finish(other).code, 143);
}

#[test]
fn a_program_can_be_found_beside_a_paddle_that_is_not_in_the_path() {
    let Some(machines) = machines() else { return };
    let ssh = Ssh(machines);
    let job = Job::new(&ssh, 1);
    let bin = job.folder().join("venv/bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_paddle"), bin.join("paddle")).unwrap();
    super::sshd::write_script(&bin.join("my-python"), "#!/bin/sh\necho beside\n");
    let flag = format!("--remote_paddle={}/paddle", bin.display());
    let ended = job.finish(spawn(job.command(&[&flag], &["my-python"])));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.log(0), b"beside\n");
}
