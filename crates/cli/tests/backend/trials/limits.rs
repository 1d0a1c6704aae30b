//! Every field of a job is honoured, or refused by its name.

use crate::backend::job::{Harness, Job};
use contract::Kind;
use contract::job::{JobSpec, Priority};
use contract::quantity::Quantity;
use contract::state::JobState;
use scheduler::Backend;

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
