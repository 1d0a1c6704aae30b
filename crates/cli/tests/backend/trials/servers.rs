//! Servers that are slow, silent, noisy or short-lived.

use crate::backend::job::{Harness, Job};
use contract::state::JobState;
use scheduler::submission::Place;
use std::os::unix::fs::PermissionsExt;

/// A job of one trainer and one server. The server is this script; `$PADDLE` in it is the command
/// that it takes the place of, with the arguments of the server.
fn job<'a>(harness: &'a dyn Harness, server: &str, trainer: &str) -> Job<'a> {
    let mut job = Job::new(harness, 1, trainer);
    let path = job.folder().join("paddle");
    let paddle = env!("CARGO_BIN_EXE_paddle");
    let script = format!(
        "#!/bin/sh\nPADDLE='{paddle}'\ncase $1 in\npserver) {server};;\n\
         *) exec $PADDLE \"$@\";;\nesac\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    if let Place::Ssh(ssh) = &mut job.submission.place {
        ssh.paddle = path.to_str().unwrap().to_owned();
    }
    job
}

pub(crate) fn a_slow_server_is_waited_for(harness: &dyn Harness) {
    let server = "until [ -e go ]; do sleep 0.01; done; exec $PADDLE \"$@\"";
    let job = job(harness, server, "echo trained");
    job.submit();
    job.wait_until("the server was started", || {
        job.observe().replicas.first().is_some_and(|server| server.pid.is_some())
    });
    assert_eq!(job.text("trainer-0"), "", "trainers wait for servers");
    job.write(0, "go", "");
    assert_eq!(job.await_end().state, JobState::Succeeded);
    assert_eq!(job.text("trainer-0"), "trained\n");
}

pub(crate) fn a_silent_server_is_named_after_its_time(harness: &dyn Harness) {
    let record = job(harness, "echo thinking; exec sleep 1000", "echo trained")
        .with(|spec| spec.ready_seconds = 3)
        .run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("pserver-0 did not get ready within 3 s"), "{}", record.reason);
    assert!(record.reason.contains("--ready_timeout"), "{}", record.reason);
}

pub(crate) fn a_server_that_ends_before_it_is_ready_fails_the_job(harness: &dyn Harness) {
    let short = job(harness, "echo bye; exit 0", "echo trained");
    let record = short.run();
    assert_eq!(record.state, JobState::Failed, "{record:#?}");
    assert!(record.reason.contains("it ended before it was ready"), "{}", record.reason);
    assert_eq!(short.text("pserver-0"), "bye\n");
    let record = job(harness, "exit 7", "echo trained").run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(7)), "{record:#?}");
}

pub(crate) fn a_server_that_is_killed_while_it_starts_is_a_fault_like_any_other(
    harness: &dyn Harness,
) {
    let server = "[ $PADDLE_ATTEMPT = 0 ] && kill -KILL $$; exec $PADDLE \"$@\"";
    let job = job(harness, server, "echo trained").with(|spec| spec.restarts = 1);
    assert_eq!(job.succeed().rounds, 1);
    assert_eq!(job.text("trainer-0"), "trained\n");
}

pub(crate) fn the_time_limit_counts_while_machines_are_reached(harness: &dyn Harness) {
    let mut job = job(harness, "exit 1", "echo trained").with(|spec| {
        spec.time_limit_seconds = Some(2);
    });
    let folder = job.folder().to_owned();
    if let Place::Ssh(ssh) = &mut job.submission.place {
        let path = folder.join("hangs");
        std::fs::write(&path, "#!/bin/sh\nexec cat > /dev/null\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        ssh.paddle = path.to_str().unwrap().to_owned();
    }
    let record = job.run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("time limit of 2 s"), "{}", record.reason);
}

pub(crate) fn noise_before_the_readiness_line_is_passed_over(harness: &dyn Harness) {
    let server = "head -c 200000 /dev/zero | tr '\\0' x; echo; printf '\\377\\n{\"paddle_ready\"\\n'; \
                  exec $PADDLE \"$@\"";
    job(harness, server, "echo trained").succeed();
}
