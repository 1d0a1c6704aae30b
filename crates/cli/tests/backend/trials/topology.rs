//! Jobs that train a V1 configuration.

use crate::backend::installed;
use crate::backend::job::{Harness, Job};
use contract::Kind;
use contract::state::State;

const CONFIGURATION: &str = r#"
from paddle.trainer_config_helpers import *

define_py_data_sources2("train.list", None, module="dataprovider", obj="process")
settings(batch_size=4, learning_rate=0.01)
x = data_layer(name="x", size=2)
y = data_layer(name="y", size=1)
outputs(square_error_cost(input=fc_layer(input=x, size=1, act=LinearActivation()), label=y))
"#;
const PROVIDER: &str = r#"
from paddle.trainer.PyDataProvider2 import *


@provider(input_types={"x": dense_vector(2), "y": dense_vector(1)})
def process(settings, file_name):
    with open(file_name) as file:
        for line in file:
            a, b = map(float, line.split())
            yield {"x": [a, b], "y": [a - b]}
"#;

/// A job of two trainers and servers with a configuration in `conf/`.
fn job<'a>(harness: &'a dyn Harness, commands: &str) -> Job<'a> {
    let path = format!("{commands}:{}", std::env::var("PATH").unwrap());
    let job = Job::of(harness, 2, &[]).with(|spec| {
        spec.topology = "./conf/trainer_config.py".to_owned();
        spec.topology_flags = vec!["--log_period=2".to_owned(), "--dot_period=0".to_owned()];
        spec.passes = Some(2);
        spec.env.insert("PATH".to_owned(), path);
    });
    for rank in 0..2 {
        let workspace = harness.workspace(job.folder(), rank);
        std::fs::create_dir_all(workspace.join("conf")).unwrap();
        job.write(rank, "conf/trainer_config.py", CONFIGURATION);
        job.write(rank, "dataprovider.py", PROVIDER);
        job.write(rank, "data", &"1 2\n3 1\n".repeat(8));
        job.write(rank, "train.list", "data\n");
    }
    job
}

pub(crate) fn a_topology_is_trained_with_the_flags_of_the_contract(harness: &dyn Harness) {
    let Some(commands) = installed::commands() else { return };
    let job = job(harness, commands.to_str().unwrap());
    job.succeed();
    for rank in 0..2 {
        let log = job.text(&format!("trainer-{rank}"));
        let first = format!(", num_gradient_servers: 2, trainer_id:  {rank}, version:  v1");
        let mut lines = log.lines();
        let begin = lines.next().unwrap();
        assert!(begin.starts_with("Starting training job:  ") && begin.ends_with(&first), "{log}");
        let commandline = lines.next().unwrap();
        for flag in [
            "commandline: paddle train --config=./conf/trainer_config.py --log_period=2 ",
            " --num_passes=2",
            " --num_gradient_servers=2",
            &format!(" --trainer_id={rank}"),
            " --pservers=",
        ] {
            assert!(commandline.contains(flag), "{flag}: {log}");
        }
        assert!(log.contains(" Pass=1 Batch=4 samples=16 AvgCost="), "{log}");
    }
    job.file(0, "output/pass-00001/done");
}

/// As configurations of the original cloud make their lists: by the trainer's own number.
const OWN_LIST: &str = r#"
import os, time
from paddle.trainer_config_helpers import *

rank, count = int(open("/trainer_id").read()), int(open("/trainer_count").read())
with open("/train.list", "w") as file:
    file.write("data-%d\n" % rank)
shared = os.path.join(os.environ["MARKER"], "shared")
open(os.path.join(shared, "written-%d" % rank), "w").close()
while not all(os.path.exists(os.path.join(shared, "written-%d" % one)) for one in range(count)):
    time.sleep(0.05)
define_py_data_sources2("/train.list", None, module="dataprovider", obj="process")
settings(batch_size=4, learning_rate=0.01)
x = data_layer(name="x", size=2)
y = data_layer(name="y", size=1)
outputs(square_error_cost(input=fc_layer(input=x, size=1, act=LinearActivation()), label=y))
"#;

/// Trainers that share a workspace, and all write their list before one of them reads it.
pub(crate) fn every_trainer_has_a_list_of_its_own(harness: &dyn Harness) {
    let Some(commands) = installed::commands() else { return };
    let job = job(harness, commands.to_str().unwrap());
    for rank in 0..2 {
        job.write(rank, "conf/trainer_config.py", OWN_LIST);
        for (own, count) in [(0, 8), (1, 4)] {
            job.write(rank, &format!("data-{own}"), &"1 2\n3 1\n".repeat(count));
        }
    }
    job.succeed();
    for (rank, samples) in [(0, 16), (1, 8)] {
        let log = job.text(&format!("trainer-{rank}"));
        let batches = samples / 4;
        assert!(log.contains(&format!(" Pass=1 Batch={batches} samples={samples} ")), "{log}");
        assert!(!log.contains("trainers share"), "{log}");
    }
}

pub(crate) fn a_topology_that_is_not_there_is_refused_by_name(harness: &dyn Harness) {
    let job = job(harness, "/none").with(|spec| spec.topology = "conf/other.py".to_owned());
    let told = match job.try_submit() {
        Err(error) => {
            assert_eq!(error.kind(), Kind::NotFound);
            error.to_string()
        }
        // What ssh hosts have is known when they are reached.
        Ok(_) => {
            let record = job.await_end();
            assert!(record.state.is_final() && record.exit_code != Some(0), "{record:#?}");
            assert_eq!(job.text("pserver-0"), "", "nothing was started");
            record.reason
        }
    };
    assert!(told.contains("topology: conf/other.py"), "{told}");
}
