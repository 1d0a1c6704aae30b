//! What replicas print and report.

use crate::backend::job::{Harness, Job};
use scheduler::backend::{Backend, Cursor};
use scheduler::submission::RunAs;
use serde_json::json;

pub(crate) fn every_byte_is_in_the_log(harness: &dyn Harness) {
    let script =
        r"printf 'out\n'; printf 'err\n' >&2; printf '\377\000\r|caf\303'; printf '\251 end'";
    let job = Job::new(harness, 1, script);
    job.succeed();
    assert_eq!(job.log("trainer-0"), b"out\nerr\n\xff\x00\r|caf\xc3\xa9 end");
}

/// Two trainers print more than 50 MB together, as fast as they can.
pub(crate) fn large_outputs_are_complete(harness: &dyn Harness) {
    const LINES: usize = 400_000;
    let program = format!(
        "import os\nrank = os.environ['PADDLE_TRAINER_ID']\n\
         for i in range({LINES}): print(f'{{i:08}} {{rank}}', '.' * 58)"
    );
    let job = Job::of(harness, 2, &["python3", "-c", &program]);
    job.succeed();
    for rank in 0..2 {
        let log = job.text(&format!("trainer-{rank}"));
        let dots = ".".repeat(58);
        assert_eq!(log.len(), LINES * (8 + 1 + 1 + 1 + 58 + 1));
        for (number, line) in log.lines().enumerate() {
            assert_eq!(line, format!("{number:08} {rank} {dots}"));
        }
    }
}

pub(crate) fn a_cursor_goes_on_over_a_restart(harness: &dyn Harness) {
    let script = "echo attempt $PADDLE_ATTEMPT; \
                  if [ $PADDLE_ATTEMPT = 0 ]; then until [ -e go ]; do sleep 0.01; done; exit 1; fi";
    let job = Job::new(harness, 1, script).with(|spec| spec.restarts = 1);
    job.submit();
    let first = || job.logs("trainer-0", &Cursor::default());
    job.wait_until("the first line", || !first().bytes.is_empty());
    let piece = first();
    assert_eq!((piece.bytes.as_slice(), piece.is_last), (&b"attempt 0\n"[..], false));
    job.write(0, "go", "");
    job.await_end();
    let rest = job.logs("trainer-0", &piece.next);
    assert_eq!(rest.bytes, b"attempt 1\n");
    let end = job.logs("trainer-0", &rest.next);
    assert!(end.is_last && end.bytes.is_empty() && end.skipped_bytes == 0);
}

pub(crate) fn figures_are_kept_with_their_history(harness: &dyn Harness) {
    let script = "mkdir -p $PADDLE_LOG_DIR; for i in 1 2 3; do \
                  echo \"{\\\"cost\\\": $i, \\\"rank\\\": $PADDLE_TRAINER_ID}\" >> $PADDLE_LOG_DIR/metrics.jsonl; done";
    let job = Job::new(harness, 2, script);
    let record = job.succeed();
    let metrics = job.block(job.jobs.metrics(job.id(), &Cursor::default())).unwrap();
    for rank in 0..2 {
        let own = metrics.lines.iter().filter(|line| line.replica.rank == rank);
        let figures: Vec<_> = own.map(|line| line.figures.clone()).collect();
        assert_eq!(figures, [1, 2, 3].map(|cost| json!({"cost": cost, "rank": rank})));
        let newest = record.replica(format!("trainer-{rank}").parse().unwrap()).unwrap();
        assert_eq!(newest.metrics, Some(json!({"cost": 3, "rank": rank})));
    }
    let after = job.block(job.jobs.metrics(job.id(), &metrics.next)).unwrap();
    assert_eq!((after.lines.len(), after.next), (0, metrics.next));
}

/// A directory that an earlier job left under the name of the figures.
pub(crate) fn what_is_no_file_of_figures_does_not_fail_the_next_job(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "echo trained; true");
    let figures = harness.workspace(job.folder(), 0).join("log/trainer-0/metrics.jsonl");
    std::fs::create_dir_all(figures.join("kept")).unwrap();
    if let Some(RunAs { uid, gid }) = job.submission.run_as {
        for folder in figures.ancestors().take(3) {
            std::os::unix::fs::chown(folder, Some(uid), Some(gid)).unwrap();
        }
    }
    let record = job.succeed();
    assert_eq!(job.text("trainer-0"), "trained\n");
    let metrics = job.block(job.jobs.metrics(job.id(), &Cursor::default())).unwrap();
    assert_eq!(metrics.lines, []);
    // Where a machine of its own begins with an empty folder for logs, nothing is left of it.
    if figures.exists() {
        assert!(figures.join("kept").is_dir());
        let notes = record.notes.join("\n");
        assert!(notes.contains("no figures of trainer-0: what is in their place"), "{notes}");
    }
}

/// What a program leaves where its supervisor looks: a pipe that nobody writes to, a link to a file
/// of somebody else, a directory. Where all trainers share the folder, one of them comes too late.
pub(crate) fn hostile_files_in_the_log_directory_neither_block_nor_mislead(harness: &dyn Harness) {
    let script = "rm -rf $PADDLE_LOG_DIR/metrics.jsonl; mkdir -p $PADDLE_LOG_DIR; \
                  case $PADDLE_TRAINER_ID in \
                  0) mkfifo $PADDLE_LOG_DIR/metrics.jsonl 2>/dev/null;; \
                  1) ln -s $MARKER/secret $PADDLE_LOG_DIR/metrics.jsonl 2>/dev/null;; \
                  2) mkdir $PADDLE_LOG_DIR/metrics.jsonl 2>/dev/null;; esac; \
                  echo ready; sleep 1.2; echo done";
    let job = Job::new(harness, 3, script);
    std::fs::write(job.folder().join("secret"), "{\"password\": 1}\n").unwrap();
    let record = job.succeed();
    for rank in 0..3 {
        assert_eq!(job.text(&format!("trainer-{rank}")), "ready\ndone\n");
    }
    assert!(!format!("{record:?}").contains("password"), "{record:?}");
    let metrics = job.block(job.jobs.metrics(job.id(), &Cursor::default())).unwrap();
    assert_eq!(metrics.lines, []);
}
