//! Jobs that succeed.

use crate::backend::job::{Harness, Job};

pub(crate) fn a_job_runs_and_its_servers_end_with_it(harness: &dyn Harness) {
    let job = Job::new(harness, 2, "echo rank $PADDLE_INIT_TRAINER_ID of $PADDLE_TRAINERS_NUM");
    job.succeed();
    for rank in 0..2 {
        let expected = format!("rank {rank} of 2\n");
        assert_eq!(job.text(&format!("trainer-{rank}")), expected);
        assert!(job.text(&format!("pserver-{rank}")).contains("paddle_ready"));
    }
    // What ranks under MPI keep between two rounds goes with the job.
    let ranks = std::fs::read_dir(job.jobs.root.join(".ranks"));
    assert_eq!(ranks.into_iter().flatten().count(), 0);
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
    let job = Job::of(harness, 2, &["python3", "-c", program]);
    job.succeed();
    assert_eq!(job.text("trainer-1"), "reached 2\n");
}

pub(crate) fn arguments_arrive_as_they_were_typed(harness: &dyn Harness) {
    let words = ["two words", "", "it's", "$HOME", "*", "--flag=a b", "naïve\n", "\\"];
    let mut program = vec!["sh", "-c", "printf '%s|' \"$@\"", "sh"];
    program.extend(words);
    let job = Job::of(harness, 1, &program);
    job.succeed();
    assert_eq!(job.text("trainer-0"), words.map(|word| format!("{word}|")).concat());
}

pub(crate) fn many_replicas_run_together(harness: &dyn Harness) {
    let count = harness.many();
    let job = Job::new(harness, count, "echo $PADDLE_INIT_TRAINER_ID");
    assert_eq!(job.succeed().replicas.len(), 2 * count as usize);
    for rank in 0..count {
        assert_eq!(job.text(&format!("trainer-{rank}")), format!("{rank}\n"));
    }
}

/// Any numbers of trainers and servers, whatever the number of machines.
pub(crate) fn more_trainers_than_machines_share_them(harness: &dyn Harness) {
    let job = Job::new(
        harness,
        2,
        "echo $PADDLE_INIT_TRAINER_ID of $PADDLE_TRAINERS_NUM with $PADDLE_PSERVERS_NUM",
    )
    .with(|spec| (spec.trainers, spec.pservers) = (3, 1));
    let record = job.succeed();
    assert_eq!(record.replicas.len(), 4);
    for rank in 0..3 {
        assert_eq!(job.text(&format!("trainer-{rank}")), format!("{rank} of 3 with 1\n"));
    }
}

pub(crate) fn a_master_comes_first(harness: &dyn Harness) {
    let status = format!(
        "{} master status --endpoint $PADDLE_MASTER_ENDPOINT -o json",
        env!("CARGO_BIN_EXE_paddle")
    );
    let job = Job::new(harness, 1, &status).with(|spec| {
        spec.master = true;
        spec.data.files = vec!["data.txt".to_owned()];
    });
    job.write(0, "data.txt", "one\ntwo\n");
    let record = job.succeed();
    assert_eq!(record.replicas[0].replica.to_string(), "master-0");
    assert!(job.text("trainer-0").contains("todo"), "{}", job.text("trainer-0"));
}
