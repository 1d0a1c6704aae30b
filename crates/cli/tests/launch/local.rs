//! The suite on this machine, with a PID namespace where one is permitted and without, and what
//! only this backend promises.

use super::job::{Harness, Job, processes_with, signal, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `paddle launch` without hosts.
pub(crate) struct Local {
    pub(crate) flags: &'static [&'static str],
}

impl Harness for Local {
    fn prepare(&self, _: &Path, _: u32) {}

    fn launch(&self, _: &Path, count: u32) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paddle"));
        command.arg("launch").args(self.flags);
        command.arg(format!("--trainers={count}")).arg(format!("--pservers={count}"));
        command
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.to_owned()
    }

    fn trainer_log(&self, folder: &Path, rank: u32) -> PathBuf {
        folder.join(format!("log/trainer-{rank}.log"))
    }

    fn many(&self) -> u32 {
        16
    }
}

const ALONE: Local = Local { flags: &[] };
const AMONG_OTHERS: Local = Local { flags: &["--no_pid_namespace"] };

mod in_a_namespace {
    crate::launch::trials::suite!(super::ALONE);
}

mod among_others {
    crate::launch::trials::suite!(super::AMONG_OTHERS);
}

/// Each of the two processes of a supervisor ends everything when the other is killed.
fn check_supervisor_killed(harness: &Local, which: &str) {
    let job = Job::new(harness, 1);
    let script = "setsid sh -c 'sleep 1000' & touch started; sleep 1000";
    let launch = job.start(&[], script);
    job.await_file(0, "started");
    let is_keeper = |pid: u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        arguments.contains("\0supervise\0").then(|| arguments.contains("\0--keeper\0"))
    };
    let marker = job.folder().to_str().unwrap();
    let found = processes_with(marker);
    let victim = found.into_iter().find(|pid| is_keeper(*pid) == Some(which == "keeper")).unwrap();
    signal(victim, "KILL");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("supervisor"), "{ended:?}");
}

#[test]
fn a_killed_guard_takes_all_down() {
    check_supervisor_killed(&ALONE, "guard");
    check_supervisor_killed(&AMONG_OTHERS, "guard");
}

#[test]
fn a_killed_keeper_takes_all_down() {
    check_supervisor_killed(&ALONE, "keeper");
    check_supervisor_killed(&AMONG_OTHERS, "keeper");
}

#[test]
fn what_does_not_end_in_time_is_killed() {
    let job = Job::new(&ALONE, 1);
    let launch = job.start(&[], "trap '' TERM; touch started; while :; do sleep 0.01; done");
    job.await_file(0, "started");
    signal(launch.id(), "TERM");
    assert_eq!(job.finish(launch).code, 143);
}

#[test]
fn checkpoints_of_an_earlier_job_are_not_mistaken_for_those_of_this_one() {
    let job = Job::new(&ALONE, 1);
    std::fs::create_dir(job.folder().join("kept")).unwrap();
    std::fs::write(job.folder().join("kept/one"), "").unwrap();
    let ended = job.run(&["--checkpoint_dir=kept"], "true");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("continue it with --restore"), "{ended:?}");
    let ended = job.run(&["--checkpoint_dir=kept", "--restore"], "true");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("there is no checkpoint to restore"), "{ended:?}");
}

#[test]
fn two_launches_do_not_share_a_log_directory() {
    let job = Job::new(&ALONE, 1);
    let first = job.start(&[], "touch started; sleep 1000");
    job.await_file(0, "started");
    let second = job.start(&[], "true").wait_with_output().unwrap();
    let words = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{words}");
    assert!(words.contains("a job is running here"), "{words}");
    signal(first.id(), "TERM");
    assert_eq!(job.finish(first).code, 143);
}

#[test]
fn a_master_deals_out_the_data_and_comes_back_with_its_state() {
    let job = Job::new(&ALONE, 1);
    std::fs::write(job.folder().join("data.txt"), "one\ntwo\n").unwrap();
    let status = format!(
        "{} master status --endpoint $PADDLE_MASTER_ENDPOINT -o json",
        env!("CARGO_BIN_EXE_paddle")
    );
    let kill = "
import os, signal
token = ('PADDLE_JOB_TOKEN=' + os.environ['PADDLE_JOB_TOKEN']).encode()
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        told = open(f'/proc/{pid}/environ', 'rb').read().split(b'\\0')
    except OSError:
        continue
    if token in told and b'TRAINING_ROLE=MASTER' in told:
        os.kill(int(pid), signal.SIGKILL)
";
    let until_it_is_back = format!("until {status} > after; do sleep 0.01; done");
    let script = format!("{status} > before && python3 -c \"{kill}\" && {until_it_is_back}");
    let ended = job.run(&["--master", "--dataset=data.txt", "--restarts=1"], &script);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("master-0 is started again"), "{ended:?}");
    let read = |name| serde_json::from_slice::<serde_json::Value>(&job.file(0, name)).unwrap();
    assert_eq!(read("before"), read("after"));
    assert!(read("after").to_string().contains("todo"), "{}", read("after"));
}

#[test]
fn programs_find_themselves_in_proc() {
    let job = Job::new(&ALONE, 1);
    let ended = job.run(&[], "grep -q '^Name:' /proc/$$/status && readlink /proc/self > /dev/null");
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn processes_are_numbered_as_the_machine_does() {
    let job = Job::new(&ALONE, 1);
    let launch = job.start(&[], "touch started; exec sleep 1000");
    job.await_file(0, "started");
    let state = job.folder().join("log/state.json");
    let pid = || {
        let record = scheduler::JobRecord::read(&state).ok()?;
        record.replicas.iter().find(|replica| !replica.replica.is_server())?.pid
    };
    wait_until("the trainer's process is recorded", || pid().is_some());
    // While a process becomes another program its environment reads as empty.
    let environment = || std::fs::read(format!("/proc/{}/environ", pid()?)).ok();
    wait_until("the recorded process is the trainer", || {
        let environment = environment().unwrap_or_default();
        String::from_utf8_lossy(&environment).contains("TRAINING_ROLE=TRAINER")
    });
    signal(launch.id(), "TERM");
    assert_eq!(job.finish(launch).code, 143);
}
