//! Jobs through the `Backend` trait.

use super::cluster::{Cluster, IMAGE, wait_for};
use contract::Kind;
use contract::job::{FaultTolerance, JobSpec};
use contract::quantity::Quantity;
use contract::secret::Secret;
use contract::state::{JobState, State};
use scheduler::backend::{Accepted, Backend, Cursor};
use scheduler::kubernetes::Kubernetes;
use scheduler::submission::{KubernetesPlace, Package, Place, Volume, VolumeSource};
use scheduler::{JobRecord, Submission};
use std::path::Path;
use tokio::runtime::Runtime;

/// One job, by its id.
struct Job<'a> {
    cluster: &'a Cluster,
    backend: Kubernetes,
    submission: Submission,
    runtime: Runtime,
}

impl<'a> Job<'a> {
    /// A job of `count` trainers and servers that runs a shell script.
    fn new(cluster: &'a Cluster, id: &str, count: u32, script: &str) -> Job<'a> {
        let place = KubernetesPlace {
            kubeconfig: Some(cluster.kubeconfig()),
            namespace: "default".to_owned(),
            image: IMAGE.to_owned(),
            ..KubernetesPlace::default()
        };
        let spec = JobSpec {
            name: "job".to_owned(),
            user: "wuyi".to_owned(),
            datacenter: "local".to_owned(),
            program: ["sh", "-c", script].map(str::to_owned).to_vec(),
            trainers: count,
            pservers: count,
            allow_idle: true,
            grace_seconds: 1,
            ..JobSpec::default()
        };
        let submission = Submission {
            id: id.to_owned(),
            origin: "test".to_owned(),
            spec,
            token: Secret::new("0123456789abcdef".repeat(4)),
            secrets: Default::default(),
            run_as: None,
            mounts: Vec::new(),
            place: Place::Kubernetes(place.clone()),
            package: Package::Present("/workspace".to_owned()),
        };
        let backend = Kubernetes::of(&place);
        Job { cluster, backend, submission, runtime: Runtime::new().unwrap() }
    }

    fn with(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        change(&mut self.submission.spec);
        self
    }

    /// As on a cluster that has none.
    fn without_volcano(mut self) -> Self {
        let Place::Kubernetes(place) = &mut self.submission.place else { return self };
        place.volcano = Some(false);
        self
    }

    /// Removes the pod of a replica as whoever empties a node does.
    fn evict(&self, replica: &str) {
        let pod = format!("{}-{replica}", self.id());
        let eviction = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
        });
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
        self.cluster.tell(&["create", "--raw", &path, "-f", "-"], &eviction.to_string());
    }

    /// Kills the program in the pod of the first server.
    fn kill_server(&self) {
        let script = "for file in $(grep -lzx '[p]server' /proc/[0-9]*/cmdline); do \
                      kill -KILL $(echo $file | cut -d/ -f3); done";
        let pod = format!("{}-pserver-0", self.id());
        self.cluster.ask(&["exec", &pod, "--", "sh", "-c", script]);
    }

    fn await_text(&self, replica: &str, words: &str) {
        wait_for(words, || self.text(replica).contains(words).then_some(()));
    }

    fn id(&self) -> &str {
        &self.submission.id
    }

    fn submit(&self) -> Accepted {
        self.runtime.block_on(self.backend.submit(&self.submission, None)).unwrap()
    }

    fn observe(&self) -> JobRecord {
        self.runtime.block_on(self.backend.observe(self.id())).unwrap()
    }

    fn await_end(&self) -> JobRecord {
        wait_for("the job ends", || Some(self.observe()).filter(|one| one.state.is_final()))
    }

    fn text(&self, replica: &str) -> String {
        let (replica, cursor) = (replica.parse().unwrap(), Cursor::default());
        let piece = self.backend.logs(self.id(), replica, &cursor);
        String::from_utf8(self.runtime.block_on(piece).unwrap().bytes).unwrap()
    }

    /// Everything that was printed, by all pods that the replica has had.
    fn text_of_all(&self, replica: &str) -> String {
        let (replica, mut cursor, mut all) =
            (replica.parse().unwrap(), Cursor::default(), Vec::new());
        loop {
            let piece = self.backend.logs(self.id(), replica, &cursor);
            let piece = self.runtime.block_on(piece).unwrap();
            all.extend(piece.bytes);
            if piece.is_last || piece.next == cursor {
                return String::from_utf8(all).unwrap();
            }
            cursor = piece.next;
        }
    }

    /// Shows all pods a directory of this machine.
    fn on_volume(mut self, here: &Path, path: &str) -> Self {
        let Place::Kubernetes(place) = &mut self.submission.place else { return self };
        place.volumes.push(Volume {
            source: VolumeSource::HostPath { path: here.to_str().unwrap().to_owned() },
            path: path.to_owned(),
            sub_path: String::new(),
            is_read_only: false,
            here: None,
        });
        self
    }

    fn kill(&self) {
        self.runtime.block_on(self.backend.kill(self.id(), false)).unwrap();
    }

    /// Forgets the job, and nothing of it may be left.
    fn forget(self) {
        self.runtime.block_on(self.backend.forget(self.id())).unwrap();
        let error = self.runtime.block_on(self.backend.observe(self.id())).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        self.assert_nothing_is_left();
    }

    fn assert_nothing_is_left(&self) {
        let selector = format!("paddlecloud/job={}", self.id());
        wait_for("nothing is left", || self.cluster.left(&selector).is_empty().then_some(()));
    }
}

#[test]
fn a_job_runs_and_its_output_is_there_after_its_end() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo trainer $PADDLE_TRAINER_ID of $TRAINERS at $PADDLE_INIT_PSERVERS";
    let job = Job::new(&cluster, "runs", 2, script);
    assert_eq!(job.submit(), Accepted::New);
    assert_eq!(job.submit(), Accepted::Known);
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Succeeded, Some(0)), "{record:#?}");
    for rank in 0..2 {
        let text = job.text(&format!("trainer-{rank}"));
        let servers = "runs-pserver-0.runs,runs-pserver-1.runs";
        assert!(text.contains(&format!("trainer {rank} of 2 at {servers}\n")), "{text}");
    }
    let list = job.runtime.block_on(job.backend.list("test", None)).unwrap();
    assert!(list.iter().any(|one| one.id == "runs" && one.state == JobState::Succeeded));
    let other = job.runtime.block_on(job.backend.list("other", None)).unwrap();
    assert!(other.is_empty(), "{other:?}");
    job.forget();
}

#[test]
fn another_job_under_a_known_id_is_a_conflict() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "conflict", 1, "sleep 1000");
    job.submit();
    let other = Job::new(&cluster, "conflict", 1, "true");
    let refused = other.runtime.block_on(other.backend.submit(&other.submission, None));
    assert_eq!(refused.unwrap_err().kind(), Kind::Conflict);
    let error = job.runtime.block_on(job.backend.forget(job.id())).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "it has not ended");
    job.kill();
    assert_eq!(job.await_end().state, JobState::Killed);
    job.forget();
}

#[test]
fn a_failing_trainer_ends_the_job_with_its_exit_code() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "if [ $PADDLE_TRAINER_ID = 1 ]; then echo the cause >&2; exit 42; fi; sleep 1000";
    let job = Job::new(&cluster, "fails", 2, script);
    job.submit();
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(42)), "{record:#?}");
    assert_eq!(record.culprit, Some("trainer-1".parse().unwrap()));
    assert!(record.reason.contains("trainer-1 failed: exit code 42"), "{}", record.reason);
    assert!(job.text("trainer-1").contains("the cause\n"), "{}", job.text("trainer-1"));
    job.forget();
}

/// Old and new servers are never mixed: the job ends, or all pods start again.
#[test]
fn a_server_that_dies_ends_the_job_or_starts_it_again() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo attempt $PADDLE_ATTEMPT; [ $PADDLE_ATTEMPT = 1 ] || sleep 1000";
    for has_volcano in [true, false] {
        let job = Job::new(&cluster, &format!("server-{has_volcano}"), 1, script);
        let job = if has_volcano { job } else { job.without_volcano() };
        job.submit();
        job.await_text("trainer-0", "attempt 0");
        job.kill_server();
        let record = job.await_end();
        assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(137)), "{record:#?}");
        // From the termination log of its pod.
        assert!(record.reason.contains("pserver-0 failed: exit code 137"), "{}", record.reason);
        job.forget();
    }
    let job = Job::new(&cluster, "server-again", 1, script).with(|spec| spec.restarts = 1);
    job.submit();
    job.await_text("trainer-0", "attempt 0");
    job.kill_server();
    let record = job.await_end();
    assert_eq!((record.state, record.rounds), (JobState::Succeeded, 1), "{record:#?}");
    job.forget();
}

/// A StatefulSet and an Indexed Job: what trainers printed is there after the end, servers are not,
/// and what only Volcano can do is refused.
#[test]
fn a_job_runs_without_volcano() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo trainer $PADDLE_TRAINER_ID of $TRAINERS at $PADDLE_INIT_PSERVERS";
    let job = Job::new(&cluster, "plain", 2, script).without_volcano();
    assert_eq!(job.submit(), Accepted::New);
    assert_eq!(job.submit(), Accepted::Known);
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Succeeded, Some(0)), "{record:#?}");
    assert!(record.notes.iter().any(|note| note.contains("without Volcano")), "{record:#?}");
    for rank in 0..2 {
        let text = job.text(&format!("trainer-{rank}"));
        let servers = "plain-pserver-0.plain,plain-pserver-1.plain";
        assert!(text.contains(&format!("trainer {rank} of 2 at {servers}\n")), "{text}");
    }
    let servers = cluster.ask(&["get", "pods", "-l", "paddle-job-pserver=plain", "-o", "name"]);
    assert_eq!(servers, "");
    job.forget();
    let job = Job::new(&cluster, "plain", 1, "true").without_volcano();
    let job = job.with(|spec| spec.queue = "fast".to_owned());
    let refused = job.runtime.block_on(job.backend.submit(&job.submission, None)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Unsupported);
    assert!(refused.to_string().contains("queue cannot be honoured"), "{refused}");
    job.assert_nothing_is_left();
}

/// Neither a whole job that does not fit nor one of which a part does is silent about it.
#[test]
fn without_volcano_a_job_that_does_not_fit_says_why() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "plain-big", 1, "true").without_volcano();
    let job = job.with(|spec| spec.resources.trainer.cpu = Some(Quantity::whole(400)));
    job.submit();
    let record =
        wait_for("it waits", || Some(job.observe()).filter(|record| record.reason.contains("cpu")));
    assert!(!record.state.is_final(), "{record:#?}");
    job.kill();
    assert_eq!(job.await_end().state, JobState::Killed);
    job.forget();
}

/// Nothing makes pods for it any more, and nobody waits for them.
#[test]
fn a_job_whose_objects_were_deleted_fails() {
    let Some(cluster) = Cluster::find() else { return };
    for (has_volcano, kind) in [(true, "jobs.batch.volcano.sh/gone-"), (false, "jobs.batch/gone-")]
    {
        let id = format!("gone-{has_volcano}");
        let job = Job::new(&cluster, &id, 1, "echo started; sleep 1000");
        let job = if has_volcano { job } else { job.without_volcano() };
        job.submit();
        job.await_text("trainer-0", "started");
        let suffix = if has_volcano { "" } else { "-trainer" };
        cluster.ask(&["delete", &format!("{kind}{has_volcano}{suffix}"), "--wait=false"]);
        let record = job.await_end();
        assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
        assert!(record.reason.contains("somebody has deleted it"), "{}", record.reason);
        job.forget();
    }
}

#[test]
fn a_failed_program_is_started_again_when_asked_for() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo attempt $PADDLE_ATTEMPT; [ $PADDLE_ATTEMPT = 1 ] || kill -KILL $$";
    let job = Job::new(&cluster, "again", 1, script).with(|spec| spec.restarts = 2);
    job.submit();
    let record = job.await_end();
    assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
    let text = job.text("trainer-0");
    let printed: Vec<&str> = text.lines().filter(|line| line.starts_with("attempt")).collect();
    assert_eq!(printed, ["attempt 0", "attempt 1"], "{text}");
    job.forget();
}

/// A program prints what it likes, and all of it is read from the pod, while it runs and afterwards.
#[test]
fn output_that_is_no_text_is_read_as_it_is() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script =
        "printf 'caf\\351\\377\\n'; until [ -e /shared/go ]; do sleep 0.2; done; printf '\\376'";
    let job = Job::new(&cluster, "bytes", 1, script).on_volume(folder.path(), "/shared");
    job.submit();
    let read = || {
        let (replica, cursor) = ("trainer-0".parse().unwrap(), Cursor::default());
        let piece = job.backend.logs(job.id(), replica, &cursor);
        job.runtime.block_on(piece).unwrap()
    };
    let is_in = |bytes: &[u8], words: &[u8]| bytes.windows(words.len()).any(|own| own == words);
    wait_for("it prints", || is_in(&read().bytes, b"caf\xe9\xff\n").then_some(()));
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(job.await_end().state, JobState::Succeeded);
    let piece = wait_for("all is read", || Some(read()).filter(|piece| piece.is_last));
    for words in [&b"caf\xe9\xff\n"[..], b"\xfe"] {
        assert!(is_in(&piece.bytes, words), "{:?}", piece.bytes);
    }
    job.forget();
}

#[test]
fn a_killed_job_leaves_nothing() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "killed", 1, "echo started; sleep 1000");
    job.submit();
    wait_for("it runs", || job.text("trainer-0").contains("started").then_some(()));
    assert_eq!(job.observe().state, JobState::Running);
    job.kill();
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Killed, Some(143)), "{record:#?}");
    let pods = cluster.ask(&["get", "pods", "-l", "paddlecloud/job=killed", "-o", "name"]);
    assert_eq!(pods, "");
    job.forget();
}

/// All or nothing: no pod of a job that does not fit runs, and the reason says what is missing.
#[test]
fn a_job_that_does_not_fit_waits_whole_and_says_why() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "too-big", 2, "true")
        .with(|spec| spec.resources.trainer.cpu = Some(Quantity::whole(400)));
    job.submit();
    let record =
        wait_for("it waits", || Some(job.observe()).filter(|record| record.reason.contains("cpu")));
    assert_eq!(record.state, JobState::Pending, "{record:#?}");
    assert!(record.reason.contains("the job asks for cpu 800, and 3 nodes have"), "{record:#?}");
    let phases =
        ["get", "pods", "-l", "paddlecloud/job=too-big", "-o", "jsonpath={.items[*].status.phase}"];
    assert!(!cluster.ask(&phases).contains("Running"));
    job.kill();
    assert_eq!(job.await_end().state, JobState::Killed);
    job.forget();
}

/// The cluster refuses the job after its Secret was made: that goes too.
#[test]
fn a_refused_job_leaves_nothing() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "refused", 1, "true").with(|spec| spec.queue = "none".to_owned());
    let refused = job.runtime.block_on(job.backend.submit(&job.submission, None)).unwrap_err();
    assert!(refused.to_string().contains("none"), "{refused}");
    job.assert_nothing_is_left();
}

/// A node is emptied: the job starts again as a whole.
#[test]
fn an_evicted_pod_starts_the_job_again() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo round $PADDLE_ATTEMPT; [ $PADDLE_ATTEMPT = 1 ] || sleep 1000";
    for victim in ["trainer-0", "pserver-0"] {
        let id = format!("evicted-{victim}");
        let job = Job::new(&cluster, &id, 1, script).with(|spec| spec.restarts = 1);
        job.submit();
        job.await_text("trainer-0", "round 0");
        job.evict(victim);
        let record = job.await_end();
        assert_eq!((record.state, record.rounds), (JobState::Succeeded, 1), "{record:#?}");
        // Both lives are in the log.
        let text = job.text_of_all("trainer-0");
        assert!(text.contains("round 0\n") && text.contains("round 1\n"), "{text}");
        job.forget();
    }
}

/// Another server would take its name, with none of its values.
#[test]
fn without_volcano_an_evicted_server_ends_the_job() {
    let Some(cluster) = Cluster::find() else { return };
    let job = Job::new(&cluster, "plain-evicted", 1, "echo started; sleep 1000").without_volcano();
    job.submit();
    job.await_text("trainer-0", "started");
    // Output may be seen before the state of its pod is.
    wait_for("it runs", || (job.observe().state == JobState::Running).then_some(()));
    job.evict("pserver-0");
    let record = job.await_end();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert_eq!(record.culprit, Some("pserver-0".parse().unwrap()), "{record:#?}");
    let words = "pod plain-evicted-pserver-0 was deleted before the job was over";
    assert!(record.reason.contains(words), "{}", record.reason);
    job.forget();
}

/// Not even a scheduler sees a pod that the namespace's quota forbids.
#[test]
fn a_quota_that_is_exceeded_is_named() {
    let Some(cluster) = Cluster::alone() else { return };
    cluster.ask(&["create", "quota", "small", "--hard=pods=1"]);
    for has_volcano in [true, false] {
        let job = Job::new(&cluster, &format!("quota-{has_volcano}"), 1, "true");
        let job = if has_volcano { job } else { job.without_volcano() };
        job.submit();
        let is_told = |record: &JobRecord| record.reason.contains("exceeded quota: small");
        let record = wait_for("it says why", || Some(job.observe()).filter(is_told));
        assert!(!record.state.is_final(), "{record:#?}");
        assert!(!record.reason.contains("StatusError"), "{}", record.reason);
        job.kill();
        assert_eq!(job.await_end().state, JobState::Killed);
        job.forget();
    }
    cluster.ask(&["delete", "quota", "small"]);
}

#[test]
fn a_job_that_waits_starts_when_another_ends() {
    let Some(cluster) = Cluster::alone() else { return };
    // Of three nodes, two for each.
    let whole = |spec: &mut JobSpec| {
        let cores = std::thread::available_parallelism().unwrap().get();
        spec.resources.trainer.cpu = Some(Quantity::whole(u32::try_from(cores).unwrap()));
        spec.pservers = 0;
    };
    let first = Job::new(&cluster, "first", 2, "echo started; sleep 1000").with(whole);
    first.submit();
    wait_for("it runs", || first.text("trainer-1").contains("started").then_some(()));
    let second = Job::new(&cluster, "second", 2, "true").with(whole);
    second.submit();
    let is_told = |record: &JobRecord| record.reason.contains("are in use");
    let record = wait_for("it waits", || Some(second.observe()).filter(is_told));
    assert_eq!(record.state, JobState::Pending, "{record:#?}");
    assert!(record.replicas.iter().all(|replica| replica.started_ms.is_none()), "{record:#?}");
    first.kill();
    assert_eq!(second.await_end().state, JobState::Succeeded);
    assert_eq!(first.await_end().state, JobState::Killed);
    first.forget();
    second.forget();
}

/// Trainers come and go while the first one trains.
#[test]
fn an_elastic_job_is_scaled() {
    let Some(cluster) = Cluster::find() else { return };
    let script = "echo trainer $PADDLE_TRAINER_ID; \
                  trap 'echo leaving; exit 0' TERM; \
                  until [ -e /shared/go ]; do sleep 0.2; done";
    let folder = tempfile::tempdir().unwrap();
    let job = Job::new(&cluster, "elastic", 2, script)
        .with(|spec| {
            (spec.pservers, spec.master) = (1, true);
            spec.fault_tolerance = Some(FaultTolerance { min_trainers: 1, max_trainers: 3 });
        })
        .on_volume(folder.path(), "/shared");
    job.submit();
    let runs = |rank: u32| {
        let text = format!("trainer {rank}\n");
        job.text(&format!("trainer-{rank}")).contains(&text).then_some(())
    };
    wait_for("two run", || runs(0).and(runs(1)));
    let scale = |count: u32| job.runtime.block_on(job.backend.scale(job.id(), count));
    assert_eq!(scale(4).unwrap_err().kind(), Kind::Invalid);
    scale(3).unwrap();
    wait_for("the third runs", || {
        let has_three = job.observe().trainers == 3;
        if has_three { runs(2) } else { None }
    });
    scale(1).unwrap();
    wait_for("two have left", || {
        let pods = cluster.ask(&["get", "pods", "-l", "paddle-job=elastic", "-o", "name"]);
        (pods == "pod/elastic-trainer-0\n").then_some(())
    });
    assert_eq!(job.observe().state, JobState::Running);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let record = job.await_end();
    assert_eq!((record.state, record.trainers), (JobState::Succeeded, 1), "{record:#?}");
    job.forget();
}
