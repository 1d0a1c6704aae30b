//! Every field of a job is honoured, or refused by its name.

use crate::backend::job::{Harness, Job};
use crate::backend::places::USER;
use contract::Kind;
use contract::job::{JobSpec, Priority};
use contract::quantity::Quantity;
use contract::secret::Secret;
use contract::state::JobState;
use scheduler::ssh::package::Manifest;
use scheduler::submission::{LocalPlace, Mount, MpiPlace, Package, Place};
use scheduler::{Backend, Submission};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

pub(crate) fn a_field_that_cannot_be_honoured_is_refused_by_name(harness: &dyn Harness) {
    let refused = |field: &str, change: fn(&mut JobSpec)| {
        let job = Job::new(harness, 1, "true").with(change);
        let error = job.try_submit().unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains(&format!("field: {field}")), "{error}");
        assert!(!job.directory().exists(), "nothing was accepted");
    };
    refused("image", |spec| spec.image = "paddle:latest".to_owned());
    refused("registry", |spec| spec.registry = "mine".to_owned());
    refused("queue", |spec| spec.queue = "night".to_owned());
    refused("priority", |spec| spec.priority = Priority::High);
    refused("resources", |spec| {
        (spec.pservers, spec.resources.pserver.cpu) = (0, Some(Quantity::whole(1)));
    });
    refused("master", |spec| {
        spec.program.clear();
        (spec.topology, spec.master) = ("trainer_config.py".to_owned(), true);
    });
    let job = Job::new(harness, 1, "true").with(|spec| spec.trainers = 0);
    assert_eq!(job.try_submit().unwrap_err().kind(), Kind::Invalid);
    let job = Job::new(harness, 1, "touch started; exec sleep 1000");
    job.submit().await_file(0, "started");
    let error = job.block(job.jobs.scale(job.id(), 3)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

/// Fields of a submission beside those of its spec.
pub(crate) fn what_only_some_places_have_is_refused_by_name(harness: &dyn Harness) {
    let refused = |field: &str, change: &dyn Fn(&mut Submission)| {
        let mut job = Job::new(harness, 1, "true");
        change(&mut job.submission);
        let error = job.try_submit().unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains(&format!("field: {field}")), "{error}");
        assert!(!job.directory().exists(), "nothing was accepted");
    };
    refused("secrets", &|job| {
        job.secrets.insert("registry".to_owned(), Secret::new("sesame"));
    });
    refused("staged", &|job| {
        job.spec.program.clear();
        (job.spec.topology, job.spec.staged) = ("trainer_config.py".to_owned(), true);
    });
    let place = Job::new(harness, 1, "true").submission.place.clone();
    if !matches!(place, Place::Local(_)) {
        refused("run_as", &|job| job.run_as = Some(USER));
    }
    if !matches!(place, Place::Local(LocalPlace { sandbox: Some(_), .. })) {
        let (source, target) = ("/".into(), "/data".into());
        let mount = Mount { source, target, is_read_only: true };
        refused("mounts", &|job| job.mounts.push(mount.clone()));
    }
    if let Place::Ssh(_) = place {
        // What lies outside of the job's directory is not brought back.
        let job = Job::new(harness, 1, "true").with(|spec| spec.log_dir = ".".to_owned());
        let error = job.try_submit().unwrap_err();
        assert!(error.to_string().contains("field: log_dir, value: ."), "{error}");
        for directory in ["/logs", "../logs", "a/../../b"] {
            let job = Job::new(harness, 1, "true").with(|spec| spec.log_dir = directory.to_owned());
            let error = job.try_submit().unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains("field: log_dir, value: "), "{error}");
            let change = |spec: &mut JobSpec| spec.output_dir = directory.to_owned();
            let error = Job::new(harness, 1, "true").with(change).try_submit().unwrap_err();
            assert!(error.to_string().contains("field: output_dir, value: "), "{error}");
        }
    }
    if let Place::Mpi(_) = place {
        refused("package", &|job| job.package = Package::Dispatch(Manifest::default()));
    }
}

/// Slurm deals GPUs out itself, and who has a sandbox sees numbers of its own.
pub(crate) fn no_two_trainers_have_the_same_gpu(harness: &dyn Harness) {
    let script = "echo [$CUDA_VISIBLE_DEVICES]; touch $MARKER/shared/$PADDLE_TRAINER_ID; \
                  until [ -e $MARKER/shared/0 -a -e $MARKER/shared/1 ]; do sleep 0.01; done";
    let mut job = Job::new(harness, 2, script);
    let (name, among) = ("CUDA_VISIBLE_DEVICES".to_owned(), "4,GPU-7");
    let folder = job.folder().to_owned();
    match &mut job.submission.place {
        Place::Local(LocalPlace { sandbox: None, environment, .. })
        | Place::Mpi(MpiPlace { environment, .. }) => {
            environment.insert(name, among.to_owned());
        }
        Place::Ssh(place) => {
            let wrapper = folder.join("paddle");
            let paddle = env!("CARGO_BIN_EXE_paddle");
            let text = format!("#!/bin/sh\nexport {name}={among}\nexec {paddle} \"$@\"\n");
            std::fs::write(&wrapper, text).unwrap();
            std::fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).unwrap();
            place.paddle = wrapper.to_str().unwrap().to_owned();
            place.hosts.truncate(1);
        }
        _ => return,
    }
    let job = job.with(|spec| spec.resources.trainer.gpu = Quantity::whole(1));
    job.succeed();
    let mut seen = [job.text("trainer-0"), job.text("trainer-1")];
    seen.sort();
    assert_eq!(seen, ["[4]\n", "[GPU-7]\n"]);
}

/// Slurm knows itself how many there are, and has words of its own.
pub(crate) fn more_gpus_than_there_are_fail_the_job_with_that_reason(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "true");
    let job = job.with(|spec| spec.resources.trainer.gpu = Quantity::whole(64));
    let is_slurm = matches!(job.submission.place, Place::Slurm(_));
    let record = job.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    let why = if is_slurm { "Slurm" } else { "it wants 64 GPUs: this machine has" };
    assert!(record.reason.contains(why), "{}", record.reason);
}

pub(crate) fn a_checkpoint_folder_is_one_for_all_servers(harness: &dyn Harness) {
    let job = Job::new(harness, 2, "true").with(|spec| spec.checkpoint.dir = "kept".to_owned());
    let record = job.run();
    let is_shared = harness.workspace(job.folder(), 0) == harness.workspace(job.folder(), 1);
    if is_shared {
        assert_eq!(record.state, JobState::Succeeded, "{record:#?}");
        return;
    }
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("the checkpoint folder on"), "{}", record.reason);
    assert!(record.reason.contains("/kept"), "{}", record.reason);
    assert!(record.replicas.is_empty(), "nothing was started: {record:#?}");
    let job = Job::new(harness, 2, "true");
    let folder = job.folder().join("kept").to_str().unwrap().to_owned();
    job.with(|spec| spec.checkpoint.dir = folder).succeed();
}

pub(crate) fn the_time_limit_ends_the_job(harness: &dyn Harness) {
    let job =
        Job::new(harness, 1, "exec sleep 1000").with(|spec| spec.time_limit_seconds = Some(4));
    let record = job.run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("time limit of 4 s"), "{}", record.reason);
}

pub(crate) fn too_much_memory_ends_the_replica_with_that_reason(harness: &dyn Harness) {
    let program = "import time; hog = bytearray(300 << 20); hog[::4096] = b'x' * len(hog[::4096])\n\
                   time.sleep(1000)";
    let job = Job::of(harness, 1, &["python3", "-c", program]);
    let job = job.with(|spec| {
        spec.resources.trainer.memory = Some("64Mi".parse::<Quantity>().unwrap());
    });
    let record = job.run();
    assert_eq!(record.exit_code, Some(137), "{record:#?}");
    assert!(record.reason.contains("more than the 64 MiB of memory"), "{}", record.reason);
}
