//! What is special about jobs on Slurm: the queue, nodes that share no files, and Slurm's own part
//! in how a job ends.

use super::component;
use super::job::{Harness, Job, signal, wait_until};
use super::places::Slurm;
use super::slurm_cluster::{self, Cluster};
use contract::Kind;
use contract::job::{Priority, Resources};
use contract::quantity::Quantity;
use contract::state::JobState;
use scheduler::Backend;
use scheduler::ssh::package::Manifest;
use scheduler::submission::{Package, Place, SlurmPlace};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script of a trainer that finishes only when it is started again.
const UNTIL_THE_SECOND: &str = "touch started-$PADDLE_TRAINER_ID; \
                                if [ $PADDLE_ATTEMPT = 0 ]; then exec sleep 1000; fi";

impl Cluster {
    /// A folder of which nodes that see other files have one each.
    fn own(&self) -> PathBuf {
        self.folder.join("own")
    }

    /// A folder that is empty on nodes that see other files.
    fn hidden(&self) -> PathBuf {
        self.folder.join("hidden")
    }

    /// Ends the controller, which writes down what it knows.
    fn stop_controller(&self) {
        let pid = std::fs::read_to_string(self.folder.join("slurmctld.pid")).unwrap();
        assert!(signal(pid.trim().parse().unwrap(), "TERM"));
        let process = Path::new("/proc").join(pid.trim());
        wait_until("the controller has ended", || !process.join("exe").exists());
    }

    /// Starts it again.
    fn start_controller(&self) {
        let folder = self.folder.clone();
        let slurmctld = component::find("slurmctld").unwrap();
        std::thread::spawn(move || {
            let mut controller = Command::new(slurmctld);
            slurm_cluster::daemon(&folder, "slurmctld", controller.arg("-D")).wait().unwrap();
        });
        wait_until("the controller answers", || {
            let mut command = Command::new("scontrol");
            command.arg("ping").env("SLURM_CONF", self.conf());
            command.output().unwrap().status.success()
        });
    }

    /// The jobs of a name that have not ended, as `number state`.
    fn jobs(&self, name: &str) -> Vec<String> {
        let name = format!("--name={name}");
        let found = self.call("squeue", &["--noheader", "--format=%i %T", &name]);
        found.lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// The job's id in Slurm, which is also its name there. Tests run at the same time.
fn named<'a>(mut job: Job<'a>, id: &str) -> Job<'a> {
    job.submission.id = id.to_owned();
    job
}

fn place<'a>(job: &'a mut Job<'_>) -> &'a mut SlurmPlace {
    match &mut job.submission.place {
        Place::Slurm(place) => place,
        _ => panic!("not on Slurm"),
    }
}

/// The number of the only allocation of a job.
fn number(cluster: &Cluster, job: &Job<'_>) -> String {
    let jobs = cluster.jobs(job.id());
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs[0].split(' ').next().unwrap().to_owned()
}

/// A partition of its own, in which a test can let jobs wait.
fn partition(cluster: &Cluster, name: &str, state: &str) {
    let name = format!("PartitionName={name}");
    cluster.call("scontrol", &["create", &name, "Nodes=n0,n1", &format!("State={state}")]);
}

#[test]
fn a_job_that_waits_says_why_and_begins_when_it_may() {
    let Some(slurm) = Slurm::find() else { return };
    partition(slurm.0, "later", "DOWN");
    let mut job = named(Job::new(&slurm, 1, "true"), "later-1");
    place(&mut job).partition = "later".to_owned();
    job.submit();
    job.wait_until("the job says why it waits", || {
        let record = job.observe();
        assert_eq!(record.state, JobState::Pending, "{record:#?}");
        record.reason.contains("its partition is down")
    });
    assert!(job.observe().reason.starts_with("waiting in Slurm's queue as job "));
    slurm.0.call("scontrol", &["update", "PartitionName=later", "State=UP"]);
    let record = job.await_end();
    assert_eq!(
        (record.state, record.reason.as_str()),
        (JobState::Succeeded, "all trainers finished")
    );
    assert!(record.granted_ms.unwrap() > record.began_ms);
}

#[test]
fn a_job_that_waits_is_killed_and_leaves_the_queue() {
    let Some(slurm) = Slurm::find() else { return };
    partition(slurm.0, "never", "DOWN");
    for is_leashed in [false, true] {
        let mut job = named(Job::new(&slurm, 1, "true"), &format!("never-{is_leashed}"));
        place(&mut job).partition = "never".to_owned();
        let leash = match is_leashed {
            true => Some(job.block(job.jobs.submit_leashed(&job.submission, None)).unwrap()),
            false => {
                job.submit();
                None
            }
        };
        job.wait_until("it is in the queue", || slurm.0.jobs(job.id()).len() == 1);
        match leash {
            Some(leash) => drop(leash),
            None => job.block(job.jobs.kill(job.id(), false)).unwrap(),
        }
        assert_eq!(job.await_end().state, JobState::Killed);
        job.wait_until("the queue has it no more", || slurm.0.jobs(job.id()).is_empty());
    }
}

#[test]
fn a_job_that_gets_no_nodes_in_time_fails_with_that_reason() {
    let Some(slurm) = Slurm::find() else { return };
    partition(slurm.0, "closed", "DOWN");
    let mut job = named(Job::new(&slurm, 1, "true"), "closed-1");
    place(&mut job).partition = "closed".to_owned();
    place(&mut job).queue_seconds_max = Some(1);
    let record = job.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("gave the job no nodes in time"), "{}", record.reason);
    job.wait_until("the queue has it no more", || slurm.0.jobs(job.id()).is_empty());
}

#[test]
fn a_job_that_slurm_is_told_to_cancel_is_killed() {
    let Some(slurm) = Slurm::find() else { return };
    let job = named(Job::new(&slurm, 2, UNTIL_THE_SECOND), "cancelled-1");
    let job = job.with(|spec| spec.restarts = 3);
    job.submit();
    job.await_file(0, "started-0");
    job.await_file(1, "started-1");
    let number = number(slurm.0, &job);
    slurm.0.call("scancel", &[&number]);
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Killed, Some(143)), "{record:#?}");
    assert_eq!(record.reason, format!("job {number} was cancelled in Slurm"));
}

/// The partition's limit is a minute, and the job has none of its own. Programs are told, and have
/// until Slurm kills everything to save what they have.
#[test]
fn a_time_limit_of_slurm_strikes_and_programs_may_save_what_they_have() {
    let Some(slurm) = Slurm::find() else { return };
    let script = "trap 'echo saved > saved-$PADDLE_TRAINER_ID; exit 9' TERM; \
                  touch started-$PADDLE_TRAINER_ID; while :; do sleep 0.1; done";
    let mut job = named(Job::new(&slurm, 2, script), "limited-1");
    place(&mut job).partition = "short".to_owned();
    job.submit();
    job.await_file(0, "started-0");
    job.await_file(1, "started-1");
    let number = number(slurm.0, &job);
    let record = job.await_end();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    let reason = "Slurm ended it after the time limit of its partition";
    assert!(record.reason.starts_with(reason), "{}", record.reason);
    assert!(record.reason.ends_with(&format!("(job {number})")), "{}", record.reason);
    for rank in 0..2 {
        job.await_file(rank, &format!("saved-{rank}"));
    }
}

/// The job keeps its nodes: it does not wait in the queue again because a process died.
#[test]
fn a_killed_agent_is_a_fault_like_any_other() {
    let Some(slurm) = Slurm::find() else { return };
    let job = named(Job::new(&slurm, 2, UNTIL_THE_SECOND), "agent-1");
    let job = job.with(|spec| spec.restarts = 1);
    job.submit();
    job.await_file(0, "started-0");
    job.await_file(1, "started-1");
    let before = number(slurm.0, &job);
    let agents = agents(&job);
    assert_eq!(agents.len(), 2, "one on each node");
    signal(agents[0], "KILL");
    job.wait_until("a second round", || job.observe().rounds == 1);
    assert_eq!(number(slurm.0, &job), before);
    assert_eq!(job.await_end().state, JobState::Succeeded);
}

/// The processes of `paddle agent`, without the `srun` that starts them.
fn agents(job: &Job<'_>) -> Vec<u32> {
    let is_agent = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let program = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(program).ends_with("/paddle")
    };
    job.processes_running("agent").into_iter().filter(is_agent).collect()
}

#[test]
fn a_job_that_slurm_begins_again_goes_on() {
    let Some(slurm) = Slurm::find() else { return };
    let job = named(Job::new(&slurm, 2, UNTIL_THE_SECOND), "requeued-1");
    let job = job.with(|spec| spec.restarts = 1);
    job.submit();
    job.await_file(0, "started-0");
    job.await_file(1, "started-1");
    let before = number(slurm.0, &job);
    slurm.0.call("scontrol", &["requeue", &before]);
    job.wait_until("it waits again", || job.observe().rounds == 1);
    // Slurm lets such a job wait for two minutes, unless somebody is in a hurry.
    job.wait_until("its time to begin can be changed", || {
        let started = slurm.0.jobs(job.id()).iter().any(|line| line.ends_with("RUNNING"));
        let mut update = Command::new("scontrol");
        update.args(["update", &format!("JobId={before}"), "StartTime=now"]);
        started || update.env("SLURM_CONF", slurm.0.conf()).output().unwrap().status.success()
    });
    assert_eq!(job.await_end().state, JobState::Succeeded);
}

/// As if the conductor had died at the worst moment, by a `sbatch` that kills it.
#[test]
fn a_conductor_that_dies_before_sbatch_answers_leaves_one_allocation() {
    let Some(slurm) = Slurm::find() else { return };
    let mut job = named(Job::new(&slurm, 1, "echo ran"), "worst-1");
    let bin = own_sbatch(
        &mut job,
        "sbatch \"$@\" >> $own/submitted\n\
         [ -e $own/killed ] || { touch $own/killed; kill -9 $PPID; }\n\
         tail -n 1 $own/submitted\n",
    );
    // The submitter may hear that the conductor has gone, and asks again.
    job.wait_until("it is submitted", || job.try_submit().is_ok());
    let record = job.await_end();
    assert_eq!((record.state, record.conductors), (JobState::Succeeded, 2), "{record:#?}");
    assert_eq!(job.text("trainer-0"), "ran\n");
    let submitted = std::fs::read_to_string(bin.join("submitted")).unwrap();
    assert_eq!(submitted.lines().count(), 1, "{submitted}");
}

/// Puts another `sbatch` before Slurm's, which it finds as `sbatch`; its folder is `$own`.
fn own_sbatch(job: &mut Job<'_>, script: &str) -> PathBuf {
    let bin = job.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\nPATH=${{PATH#*:}}\nown={}\n{script}", bin.display());
    std::fs::write(bin.join("sbatch"), script).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("sbatch"), executable).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    place(job).environment.insert("PATH".to_owned(), path);
    bin
}

/// A command that is killed says nothing: the job may be in the queue or not.
#[test]
fn a_killed_sbatch_leaves_one_allocation() {
    let Some(slurm) = Slurm::find() else { return };
    let asks = "sbatch \"$@\" >> $own/submitted; tail -n 1 $own/submitted";
    for (id, first) in [("dead-before-1", "true"), ("dead-after-1", asks)] {
        let mut job = named(Job::new(&slurm, 1, "echo ran"), id);
        let script = format!(
            "[ -e $own/killed ] || {{ touch $own/killed; {{ {first}; }} > /dev/null; kill -9 $$; }}\n\
             {asks}\n"
        );
        let bin = own_sbatch(&mut job, &script);
        let record = job.run();
        assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
        assert_eq!(job.text("trainer-0"), "ran\n");
        let submitted = std::fs::read_to_string(bin.join("submitted")).unwrap();
        assert_eq!(submitted.lines().count(), 1, "{id}: {submitted}");
    }
}

/// A busy controller carries out what it has given no answer to when nobody expects it any more:
/// here when it is asked again.
#[test]
fn an_sbatch_that_is_carried_out_late_leaves_one_allocation() {
    let Some(slurm) = Slurm::find() else { return };
    let mut job = named(Job::new(&slurm, 1, "echo ran"), "late-1");
    let bin = own_sbatch(
        &mut job,
        "cat > $own/script\n\
         [ -e $own/asked ] || { touch $own/asked; echo 'Socket timed out' >&2; exit 1; }\n\
         for attempt in late again; do sbatch --parsable $own/script >> $own/submitted; done\n\
         tail -n 1 $own/submitted\n",
    );
    let record = job.run();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert_eq!(job.text("trainer-0"), "ran\n");
    let submitted = std::fs::read_to_string(bin.join("submitted")).unwrap();
    let late = submitted.lines().next().unwrap();
    let shown = slurm.0.call("scontrol", &["show", "job", "--oneliner", late]);
    assert!(shown.contains("JobState=CANCELLED"), "{shown}");
    job.wait_until("the queue has neither", || slurm.0.jobs(job.id()).is_empty());
}

/// Slurm would strike together with the job's own limit, and leave programs its `KillWait`.
#[test]
fn a_job_with_a_time_limit_asks_for_its_grace_too_where_that_is_allowed() {
    let Some(slurm) = Slurm::find() else { return };
    let script = "touch started; until [ -e go ]; do sleep 0.01; done";
    for (id, partition, expected) in [("grace-1", "main", "4:00"), ("grace-2", "short", "1:00")] {
        let mut job = named(Job::new(&slurm, 1, script), id).with(|spec| {
            spec.time_limit_seconds = Some(60);
            spec.grace_seconds = 100;
        });
        place(&mut job).partition = partition.to_owned();
        job.submit().await_file(0, "started");
        let limit = slurm.0.call("squeue", &["-h", "-o", "%l", &format!("--name={id}")]);
        assert_eq!(limit.trim(), expected, "{partition}");
        job.write(0, "go", "");
        assert_eq!(job.await_end().state, JobState::Succeeded);
    }
}

#[test]
fn what_slurm_refuses_fails_the_job_with_its_words() {
    let Some(slurm) = Slurm::find() else { return };
    let mut job = named(Job::new(&slurm, 1, "true"), "nowhere-1");
    place(&mut job).partition = "nowhere".to_owned();
    let record = job.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("invalid partition specified: nowhere"), "{}", record.reason);
    assert!(record.reason.contains("partitions: main"), "{}", record.reason);
    let mut job = named(Job::new(&slurm, 1, "true"), "nopaddle-1");
    place(&mut job).paddle = "/no/such/paddle".to_owned();
    let record = job.run();
    assert!(record.reason.contains("paddle is not on the nodes"), "{}", record.reason);
    let log = job.folder().join("package/log");
    let names: Vec<_> = std::fs::read_dir(log).unwrap().flatten().map(|one| one.path()).collect();
    let said = std::fs::read_to_string(&names[0]).unwrap();
    assert!(said.contains("paddle is not here: /no/such/paddle"), "{said}");
}

/// A controller that is not there says nothing of a job: one that waits goes on waiting, and one that
/// runs goes on running.
#[test]
fn a_controller_that_is_gone_for_a_while_is_waited_for() {
    let Some(own) = slurm_cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let slurm = Slurm(own);
    let job =
        named(Job::new(&slurm, 1, "touch started; until [ -e go ]; do sleep 0.01; done"), "calm-1");
    job.submit().await_file(0, "started");
    own.call("scontrol", &["update", "PartitionName=main", "State=DOWN"]);
    let waiting = named(Job::new(&slurm, 1, "true"), "calm-2");
    waiting.submit();
    waiting.wait_until("it waits", || waiting.observe().reason.contains("partition is down"));
    own.stop_controller();
    waiting.wait_until("it says so", || {
        let record = waiting.observe();
        assert_eq!(record.state, JobState::Pending, "{record:#?}");
        record.reason.contains("controller does not answer")
    });
    job.write(0, "go", "");
    let record = job.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    own.start_controller();
    own.call("scontrol", &["update", "PartitionName=main", "State=UP"]);
    let record = waiting.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
}

/// Nodes of which each has its own files, and none those of this machine.
struct Apart(&'static Cluster);

impl Harness for Apart {
    fn place(&self, folder: &Path, count: u32) -> Place {
        let Place::Slurm(place) = Slurm(self.0).place(folder, count) else { panic!("on Slurm") };
        let root_dir = self.0.own().join("jobs").to_str().unwrap().to_owned();
        Place::Slurm(SlurmPlace { partition: "apart".to_owned(), root_dir, ..place })
    }

    fn package(&self, folder: &Path) -> String {
        folder.join("package").to_str().unwrap().to_owned()
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.join("package")
    }

    fn many(&self) -> u32 {
        2
    }

    /// Where nodes see nothing.
    fn folder(&self) -> tempfile::TempDir {
        tempfile::tempdir_in(self.0.hidden()).unwrap()
    }
}

#[test]
fn a_package_is_sent_to_nodes_that_share_no_files_and_results_come_back() {
    let Some(cluster) = slurm_cluster::cluster() else { return };
    let apart = Apart(cluster);
    let script = "cat data/number; ls; mkdir -p output; echo model > output/model; \
                  echo $SLURMD_NODENAME; [ ! -e \"$MARKER/package\" ]";
    let mut job = named(Job::new(&apart, 2, script), "apart-1");
    let package = job.folder().join("package");
    std::fs::create_dir(package.join("data")).unwrap();
    std::fs::write(package.join("data/number"), "forty-two\n").unwrap();
    // Larger than anything that is buffered on the way.
    std::fs::write(package.join("large"), vec![7; 3 << 20]).unwrap();
    job.submission.package = Package::Dispatch(Manifest::scan(&package, &[]).unwrap());
    job.block(job.jobs.submit(&job.submission, Some(&package))).unwrap();
    let record = job.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    assert_eq!(record.notes, [""; 0]);
    let results = job.folder().join("results");
    let read = |name: &str| std::fs::read_to_string(results.join(name)).unwrap();
    assert_eq!(read("output/model"), "model\n");
    for (index, node) in ["p0", "p1"].iter().enumerate() {
        let log = read(&format!("log/{index}/train.log"));
        assert!(log.starts_with("forty-two\n") && log.contains("trainer_id\n"), "{log}");
        assert!(log.ends_with(&format!("{node}\n")), "{log}");
        assert_eq!(job.text(&format!("trainer-{index}")), log);
    }
    // Nothing is left on the nodes but the copy that spares the next job the way.
    let left = "ls -A \"$0\"; ls -A \"$0/.paddle_agents\"";
    let root = cluster.own().join("jobs");
    let arguments = ["-p", "apart", "-N2", "sh", "-c", left, root.to_str().unwrap()];
    let left = cluster.call("srun", &arguments);
    let mut names: Vec<&str> = left.lines().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, [".paddle_agents", ".paddle_packages"], "{left}");
}

#[test]
fn a_program_that_nodes_do_not_see_is_not_run_in_another_directory() {
    let Some(cluster) = slurm_cluster::cluster() else { return };
    let apart = Apart(cluster);
    let job = named(Job::new(&apart, 1, "true"), "unseen-1");
    let record = job.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("the workspace is not there"), "{}", record.reason);
    assert!(record.reason.contains("--job_dispatch_package"), "{}", record.reason);
    // One that is there, and another one.
    let job = named(Job::new(&apart, 1, "true"), "unseen-2");
    let log = job.folder().join("package/log").to_str().unwrap().to_owned();
    cluster.call("srun", &["-p", "apart", "-N2", "mkdir", "-p", &log]);
    let record = job.run();
    assert!(record.reason.contains("is not the one here"), "{}", record.reason);
}

/// Of the two devices of a node each of two trainers gets one, and another job waits for them.
#[test]
fn trainers_get_devices_of_their_own_of_those_that_slurm_gives() {
    let Some(slurm) = Slurm::find() else { return };
    let script = "echo $CUDA_VISIBLE_DEVICES; touch started-$PADDLE_TRAINER_ID; \
                  until [ -e go ]; do sleep 0.01; done";
    let job = |id: &str, count| {
        let mut job = named(Job::new(&slurm, count, script), id).with(|spec| {
            spec.priority = Priority::Low;
            spec.resources.pserver.memory = Some("512Mi".parse().unwrap());
            spec.resources.trainer = Resources {
                cpu: Some(Quantity::whole(2)),
                memory: Some("1Gi".parse().unwrap()),
                gpu: Quantity::whole(1),
            };
        });
        place(&mut job).nodes = 1;
        place(&mut job).constraint = "n0".to_owned();
        job
    };
    let (first, second) = (job("gpus-1", 2), job("gpus-2", 1));
    first.submit().await_file(0, "started-0");
    first.await_file(0, "started-1");
    let asked = slurm.0.call("squeue", &["-h", "-o", "%b %y %m %C", "--name=gpus-1"]);
    // Two trainers with two servers, each of which counts as a core.
    assert_eq!(asked.trim(), "gres:gpu:2 10000 3G 6");
    second.submit();
    second.wait_until("it waits for devices", || {
        let record = second.observe();
        assert_eq!(record.state, JobState::Pending, "{record:#?}");
        record.reason.contains("in use")
    });
    first.write(0, "go", "");
    assert_eq!(first.await_end().state, JobState::Succeeded);
    let mut given = [0, 1].map(|rank| first.text(&format!("trainer-{rank}")));
    given.sort_unstable();
    assert_eq!(given, ["0\n", "1\n"]);
    second.write(0, "go", "");
    assert_eq!(second.await_end().state, JobState::Succeeded);
}

#[test]
fn devices_that_no_node_has_are_refused_by_slurm() {
    let Some(slurm) = Slurm::find() else { return };
    let job = named(Job::new(&slurm, 1, "true"), "gpu-1");
    let job = job.with(|spec| spec.resources.trainer.gpu = Quantity::whole(3));
    let record = job.run();
    let reason = "Requested node configuration is not available";
    assert!(record.reason.contains(reason), "{}", record.reason);
    let job = Job::new(&slurm, 1, "true");
    let mut wrong = job.submission.clone();
    wrong.spec.priority = Priority::High;
    assert_eq!(job.jobs.check(&wrong).unwrap_err().kind(), Kind::Unsupported);
}
