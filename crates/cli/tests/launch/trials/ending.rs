//! Jobs that are ended from outside, and what must not be left.

use crate::launch::job::{Harness, Job, signal};

pub(crate) fn an_interrupt_lets_programs_finish(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let script = "trap 'echo saved > saved-$PADDLE_TRAINER_ID; exit 0' TERM; \
                  touch started-$PADDLE_TRAINER_ID; while :; do sleep 0.01; done";
    let launch = job.start(&[], script);
    for rank in 0..2 {
        job.await_file(rank, &format!("started-{rank}"));
    }
    signal(launch.id(), "INT");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 130, "{ended:?}");
    for rank in 0..2 {
        assert_eq!(job.file(rank, &format!("saved-{rank}")), b"saved\n");
    }
}

/// The grace ends, or a second signal ends it earlier.
pub(crate) fn a_termination_ends_what_does_not_listen(harness: &dyn Harness) {
    let job = Job::new(harness, 1);
    let script = "trap 'touch asked' TERM; touch started; while :; do sleep 0.01; done";
    let launch = job.start(&[], script);
    job.await_file(0, "started");
    signal(launch.id(), "TERM");
    job.await_file(0, "asked");
    signal(launch.id(), "TERM");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 143, "{ended:?}");
}

pub(crate) fn a_killed_launcher_takes_all_down(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let script = "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 1000' & \
                  touch started-$PADDLE_TRAINER_ID; sleep 1000";
    let launch = job.start(&[], script);
    for rank in 0..2 {
        job.await_file(rank, &format!("started-{rank}"));
    }
    signal(launch.id(), "KILL");
    let ended = job.finish(launch);
    assert_eq!(ended.code, 137, "{ended:?}");
}

/// Two forks and a session of its own: neither parent, group nor session lead to it.
pub(crate) fn daemons_of_programs_end_with_the_job(harness: &dyn Harness) {
    let daemon = "(setsid sh -c 'sleep 1000 & echo $! > daemon-$PADDLE_TRAINER_ID' &)";
    let job = Job::new(harness, 1);
    let wait = "until [ -s daemon-$PADDLE_TRAINER_ID ]; do sleep 0.01; done";
    let ended = job.run(&[], &format!("{daemon}; {wait}; echo done"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let failed = Job::new(harness, 1).run(&[], &format!("{daemon}; {wait}; exit 9"));
    assert_eq!(failed.code, 9, "{failed:?}");
}
