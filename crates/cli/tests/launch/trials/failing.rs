//! Jobs that fail, or nearly.

use crate::launch::job::{Harness, Job, spawn};

pub(crate) fn the_first_failing_trainer_ends_the_job(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let script = "if [ $PADDLE_TRAINER_ID = 1 ]; then seq 30; echo the cause >&2; exit 42; fi; \
                  exec sleep 1000";
    let ended = job.run(&[], script);
    assert_eq!(ended.code, 42, "{ended:?}");
    assert!(ended.stderr.contains("trainer-1 failed"), "{ended:?}");
    // The last twenty lines, and no more.
    assert!(ended.stderr.contains("    12\n"), "{ended:?}");
    assert!(!ended.stderr.contains("    11\n"), "{ended:?}");
    assert!(ended.stderr.contains("    the cause\n"), "{ended:?}");
    let log = harness.trainer_log(job.folder(), 1);
    assert!(ended.stderr.contains(log.file_name().unwrap().to_str().unwrap()), "{ended:?}");
}

/// Trainer 0 looks for the server among the processes it can see, and kills it.
pub(crate) fn a_dying_server_ends_the_job(harness: &dyn Harness) {
    let program = "
import os, signal, sys, time
if os.environ['PADDLE_TRAINER_ID'] == '0':
    token = ('PADDLE_JOB_TOKEN=' + os.environ['PADDLE_JOB_TOKEN']).encode()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            told = open(f'/proc/{pid}/environ', 'rb').read().split(b'\\0')
        except OSError:
            continue
        if token in told and b'TRAINING_ROLE=PSERVER' in told and b'PADDLE_TRAINER_ID=0' in told:
            os.kill(int(pid), signal.SIGKILL)
time.sleep(1000)
";
    let job = Job::new(harness, 2);
    let ended = job.finish(spawn(job.command(&[], &["python3", "-c", program])));
    assert_eq!(ended.code, 137, "{ended:?}");
    assert!(ended.stderr.contains("pserver-0 failed"), "{ended:?}");
    assert!(ended.stderr.contains("out of memory"), "{ended:?}");
}

pub(crate) fn a_command_that_cannot_run_is_named(harness: &dyn Harness) {
    let check = |program: &str, code: i32, words: &str| {
        let job = Job::new(harness, 1);
        let ended = job.finish(spawn(job.command(&[], &[program])));
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(program) && ended.stderr.contains(words), "{ended:?}");
    };
    check("no-such-command", 127, "no such command in PATH");
    check("./no such file", 127, "no such file");
    check("/etc/passwd", 126, "executable");
}

pub(crate) fn exit_codes_are_the_programs_own(harness: &dyn Harness) {
    let check = |script: &str, code: i32, words: &str| {
        let ended = Job::new(harness, 1).run(&[], script);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    };
    check("exit 0", 0, "");
    check("exit 1", 1, "the program failed");
    check("exit 3", 3, "exited with code 3");
    check("exit 255", 255, "exited with code 255");
    check("kill -ABRT $$", 134, "abort");
    check("kill -FPE $$", 136, "floating-point trap");
    check("kill -KILL $$", 137, "out of memory");
    check("kill -SEGV $$", 139, "segmentation fault");
}

pub(crate) fn a_failed_trainer_is_started_again_when_asked_for(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let script = "echo attempt $PADDLE_ATTEMPT; \
                  [ $PADDLE_TRAINER_ID = 0 ] || [ $PADDLE_ATTEMPT = 1 ] || kill -KILL $$";
    let ended = job.run(&["--restarts=2"], script);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.log(0), b"attempt 0\n");
    assert_eq!(job.log(1), b"attempt 0\nattempt 1\n");
}

pub(crate) fn restarts_end(harness: &dyn Harness) {
    let job = Job::new(harness, 1);
    let ended = job.run(&["--restarts=1"], "echo attempt $PADDLE_ATTEMPT; exit 5");
    assert_eq!(ended.code, 5, "{ended:?}");
    assert_eq!(job.log(0), b"attempt 0\nattempt 1\n");
    assert!(ended.stderr.contains("trainer-0 failed after 1 of 1 restarts"), "{ended:?}");
    // What is not there will not be there the second time either.
    let job = Job::new(harness, 1);
    let ended = job.finish(spawn(job.command(&["--restarts=9"], &["no-such-command"])));
    assert_eq!(ended.code, 127, "{ended:?}");
}
