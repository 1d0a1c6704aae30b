//! On ssh hosts: packages that arrive, results that come back, documented command lines, and errors
//! that name the host.

use super::job::{Ended, Job, signal, spawn, wait_until};
use super::processes::processes_with;
use super::sshd::{Machines, machines};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the things of a test are on a host: its folder is in the path, by which everything is
/// found.
fn relative(folder: &Path) -> String {
    format!("~/{}", folder.strip_prefix("/").unwrap().display())
}

fn on_host(machines: &Machines, node: u32, folder: &Path) -> PathBuf {
    machines.home(node).join(folder.strip_prefix("/").unwrap())
}

/// A package that is copied, for jobs of two hosts.
struct Dispatch {
    machines: &'static Machines,
    job: Job,
}

impl Dispatch {
    fn new(machines: &'static Machines) -> Self {
        let job = Job::new();
        job.write("package/data/part 0", "0\n");
        job.write("package/train.list", "a\nb\nc\n");
        let link = job.folder().join("package/link");
        std::os::unix::fs::symlink("data/part 0", link).unwrap();
        Dispatch { machines, job }
    }

    fn package(&self) -> PathBuf {
        self.job.folder().join("package")
    }

    /// Where jobs of this test are on a host.
    fn root(&self, node: u32) -> PathBuf {
        on_host(self.machines, node, self.job.folder())
    }

    /// `paddle launch` on hosts.
    fn on(&self, hosts: &str) -> Command {
        let mut command = self.job.paddle(&["launch", "--allow-idle", "--hosts", hosts]);
        command.arg("--ssh_config").arg(self.machines.ssh_config());
        command.arg("--job_dispatch_package=package");
        command.arg(format!("--root_dir={}", relative(self.job.folder())));
        command
    }

    fn run(&self, flags: &[&str], program: &[&str]) -> Ended {
        let mut command = self.on(&self.machines.hosts(2));
        command.arg("--port=0").args(flags).args(program);
        self.job.run_to_the_end(command)
    }

    /// The only job directory on a host.
    fn directory(&self, node: u32) -> PathBuf {
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
    let here = |path: &str| dispatch.job.read(path);
    assert_eq!(here("log/0/train.log"), "0\n0\n2\n0\na c ");
    assert_eq!(here("log/1/train.log"), "1\n1\n2\n0\nb ");
    assert_eq!(here("log/1/paddle_trainer.INFO"), here("log/1/train.log"));
    assert!(here("log/0/server.log").contains("paddle_ready"));
    assert!(here("log/0/paddle_pserver2.INFO").contains("listening"));
    // The output of the first host alone, without what leads out of it.
    assert_eq!(here("output/pass-00000/model"), "0\n");
    assert!(!dispatch.job.folder().join("output/outside").exists());
    assert!(ended.stderr.contains("not brought here"), "{ended:?}");
    let whole = fs::read_to_string(dispatch.directory(1).join("train.list.all")).unwrap();
    assert_eq!(whole, "a\nb\nc\n");
}

#[test]
fn logs_inside_the_package_keep_only_themselves_here() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    dispatch.job.write("package/data/log/0/old", "");
    dispatch.job.write("package/log/part", "");
    let ended =
        dispatch.run(&["--log_dir=./data/log"], &["sh", "-c", "find data log -type f | sort"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let log = dispatch.job.read("data/log/1/train.log");
    let sent: Vec<_> = log.lines().filter(|path| !path.starts_with("data/log/")).collect();
    assert_eq!(sent, ["data/part 0", "log/part"]);
    assert!(!log.contains("old"), "{log}");
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
        fs::remove_dir_all(dispatch.directory(node)).unwrap();
        fs::write(dispatch.mirror(node).join("train.list"), "damaged").unwrap();
        fs::write(dispatch.mirror(node).join("stranger"), "").unwrap();
    }
    fs::write(dispatch.package().join("new"), "new\n").unwrap();
    fs::remove_file(dispatch.package().join("link")).unwrap();
    let script = "cat new train.list; ls | grep -v ^supervisor; cmp large $0/package/large";
    let folder = dispatch.job.folder().to_str().unwrap();
    let ended = dispatch.run(&[], &["sh", "-c", script, folder]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for node in 0..2 {
        let log = dispatch.job.folder().join(format!("log/{node}/train.log"));
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(
            log,
            "new\na\nb\nc\ndata\nlarge\nlog\nnew\nnodefile\ntrain.list\ntrainer_count\ntrainer_id\n"
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
    let root = relative(dispatch.job.folder());
    let conf = format!(
        "HOSTS = [\n{}]\n'''\nnetwork\n'''\nROOT_DIR = \"{root}\"\nPADDLE_NIC = \"lo\"\n\
         PADDLE_PORT = 0\nPADDLE_PORTS_NUM = 2\nLD_LIBRARY_PATH=\"/opt/lib\"\n",
        hosts.concat()
    );
    fs::write(dispatch.job.folder().join("conf.py"), conf).unwrap();
    let arguments = ["launch", "--conf", "conf.py", "--job_dispatch_package=package"];
    let mut command = dispatch.job.paddle(&arguments);
    command.arg("--ssh_config").arg(machines.ssh_config());
    command.args(["--dot_period=10", "--trainer_count=4", "--show_layer_stat", "--allow-idle"]);
    let ended = dispatch.job.run_to_the_end(command);
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
    let mut command = dispatch.on(&hosts);
    command.arg("true");
    let ended = dispatch.job.run_to_the_end(command);
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
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("no such network interface"), "{ended:?}");
}

#[test]
fn hosts_that_share_a_root_are_noticed() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let mut command = dispatch.job.paddle(&["launch", "--port=0", "--hosts", &machines.hosts(2)]);
    command.arg("--ssh_config").arg(machines.ssh_config());
    command.arg(format!("--root_dir={}", dispatch.root(0).display()));
    command.args(["--job_dispatch_package=package", "true"]);
    let ended = dispatch.job.run_to_the_end(command);
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

/// A launch on one host, in a workspace that is there already.
fn in_workspace(machines: &Machines, job: &Job) -> Command {
    fs::create_dir_all(on_host(machines, 0, job.folder())).unwrap();
    let mut command = job.paddle(&["launch", "--allow-idle", "--port=0"]);
    command.args(["--hosts", &machines.hosts(1), "--ssh_config"]).arg(machines.ssh_config());
    command.arg(format!("--job_workspace={}", relative(job.folder())));
    command
}

/// The workspace is the user's, whatever directory is named for logs.
#[test]
fn a_workspace_keeps_what_no_job_has_written() {
    let Some(machines) = machines() else { return };
    let job = Job::new();
    let mut command = in_workspace(machines, &job);
    let workspace = on_host(machines, 0, job.folder());
    for folder in [workspace.join("data"), job.folder().join("data/0")] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("precious"), "kept").unwrap();
        fs::write(folder.join("trainer-7.log"), "of an earlier job").unwrap();
    }
    command.args(["--log_dir=data", "sh", "-c", "echo new; cat data/precious"]);
    let ended = job.run_to_the_end(command);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.read("data/0/train.log"), "new\nkept");
    for folder in [workspace.join("data"), job.folder().join("data/0")] {
        assert_eq!(fs::read_to_string(folder.join("precious")).unwrap(), "kept");
        assert!(!folder.join("trainer-7.log").exists());
    }
    fs::write(workspace.join("notes"), "kept").unwrap();
    for log_dir in ["--log_dir=.", "--log_dir=notes"] {
        let mut command = in_workspace(machines, &job);
        command.args([log_dir, "true"]);
        let ended = job.run_to_the_end(command);
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains("log_dir"), "{ended:?}");
        assert_eq!(fs::read_to_string(workspace.join("notes")).unwrap(), "kept");
    }
}

#[test]
fn a_second_job_leaves_the_workspace_of_a_running_one_alone() {
    let Some(machines) = machines() else { return };
    let job = Job::new();
    let workspace = on_host(machines, 0, job.folder());
    let mut command = in_workspace(machines, &job);
    command.args(["sh", "-c", "echo first; touch started; until [ -e go ]; do sleep 0.1; done"]);
    let first = spawn(command);
    wait_until("the first job runs", || workspace.join("started").exists());
    let mut command = in_workspace(machines, &job);
    job.write("elsewhere/note", "");
    command.args(["--workspace=elsewhere", "--trainers=2", "true"]);
    let second = job.run(command);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains("a job is running here"), "{second:?}");
    assert_eq!(fs::read_to_string(workspace.join("trainer_count")).unwrap(), "1\n");
    fs::write(workspace.join("go"), "").unwrap();
    let ended = job.finish(first);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.read("log/0/train.log"), "first\n");
}

#[test]
fn leftovers_of_one_job_are_killed_and_nothing_else() {
    let Some(machines) = machines() else { return };
    let start = |job: &Job| {
        let mut command = in_workspace(machines, job);
        command.args(["sh", "-c", "touch started; exec sleep 1000"]);
        let launch = spawn(command);
        let started = on_host(machines, 0, job.folder()).join("started");
        super::job::wait_until("the trainer runs", || started.exists());
        launch
    };
    let (kept, job) = (Job::new(), Job::new());
    let (other, launch) = (start(&kept), start(&job));
    let mut kill = job.paddle(&["kill", "--hosts", &machines.hosts(2), "--ssh_config"]);
    kill.arg(machines.ssh_config()).arg(format!("--job={}", relative(job.folder())));
    // The second host has no such job.
    fs::create_dir_all(on_host(machines, 1, job.folder())).unwrap();
    let killed = job.run(kill);
    assert_eq!(killed.code, 0, "{killed:?}");
    let lines: Vec<&str> = killed.stdout.lines().collect();
    let place = on_host(machines, 0, job.folder());
    assert!(lines[0].ends_with(place.to_str().unwrap()), "{killed:?}");
    assert!(lines[1].ends_with(": nothing ran"), "{killed:?}");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 1, "the launcher notices: {ended:?}");
    assert!(!processes_with(kept.folder().to_str().unwrap()).is_empty(), "the other job goes on");
    signal(other.id(), "TERM");
    assert_eq!(kept.finish(other).code, 143);
}

#[test]
fn what_other_hosts_have_is_brought_when_one_stays_away() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let (job, folder) = (&dispatch.job, dispatch.job.folder().to_str().unwrap().to_owned());
    let paddle = env!("CARGO_BIN_EXE_paddle");
    // Host 1 cannot be reached any more once the file is there.
    let wrapper = job.folder().join("paddle");
    let text = format!(
        "#!/bin/sh\n[ ! -e {folder}/broken-$(basename $HOME) ] || exit 255\nexec {paddle} \"$@\"\n"
    );
    super::job::write_script(&wrapper, &text);
    let mut command = dispatch.on(&machines.hosts(2));
    command.args(["--pservers=0", "--restarts=1", "--ready_timeout=2"]);
    command.arg(format!("--remote_paddle={}", wrapper.display()));
    let script = "echo result $PADDLE_TRAINER_ID; touch $0/started-$PADDLE_TRAINER_ID; \
                  exec sleep 1000";
    let launch = spawn({
        command.args(["sh", "-c", script, &folder]);
        command
    });
    (0..2).for_each(|rank| job.await_file(&format!("started-{rank}")));
    job.write("broken-home-1", "");
    let hosts = machines.hosts(2);
    let second = hosts.split(',').nth(1).unwrap();
    let mut kill = job.paddle(&["kill", "--hosts", second]);
    kill.arg("--ssh_config").arg(machines.ssh_config());
    kill.arg(format!("--root_dir={}", relative(job.folder())));
    assert_eq!(job.run(kill).code, 0);
    let ended = job.finish(launch);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(job.read("log/0/train.log"), "result 0\n");
    assert!(ended.stderr.contains("results stay in"), "{ended:?}");
}

#[test]
fn a_program_can_be_found_beside_a_paddle_that_is_not_in_the_path() {
    let Some(machines) = machines() else { return };
    let job = Job::new();
    let bin = job.folder().join("venv/bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_paddle"), bin.join("paddle")).unwrap();
    super::job::write_script(&bin.join("my-python"), "#!/bin/sh\necho beside\n");
    let mut command = in_workspace(machines, &job);
    command.arg(format!("--remote_paddle={}/paddle", bin.display())).arg("my-python");
    let ended = job.run_to_the_end(command);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.read("log/0/train.log"), "beside\n");
}

#[test]
fn a_detached_job_on_hosts_ends_by_itself_and_brings_its_results() {
    let Some(machines) = machines() else { return };
    let dispatch = Dispatch::new(machines);
    let mut command = dispatch.on(&machines.hosts(2));
    let script =
        "echo $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM; mkdir -p output; echo m > output/model";
    command.args(["--detach", "--port=0", "--trainers=3", "--pservers=1", "sh", "-c", script]);
    let detached = dispatch.job.run(command);
    assert_eq!(detached.code, 0, "{detached:?}");
    let attach = dispatch.job.paddle(&["attach", detached.stdout.trim()]);
    let ended = dispatch.job.run_to_the_end(attach);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(dispatch.job.read("log/1/train.log"), "1 of 3\n");
    assert_eq!(dispatch.job.read("log/0/trainer-2.log"), "2 of 3\n");
    assert_eq!(dispatch.job.read("output/model"), "m\n");
}
