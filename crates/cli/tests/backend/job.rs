//! One job under test: a folder of its own, submitted through the trait to a place, and whether
//! anything of it is left on this machine.

use super::either::Either;
use super::processes::{arguments, processes_with};
use contract::job::JobSpec;
use contract::port::Ports;
use contract::secret::Secret;
use contract::state::{JobState, State};
use scheduler::backend::{Accepted, Backend, Cursor, LogPiece};
use scheduler::jobs::{Jobs, Paddle};
use scheduler::submission::{Package, Place};
use scheduler::{JobRecord, ReplicaId, Submission};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A place, as the trials see it. `count` is the number of trainers, and of servers.
pub(crate) trait Harness: Sync {
    /// Where a job runs. The harness may keep what it needs in the folder.
    fn place(&self, folder: &Path, count: u32) -> Place;

    /// The path of the package, as the place knows it.
    fn package(&self, folder: &Path) -> String;

    /// Where a trainer runs: what a program writes into `.` is found here.
    fn workspace(&self, folder: &Path, rank: u32) -> PathBuf;

    /// A number of replicas that is large for this place.
    fn many(&self) -> u32;

    /// A folder for the test.
    fn folder(&self) -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// Makes the job another user's, where the place has such jobs.
    fn confine(&self, _: &mut Submission) {}

    /// Removes what it made for a job beside the folder.
    fn leave(&self, _: &Submission) {}
}

/// How long anything may take. Only a failure waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// In the folder of a test.
const SHARED: &str = "shared";

/// One job, or several that share a folder of jobs.
pub(crate) struct Job<'a> {
    pub(crate) harness: &'a dyn Harness,
    pub(crate) jobs: Either,
    pub(crate) submission: Submission,
    folder: tempfile::TempDir,
    runtime: Runtime,
}

impl<'a> Job<'a> {
    /// A job of `count` trainers and servers that runs a shell script.
    pub(crate) fn new(harness: &'a dyn Harness, count: u32, script: &str) -> Self {
        Job::of(harness, count, &["sh", "-c", script])
    }

    /// A job that runs a program.
    pub(crate) fn of(harness: &'a dyn Harness, count: u32, program: &[&str]) -> Self {
        let folder = harness.folder();
        // Also for programs of other users, whose workspaces are no place to meet.
        let shared = folder.path().join(SHARED);
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        for rank in 0..count {
            std::fs::create_dir_all(harness.workspace(folder.path(), rank)).unwrap();
        }
        let spec = JobSpec {
            name: "job".to_owned(),
            user: "wuyi".to_owned(),
            datacenter: "local".to_owned(),
            program: program.iter().map(|word| (*word).to_owned()).collect(),
            trainers: count,
            pservers: count,
            ports: Ports { first: 0, ..Ports::default() },
            allow_idle: true,
            // By this text everything of the job is found among the processes.
            env: [("MARKER".to_owned(), folder.path().to_str().unwrap().to_owned())].into(),
            ..JobSpec::default()
        };
        let mut submission = Submission {
            id: "job-1".to_owned(),
            origin: "test".to_owned(),
            spec,
            token: Secret::new("0123456789abcdef".repeat(4)),
            secrets: Default::default(),
            run_as: None,
            mounts: Vec::new(),
            place: harness.place(folder.path(), count),
            package: Package::Present(harness.package(folder.path())),
        };
        harness.confine(&mut submission);
        let paddle = Paddle {
            program: env!("CARGO_BIN_EXE_paddle").into(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let jobs = Jobs { root: folder.path().join("jobs"), paddle };
        let jobs = Either::of(jobs, &submission.place);
        let runtime = Runtime::new().unwrap();
        Job { harness, jobs, submission, folder, runtime }
    }

    /// Changes what is asked for.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        change(&mut self.submission.spec);
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A directory in which the replicas of every machine meet: `$MARKER/shared`.
    pub(crate) fn shared(&self) -> PathBuf {
        self.folder().join(SHARED)
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn id(&self) -> &str {
        &self.submission.id
    }

    /// The directory of the job among the jobs.
    pub(crate) fn directory(&self) -> PathBuf {
        self.jobs.root.join(self.id())
    }

    pub(crate) fn try_submit(&self) -> contract::Result<Accepted> {
        self.block(self.jobs.submit(&self.submission, None))
    }

    pub(crate) fn submit(&self) -> &Self {
        assert_eq!(self.try_submit().unwrap(), Accepted::New);
        self
    }

    pub(crate) fn observe(&self) -> JobRecord {
        self.block(self.jobs.observe(self.id())).unwrap()
    }

    pub(crate) fn await_state(&self, state: JobState) {
        self.wait_until(&format!("the job is {state}"), || {
            let record = self.observe();
            assert!(record.state == state || !record.state.is_final(), "{record:#?}");
            record.state == state
        });
    }

    /// How the job ended; nothing of it may be left then.
    pub(crate) fn await_end(&self) -> JobRecord {
        self.wait_until("the job has ended", || self.observe().state.is_final());
        self.assert_nothing_is_left();
        self.observe()
    }

    /// Submits, waits for the end, and returns it.
    pub(crate) fn run(&self) -> JobRecord {
        self.submit().await_end()
    }

    /// As [`Job::run`], and the job must succeed.
    pub(crate) fn succeed(&self) -> JobRecord {
        let record = self.run();
        assert_eq!((record.state, record.exit_code), (JobState::Succeeded, Some(0)), "{record:#?}");
        record
    }

    pub(crate) fn logs(&self, replica: &str, cursor: &Cursor) -> LogPiece {
        let replica: ReplicaId = replica.parse().unwrap();
        self.block(self.jobs.logs(self.id(), replica, cursor)).unwrap()
    }

    /// Everything that a replica has printed.
    pub(crate) fn log(&self, replica: &str) -> Vec<u8> {
        self.collect(|cursor| self.logs(replica, cursor))
    }

    fn collect(&self, mut piece: impl FnMut(&Cursor) -> LogPiece) -> Vec<u8> {
        let (mut all, mut cursor) = (Vec::new(), Cursor::default());
        loop {
            let piece = piece(&cursor);
            if piece.bytes.is_empty() {
                return all;
            }
            all.extend(piece.bytes);
            cursor = piece.next;
        }
    }

    pub(crate) fn text(&self, replica: &str) -> String {
        String::from_utf8(self.log(replica)).unwrap()
    }

    /// A file that a trainer writes in its workspace, once it is there.
    pub(crate) fn await_file(&self, rank: u32, name: &str) -> String {
        let path = self.harness.workspace(self.folder(), rank).join(name);
        self.wait_until(&format!("{name} of trainer {rank}"), || path.exists());
        std::fs::read_to_string(path).unwrap()
    }

    pub(crate) fn file(&self, rank: u32, name: &str) -> Vec<u8> {
        let path = self.harness.workspace(self.folder(), rank).join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn write(&self, rank: u32, name: &str, text: &str) {
        std::fs::write(self.harness.workspace(self.folder(), rank).join(name), text).unwrap();
    }

    /// Looks again and again, up to the deadline; then it tells what is known of the job.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so() {
            if Instant::now() >= deadline {
                let record = scheduler::JobRecord::read(&self.directory().join("state.json"));
                let log = std::fs::read_to_string(self.directory().join("conductor.log"));
                panic!("waited in vain: {what}\n{record:#?}\n{log:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        self.wait_until("no process is left", || self.processes().is_empty());
    }

    /// Every process of the job has the folder in its environment or its arguments, whatever
    /// session it is in.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes_with(self.folder().to_str().unwrap())
    }

    /// The processes of the job whose arguments have this word.
    pub(crate) fn processes_running(&self, word: &str) -> Vec<u32> {
        let word = format!("\0{word}\0");
        self.processes().into_iter().filter(|pid| arguments(*pid).contains(&word)).collect()
    }
}

/// Whatever a trial left running ends with it.
impl Drop for Job<'_> {
    fn drop(&mut self) {
        let _ = self.runtime.block_on(self.jobs.kill(&self.submission.id, true));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.processes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.harness.leave(&self.submission);
    }
}

/// For `sshd.rs`, which waits for its servers.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by its name, if the process is still there.
pub(crate) fn signal(pid: u32, name: &str) -> bool {
    let mut command = std::process::Command::new("kill");
    let status =
        command.args([&format!("-{name}"), &pid.to_string()]).stderr(std::process::Stdio::null());
    status.status().unwrap().success()
}
