//! Jobs that succeed.

use crate::launch::job::{Harness, Job, spawn};

pub(crate) fn a_job_runs_and_its_servers_end_with_it(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let ended = job.run(&[], "echo rank $PADDLE_INIT_TRAINER_ID of $PADDLE_TRAINERS_NUM");
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..2 {
        assert_eq!(job.log(rank), format!("rank {rank} of 2\n").as_bytes());
    }
}

/// A trainer that could not connect at once would fail.
pub(crate) fn servers_answer_before_trainers_start(harness: &dyn Harness) {
    let program = "
import os, socket
for server in os.environ['PADDLE_INIT_PSERVERS'].split(','):
    host, port = server.rsplit(':', 1) if ':' in server else (server, os.environ['PADDLE_PORT'])
    socket.create_connection((host, int(port)), timeout=60).close()
print('reached', len(os.environ['PADDLE_INIT_PSERVERS'].split(',')))
";
    let job = Job::new(harness, 2);
    let ended = job.finish(spawn(job.command(&[], &["python3", "-c", program])));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(job.log(1), b"reached 2\n");
}

pub(crate) fn arguments_arrive_as_they_were_typed(harness: &dyn Harness) {
    let arguments = [
        "",
        "two words",
        "naïve 日本語 🦀",
        "it's",
        "\"$HOME\" `id` $(id)",
        "*",
        "a\\b",
        "--x",
        "\n",
    ];
    let script = "printf '%s\\0' \"$@\" > arguments-$PADDLE_TRAINER_ID";
    let program = [&["sh", "-c", script, "sh"][..], &arguments].concat();
    let job = Job::new(harness, 1);
    let ended = job.finish(spawn(job.command(&[], &program)));
    assert_eq!(ended.code, 0, "{ended:?}");
    let arrived = job.file(0, "arguments-0");
    let arrived: Vec<_> = arrived.split(|byte| *byte == 0).collect();
    assert_eq!(arrived[..arrived.len() - 1], arguments.map(str::as_bytes));
}

pub(crate) fn many_replicas_run_together(harness: &dyn Harness) {
    let many = harness.many();
    let job = Job::new(harness, many);
    let ended = job.run(&["--quiet"], "echo $PADDLE_TRAINER_ID");
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..many {
        assert_eq!(job.log(rank), format!("{rank}\n").as_bytes());
    }
}
