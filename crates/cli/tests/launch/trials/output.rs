//! What replicas print, in their logs and on the terminal.

use crate::launch::job::{Harness, Job, spawn};

pub(crate) fn every_byte_is_in_the_log(harness: &dyn Harness) {
    let job = Job::new(harness, 1);
    let script =
        r"printf 'out\n'; printf 'err\n' >&2; printf '\377\000\r|caf\303'; printf '\251 end'";
    let ended = job.run(&[], script);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.log(0), b"out\nerr\n\xff\x00\r|caf\xc3\xa9 end");
}

/// Two trainers print more than 50 MB together, as fast as they can.
pub(crate) fn large_outputs_are_complete(harness: &dyn Harness) {
    const LINES: usize = 400_000;
    let program = format!(
        "import os\nrank = os.environ['PADDLE_TRAINER_ID']\n\
         for i in range({LINES}): print(f'{{i:08}} {{rank}}', '.' * 58)"
    );
    let job = Job::new(harness, 2);
    let ended = job.finish(spawn(job.command(&[], &["python3", "-c", &program])));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for rank in 0..2 {
        let log = String::from_utf8(job.log(rank)).unwrap();
        let dots = ".".repeat(58);
        assert_eq!(log.len(), LINES * (8 + 1 + 1 + 1 + 58 + 1));
        for (number, line) in log.lines().enumerate() {
            assert_eq!(line, format!("{number:08} {rank} {dots}"));
        }
    }
    let shown = ended.stdout.lines().filter(|line| line.starts_with("trainer-")).count();
    assert_eq!(shown, 2 * LINES);
}

pub(crate) fn lines_carry_their_replica(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let ended = job.run(&[], "echo one; echo two >&2; printf three");
    for rank in 0..2 {
        let prefix = format!("trainer-{rank} | ");
        let lines: Vec<_> =
            ended.stdout.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(lines, ["one", "two", "three"], "{ended:?}");
    }
    assert!(!ended.stdout.contains('\x1b'), "colours only on a terminal: {ended:?}");
    let quiet = Job::new(harness, 1).run(&["--quiet"], "echo one");
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
}
