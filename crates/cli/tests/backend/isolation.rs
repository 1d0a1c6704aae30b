//! Jobs of users who are not trusted: what they try from inside their sandbox, and what is left of
//! them. Here a trial is a program of the job, which says what it could do.

use super::job::{Job, signal};
use super::places::{Sandboxed, USER};
use super::processes::processes_with;
use contract::Kind;
use contract::job::Resources;
use contract::quantity::Quantity;
use contract::state::JobState;
use scheduler::Backend;
use scheduler::submission::{CLOUD, Mount, Place, RunAs, Sandbox};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// A job of one trainer, or nothing where there can be no sandbox.
fn job(script: &str) -> Option<Job<'static>> {
    Sandboxed::find()?;
    let job = Job::new(&Sandboxed, 1, script).with(|spec| spec.pservers = 0);
    // Everybody may enter the folder of the test; what is in it has modes of its own.
    fs::set_permissions(job.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(job)
}

fn sandbox<'a>(job: &'a mut Job<'static>) -> &'a mut Sandbox {
    let Place::Local(place) = &mut job.submission.place else { panic!("not local") };
    place.sandbox.as_mut().unwrap()
}

/// A directory of the test, with an owner.
fn directory(path: PathBuf, owner: RunAs) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    chown(&path, Some(owner.uid), Some(owner.gid)).unwrap();
    path
}

const ROOT: RunAs = RunAs { uid: 0, gid: 0 };
const OTHER: RunAs = RunAs { uid: 56_790, gid: 56_790 };

fn mount(source: &Path, target: &str, is_read_only: bool) -> Mount {
    Mount { source: source.to_owned(), target: target.into(), is_read_only }
}

/// Commands that must fail, each on a line. What one of them prints is in the log.
fn forbid(commands: &[String]) -> String {
    let attempt = |command: &String| {
        format!(
            "if ({command}) 2>/dev/null; then echo \"DONE: {}\"; fi\n",
            command.replace('"', "'")
        )
    };
    format!("{}\necho tried", commands.iter().map(attempt).collect::<String>())
}

#[test]
fn a_program_of_v1_finds_and_writes_its_files_at_the_top() {
    let script = "cat /trainer_id /trainer_count; echo part-0 > /train.list; cat /train.list; \
                  mkdir /own && touch /own/file /etc/own 2>/dev/null; ls /own; id -u; id -g; id -G; \
                  pwd; echo model > model; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status";
    let Some(job) = job(script) else { return };
    job.succeed();
    let package = job.harness.package(job.folder());
    let expected = format!(
        "0\n1\npart-0\nfile\n56789\n56789\n56789\n{package}\n\
         CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n"
    );
    assert_eq!(job.text("trainer-0"), expected);
    assert_eq!(job.file(0, "model"), b"model\n");
    assert!(!Path::new("/train.list").exists() && !Path::new("/own").exists());
    let left: Vec<_> = walk(&job.directory().join("machine"));
    assert!(!left.iter().any(|path| path.ends_with("train.list")), "{left:?}");
}

fn walk(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.flat_map(|entry| [walk(&entry.path()), vec![entry.path()]].concat()).collect()
}

#[test]
fn the_log_begins_as_in_the_original() {
    let Some(job) = job("echo hello") else { return };
    let mut job = job.with(|spec| (spec.pservers, spec.trainers) = (2, 1));
    job.submission.origin = CLOUD.to_owned();
    job.succeed();
    let package = job.harness.package(job.folder());
    let expected = format!(
        "label selector: paddle-job-pserver=job, desired: 2\n\
         running pod list:  [('Running', '127.0.0.1'), ('Running', '127.0.0.1')]\n\
         label selector: paddle-job=job, desired: 1\n\
         running pod list:  [('Running', '127.0.0.1')]\n\
         Starting training job:  {package}, num_gradient_servers: 1, trainer_id:  0, version:  v2\n\
         hello\n"
    );
    assert_eq!(String::from_utf8(job.log("trainer-0")).unwrap(), expected);
    let log = Path::new(&package).join("log/trainer-0.log");
    assert_eq!(fs::read_to_string(log).unwrap(), expected);
}

#[test]
fn mounts_are_seen_and_nothing_else_is_below_pfs() {
    let Some(mut job) = job("find /pfs | sort; cat /pfs/dc/home/wuyi/data /pfs/public/data; \
         touch /pfs/dc/home/wuyi/mine; touch /pfs/public/mine || echo read-only; \
         touch /pfs/mine || echo not writable")
    else {
        return;
    };
    let home = directory(job.folder().join("data/home"), USER);
    let public = directory(job.folder().join("data/public"), ROOT);
    for (folder, text) in [(&home, "own\n"), (&public, "public\n")] {
        fs::write(folder.join("data"), text).unwrap();
    }
    fs::set_permissions(&public, fs::Permissions::from_mode(0o777)).unwrap();
    let data = job.folder().join("data");
    job.submission.mounts =
        vec![mount(&home, "/pfs/dc/home/wuyi", false), mount(&public, "/pfs/public", true)];
    sandbox(&mut job).hidden.push(data);
    job.succeed();
    let expected = "/pfs\n/pfs/dc\n/pfs/dc/home\n/pfs/dc/home/wuyi\n/pfs/dc/home/wuyi/data\n\
                    /pfs/public\n/pfs/public/data\nown\npublic\n";
    let text = job.text("trainer-0");
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("read-only\n") && text.contains("not writable\n"), "{text}");
    assert!(home.join("mine").exists() && !public.join("mine").exists());
}

/// A package may be given by the path at which replicas see it.
#[test]
fn a_package_in_a_mount_runs_at_the_path_of_the_mount() {
    let Some(mut job) = job("pwd; echo $TRAINER_PACKAGE; mkdir -p output; echo 1 > output/model")
    else {
        return;
    };
    let home = directory(job.folder().join("data/home"), USER);
    directory(home.join("jobs"), USER);
    let package = directory(home.join("jobs/ctr"), USER);
    job.submission.mounts = vec![mount(&home, "/pfs/dc/home/wuyi", false)];
    let seen = "/pfs/dc/home/wuyi/jobs/ctr";
    job.submission.package = scheduler::submission::Package::Present(seen.to_owned());
    job.succeed();
    assert_eq!(job.text("trainer-0"), format!("{seen}\n{seen}\n"));
    assert_eq!(fs::read(package.join("output/model")).unwrap(), b"1\n");
    assert!(fs::read_to_string(package.join("log/trainer-0.log")).unwrap().contains(seen));
}

#[test]
fn what_belongs_to_others_cannot_be_reached() {
    let Some(job) = job("true") else { return };
    let mut job = job;
    let folder = job.folder().to_owned();
    let data = directory(folder.join("server"), ROOT);
    fs::write(data.join("database"), "secret").unwrap();
    let foreign = directory(folder.join("homes/other"), OTHER);
    fs::write(foreign.join("diary"), "secret").unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).unwrap();
    let mine = directory(folder.join("homes/mine"), USER);
    symlink(data.join("database"), mine.join("link")).unwrap();
    let closed = directory(folder.join("closed"), ROOT);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let way_out = Path::new("../../../../..").join(closed.strip_prefix("/").unwrap());
    symlink(way_out, mine.join("way-out")).unwrap();
    symlink("/proc/1/root", mine.join("first-root")).unwrap();
    let mut server = std::process::Command::new("sleep")
        .arg("1000")
        .env("SERVER_SECRET", format!("very-secret-{}", std::process::id()))
        .spawn()
        .unwrap();
    let pid = server.id();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let jobs = text(&job.jobs.root);
    let commands = [
        format!("cat {}/database", text(&data)),
        format!("ls {} | grep -q .", text(&data)),
        format!("cat {}/diary", text(&foreign)),
        format!("ls {}", text(&foreign)),
        "cat /home-of-mine/link".to_owned(),
        "ls /home-of-mine/way-out/".to_owned(),
        "ls /home-of-mine/first-root/".to_owned(),
        format!("ls {}", text(&closed)),
        "cat /etc/shadow".to_owned(),
        format!("ls {jobs} | grep -q ."),
        format!("cat {jobs}/job-1/submission.json"),
        format!("cat {jobs}/job-1/state.json"),
        // Processes of others, and of the conductor.
        format!("cat /proc/{pid}/environ"),
        format!("kill -0 {pid}"),
        "cat /proc/1/environ".to_owned(),
        "cat /proc/1/cmdline | grep -q .".to_owned(),
        "ls /proc/1/root/".to_owned(),
        "kill -9 1".to_owned(),
        "grep -aq very-secre[t] /proc/[0-9]*/environ".to_owned(),
        "ls -d /proc/[0-9]* | grep -v self | wc -l | grep -q ...".to_owned(),
        // More rights.
        "mount -t tmpfs none /mnt".to_owned(),
        "umount /pfs".to_owned(),
        "umount -l /proc".to_owned(),
        "mknod /tmp/disk b 254 0".to_owned(),
        "chroot / true".to_owned(),
        "python3 -c 'import os; os.setuid(0)'".to_owned(),
        "python3 -c 'import os; os.setgroups([0])'".to_owned(),
        "/own/suid-id -u | grep -qx 0".to_owned(),
        "chown 0 /trainer_id".to_owned(),
        "touch /etc/passwd".to_owned(),
        "touch /usr/bin/own".to_owned(),
        "echo 1 > /proc/sys/kernel/panic".to_owned(),
        "echo 1 > /proc/sysrq-trigger".to_owned(),
        "touch /sys/own; echo 1 > /sys/kernel/mm/ksm/run".to_owned(),
        "ls /dev/vda /dev/sda /dev/mem /dev/kmsg /dev/tty | grep -q .".to_owned(),
        "cat /dev/kmsg".to_owned(),
        // The other side of the wall, through a namespace of its own.
        format!("unshare -Urm sh -c 'umount -l {}; cat {}/database'", text(&data), text(&data)),
    ];
    let suid = directory(folder.join("suid"), ROOT);
    fs::copy("/usr/bin/id", suid.join("suid-id")).unwrap();
    fs::set_permissions(suid.join("suid-id"), fs::Permissions::from_mode(0o4755)).unwrap();
    job.submission.mounts = vec![mount(&mine, "/home-of-mine", false), mount(&suid, "/own", true)];
    sandbox(&mut job).hidden.push(data);
    let script = forbid(&commands);
    let job = job.with(|spec| spec.program = ["sh", "-c", &script].map(str::to_owned).to_vec());
    let record = job.run();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert_eq!(job.text("trainer-0"), "tried\n");
}

/// Two jobs of two users at one time.
#[test]
fn jobs_do_not_see_each_other() {
    let waiting = "echo secret > /tmp/own; echo secret > /dev/shm/own; touch started; \
                   exec sleep 1000";
    let Some(mut first) = job(waiting) else { return };
    first.submission.token = contract::secret::Secret::new("first-token-".repeat(4));
    first.submit().await_file(0, "started");
    let script = forbid(&[
        "ls /tmp/own".to_owned(),
        "ls /dev/shm/own".to_owned(),
        "ls /run/*".to_owned(),
        "grep -al first-toke[n] /proc/[0-9]*/environ".to_owned(),
        "grep -al slee[p] /proc/[0-9]*/cmdline".to_owned(),
        format!("ls {} | grep -q .", first.folder().join("package").display()),
    ]);
    let mut second = job(&script).unwrap();
    second.submission.run_as = Some(OTHER);
    let hidden = first.folder().join("package");
    sandbox(&mut second).hidden.push(hidden);
    chown(second.folder().join("package"), Some(OTHER.uid), Some(OTHER.gid)).unwrap();
    second.succeed();
    assert_eq!(second.text("trainer-0"), "tried\n");
}

#[test]
fn an_exposed_directory_is_read_below_one_that_is_closed_and_the_rest_is_not() {
    let Some(mut job) = job("true") else { return };
    let folder = job.folder().to_owned();
    let closed = directory(folder.join("closed"), ROOT);
    directory(closed.join("python/lib"), ROOT);
    fs::write(closed.join("python/lib/module"), "code\n").unwrap();
    fs::write(closed.join("key"), "secret\n").unwrap();
    // As uv makes them: the name of a release is a link to that of its newest version.
    symlink("python", closed.join("release")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox(&mut job).exposed.extend([closed.join("python"), closed.join("release")]);
    let at = closed.display();
    let script = format!(
        "cat {at}/python/lib/module {at}/release/lib/module; ls {at}; \
         touch {at}/python/own || echo read-only; touch {at}/own || echo closed"
    );
    let job = job.with(|spec| spec.program = ["sh", "-c", &script].map(str::to_owned).to_vec());
    job.succeed();
    let text = job.text("trainer-0");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("touch:")).collect();
    assert_eq!(lines, ["code", "code", "python", "release", "read-only", "closed"]);
}

/// The log and the figures are opened with the rights of the job's user.
#[test]
fn links_in_the_package_lead_the_supervisor_nowhere() {
    let Some(job) = job("true") else { return };
    let secret = directory(job.folder().join("secret"), ROOT);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(secret.join("trainer-0.log"), "kept\n").unwrap();
    symlink(&secret, job.folder().join("package/log")).unwrap();
    let record = job.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("cannot write its log"), "{}", record.reason);
    assert_eq!(fs::read_to_string(secret.join("trainer-0.log")).unwrap(), "kept\n");
}

#[test]
fn limits_hold_inside() {
    if Sandboxed::find().is_none() {
        return;
    }
    let program = "import time; hog = bytearray(300 << 20); hog[::4096] = b'x' * len(hog[::4096])\n\
                   time.sleep(1000)";
    let memory = Some("64Mi".parse::<Quantity>().unwrap());
    let limited = |program: &[&str]| {
        let job = Job::of(&Sandboxed, 1, program);
        job.with(|spec| {
            spec.pservers = 0;
            spec.resources.trainer =
                Resources { memory, cpu: Some("1".parse().unwrap()), ..Resources::default() };
        })
    };
    let record = limited(&["python3", "-c", program]).run();
    assert!(record.reason.contains("more than the 64 MiB of memory"), "{record:#?}");
    assert_eq!(record.notes, Vec::<String>::new(), "both limits are the kernel's");
    // What is written to the root is limited by the same number.
    let full = "head -c 300M /dev/zero > /big && echo written; true";
    let job = limited(&["sh", "-c", full]);
    let record = job.run();
    assert!(!job.text("trainer-0").contains("written"), "{record:#?}");
    drop(job);
}

#[test]
fn gpus_are_dealt_out_and_hidden_from_those_who_have_none() {
    let Some(mut job) = job("echo [$CUDA_VISIBLE_DEVICES]") else { return };
    job.submission.spec.env.insert("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned());
    job.succeed();
    assert_eq!(job.text("trainer-0"), "[]\n");
    let two = |among: &str| {
        let mut job = self::job("echo [$CUDA_VISIBLE_DEVICES]").unwrap();
        job.submission.spec.trainers = 2;
        job.submission.spec.resources.trainer.gpu = Quantity::whole(2);
        let Place::Local(place) = &mut job.submission.place else { panic!("not local") };
        place.environment.insert("CUDA_VISIBLE_DEVICES".to_owned(), among.to_owned());
        job
    };
    // Each sees the devices of its own alone, and CUDA counts those.
    let job = two("4,5,6,7");
    job.succeed();
    for trainer in ["trainer-0", "trainer-1"] {
        assert_eq!(job.text(trainer), "[0,1]\n");
    }
    let dealt = walk(&job.jobs.root.join(".gpus"));
    for gpu in ["4", "5", "6", "7"] {
        assert!(dealt.iter().any(|path| path.ends_with(gpu)), "{dealt:?}");
    }
    let record = two("0,1,2").run();
    assert!(record.reason.contains("it wants 2 GPUs: this machine has 3"), "{record:#?}");
}

/// Whoever is killed: no process, no mount and no file of the replica's root is left.
#[test]
fn nothing_is_left_after_a_kill_of_the_supervisor() {
    let script = "echo data > /big; touch started; exec sleep 1000";
    for is_all_at_once in [false, true] {
        let Some(job) = job(script) else { return };
        job.submit().await_file(0, "started");
        let supervisors = job.processes_running("supervise");
        let count = if is_all_at_once { supervisors.len() } else { 1 };
        for name in ["STOP", "KILL"] {
            for pid in &supervisors[..count] {
                signal(*pid, name);
            }
        }
        assert_eq!(job.await_end().state, JobState::Failed);
        let marker = job.folder().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(marker), "{mounts}");
        let left = walk(&job.directory().join("machine"));
        assert!(!left.iter().any(|path| path.ends_with("big")), "{left:?}");
        assert!(processes_with(marker).is_empty());
        job.block(job.jobs.forget(job.id())).unwrap();
        assert!(!job.directory().exists());
    }
}

#[test]
fn what_a_sandbox_cannot_honour_is_refused_by_name() {
    let Some(job) = job("true") else { return };
    let place = job.submission.place.clone();
    let refused = |change: &dyn Fn(&mut Job<'static>), field: &str, kind: Kind| {
        let mut job = Job::new(&Sandboxed, 1, "true");
        job.submission.place = place.clone();
        change(&mut job);
        let error = job.try_submit().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(field), "{error}");
        assert!(!job.directory().exists(), "nothing was accepted");
    };
    let home = directory(job.folder().join("home"), USER);
    let link = job.folder().join("link");
    symlink(&home, &link).unwrap();
    let with = |source: &Path, target: &str| {
        let mount = mount(source, target, false);
        move |job: &mut Job<'static>| job.submission.mounts = vec![mount.clone()]
    };
    refused(&|job| job.submission.run_as = None, "run_as", Kind::Invalid);
    refused(&|job| job.submission.run_as = Some(ROOT), "field: run_as", Kind::Invalid);
    refused(&with(&home, "/proc/home"), "nothing can be mounted here", Kind::Invalid);
    refused(&with(&home, "/"), "nothing can be mounted here", Kind::Invalid);
    refused(&with(&home, "/pfs/../etc"), "absolute", Kind::Invalid);
    refused(&with(&home, "pfs"), "absolute", Kind::Invalid);
    refused(&with(&link, "/pfs/home"), "real path", Kind::Invalid);
    refused(&with(&home.join("none"), "/pfs/home"), "is not there", Kind::NotFound);
    refused(
        &|job| job.submission.spec.output_dir = "/model".to_owned(),
        "output_dir",
        Kind::Invalid,
    );
    refused(&|job| job.submission.spec.log_dir = "../log".to_owned(), "log_dir", Kind::Invalid);
    let unprotected = |job: &mut Job<'static>| {
        let Place::Local(place) = &mut job.submission.place else { panic!("not local") };
        place.sandbox = None;
        job.submission.mounts = vec![mount(&home, "/pfs/home", false)];
    };
    refused(&unprotected, "mounts", Kind::Unsupported);
}

/// Without a sandbox, the user alone.
#[test]
fn a_job_can_run_as_another_user_on_the_machine_as_it_is() {
    let Some(mut job) = job("id -u; id -G; ls /tmp > /dev/null && echo sees the machine; \
                             mkdir -p log/trainer-0; \
                             echo '{\"cost\": 1}' > log/trainer-0/metrics.jsonl")
    else {
        return;
    };
    let Place::Local(place) = &mut job.submission.place else { panic!("not local") };
    place.sandbox = None;
    job.submission.mounts.clear();
    let record = job.run();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert_eq!(job.text("trainer-0"), "56789\n56789\nsees the machine\n");
    let figures = record.replica("trainer-0".parse().unwrap()).unwrap().metrics.clone();
    assert_eq!(figures, Some(serde_json::json!({"cost": 1})));
}
