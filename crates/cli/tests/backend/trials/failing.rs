//! Jobs that fail, or nearly.

use crate::backend::job::{Harness, Job, signal};
use contract::state::JobState;

pub(crate) fn the_first_failing_trainer_ends_the_job(harness: &dyn Harness) {
    let script = "if [ $PADDLE_TRAINER_ID = 1 ]; then echo the cause >&2; exit 42; fi; \
                  exec sleep 1000";
    let job = Job::new(harness, 2, script);
    let record = job.run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(42)), "{record:#?}");
    assert_eq!(record.culprit, Some("trainer-1".parse().unwrap()));
    assert!(record.reason.contains("trainer-1 failed"), "{}", record.reason);
    assert_eq!(job.text("trainer-1"), "the cause\n");
}

/// Looks for its job's server 0 among the processes it can see, and kills it.
const KILL_SERVER: &str = "
import os, signal, sys, time
if os.environ['PADDLE_TRAINER_ID'] == '0' and os.environ['PADDLE_ATTEMPT'] == '0':
    marker = ('MARKER=' + os.environ['MARKER']).encode()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            told = open(f'/proc/{pid}/environ', 'rb').read().split(b'\\0')
        except OSError:
            continue
        if marker in told and b'TRAINING_ROLE=PSERVER' in told and b'PADDLE_TRAINER_ID=0' in told:
            os.kill(int(pid), signal.SIGKILL)
";

pub(crate) fn a_dying_server_ends_the_job(harness: &dyn Harness) {
    let program = format!("{KILL_SERVER}\ntime.sleep(1000)");
    let record = Job::of(harness, 2, &["python3", "-c", &program]).run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(137)), "{record:#?}");
    assert!(record.reason.contains("pserver-0 failed"), "{}", record.reason);
    assert!(record.reason.contains("out of memory"), "{}", record.reason);
}

/// Old and new servers are never mixed: all replicas start again.
pub(crate) fn a_dying_server_takes_all_back_when_restarts_are_left(harness: &dyn Harness) {
    let program = format!(
        "{KILL_SERVER}\nprint('attempt', os.environ['PADDLE_ATTEMPT'], flush=True)\n\
         if os.environ['PADDLE_ATTEMPT'] == '0': time.sleep(1000)"
    );
    let job = Job::of(harness, 2, &["python3", "-c", &program]).with(|spec| spec.restarts = 1);
    let record = job.succeed();
    assert_eq!(record.rounds, 1, "{record:#?}");
    for replica in &record.replicas {
        assert_eq!(replica.attempt, 1, "{record:#?}");
    }
    assert!(job.text("trainer-1").ends_with("attempt 1\n"), "{}", job.text("trainer-1"));
}

/// As an operator or a shutdown does it: the server ends in order, but its job is not over.
pub(crate) fn a_server_that_a_signal_ends_is_a_fault_like_any_other(harness: &dyn Harness) {
    let script = "touch started; [ $PADDLE_ATTEMPT = 1 ] || exec sleep 1000";
    let end = |role: &str, restarts: u32| {
        let job = Job::new(harness, 1, script).with(|spec| {
            (spec.master, spec.restarts) = (role == "master", restarts);
        });
        job.submit().await_file(0, "started");
        let servers = job.processes_running(role);
        assert!(!servers.is_empty() && servers.iter().all(|pid| signal(*pid, "TERM")));
        job.await_end()
    };
    for role in ["pserver", "master"] {
        let record = end(role, 0);
        assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
        let words = format!("{role}-0 failed: a signal ended it before the job was over");
        assert!(record.reason.contains(&words), "{}", record.reason);
    }
    let record = end("pserver", 1);
    assert_eq!((record.state, record.rounds), (JobState::Succeeded, 1), "{record:#?}");
}

pub(crate) fn a_command_that_cannot_run_is_named(harness: &dyn Harness) {
    let check = |program: &str, code: i32, words: &str| {
        let record = Job::of(harness, 1, &[program]).run();
        assert_eq!(record.exit_code, Some(code), "{record:#?}");
        assert!(record.reason.contains(program), "{}", record.reason);
        assert!(record.reason.contains(words), "{}", record.reason);
    };
    check("no-such-command", 127, "no such command in PATH");
    check("./no such file", 127, "no such file");
    check("/etc/passwd", 126, "executable");
}

pub(crate) fn exit_codes_are_the_programs_own(harness: &dyn Harness) {
    let check = |script: &str, code: i32, words: &str| {
        let record = Job::new(harness, 1, script).run();
        assert_eq!(record.exit_code, Some(code), "{record:#?}");
        assert!(record.reason.contains(words), "{}", record.reason);
    };
    check("exit 0", 0, "all trainers finished");
    check("exit 1", 1, "the program failed");
    check("exit 3", 3, "exited with code 3");
    check("kill -ABRT $$", 134, "abort");
    check("kill -KILL $$", 137, "out of memory");
    check("kill -SEGV $$", 139, "segmentation fault");
}

pub(crate) fn a_failed_trainer_is_started_again_when_asked_for(harness: &dyn Harness) {
    let script = "echo attempt $PADDLE_ATTEMPT; \
                  [ $PADDLE_TRAINER_ID = 0 ] || [ $PADDLE_ATTEMPT = 1 ] || kill -KILL $$";
    let job = Job::new(harness, 2, script).with(|spec| spec.restarts = 2);
    job.succeed();
    assert_eq!(job.text("trainer-0"), "attempt 0\n");
    assert_eq!(job.text("trainer-1"), "attempt 0\nattempt 1\n");
}

pub(crate) fn restarts_end(harness: &dyn Harness) {
    let job =
        Job::new(harness, 1, "echo attempt $PADDLE_ATTEMPT; exit 5").with(|spec| spec.restarts = 1);
    let record = job.run();
    assert_eq!(record.exit_code, Some(5), "{record:#?}");
    assert_eq!(job.text("trainer-0"), "attempt 0\nattempt 1\n");
    assert!(record.reason.contains("trainer-0 failed after 1 of 1 restarts"), "{}", record.reason);
    // What is not there will not be there the second time either.
    let job = Job::of(harness, 1, &["no-such-command"]).with(|spec| spec.restarts = 9);
    let record = job.run();
    assert_eq!((record.exit_code, record.replicas[1].attempt), (Some(127), 0), "{record:#?}");
}

/// A job that only looks distributed has not done what was asked for.
pub(crate) fn servers_that_nobody_used_are_named(harness: &dyn Harness) {
    let record = Job::new(harness, 1, "true").with(|spec| spec.allow_idle = false).run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("no trainer used pserver-0"), "{}", record.reason);
}

/// Somebody else has the port: the server ends, and the reason is in its log.
pub(crate) fn a_server_that_cannot_serve_ends_the_job(harness: &dyn Harness) {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let job = Job::new(harness, 1, "echo trained").with(|spec| spec.ports.first = port);
    let record = job.run();
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)), "{record:#?}");
    assert!(record.reason.contains("pserver-0 failed"), "{}", record.reason);
    assert!(job.text("pserver-0").contains(&port.to_string()), "{}", job.text("pserver-0"));
    assert_eq!(job.text("trainer-0"), "");
}
