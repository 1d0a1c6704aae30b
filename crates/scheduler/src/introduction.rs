//! The first lines of a trainer's log, as the original wrote them: which servers and trainers the
//! job has, and what is about to run. Nobody else writes them; those who used the original look for
//! them in the logs of the cloud, so other jobs have none. Pure.

use crate::plan::{JobPlan, ReplicaPlan};
use contract::role::Role;

/// The lines. The last one is left to the trainer of V1, which writes it itself.
pub(crate) fn lines(plan: &JobPlan, trainer: &ReplicaPlan) -> Vec<String> {
    let environment = &trainer.environment;
    let mut lines = Vec::new();
    for (label, role) in [("paddle-job-pserver", Role::Pserver), ("paddle-job", Role::Trainer)] {
        let replicas = plan.replicas.iter().filter(|replica| replica.id.role == role);
        let pods: Vec<String> = replicas
            .map(|replica| format!("('Running', '{}')", plan.nodes[replica.node].address))
            .collect();
        if pods.is_empty() {
            continue;
        }
        lines.push(format!("label selector: {label}={}, desired: {}", plan.job, pods.len()));
        lines.push(format!("running pod list:  [{}]", pods.join(", ")));
    }
    if !is_v1(&trainer.argv) {
        lines.push(format!(
            "Starting training job:  {}, num_gradient_servers: {}, trainer_id:  {}, version:  v2",
            environment.package, environment.trainers, trainer.id.rank
        ));
    }
    lines
}

/// Whether a command is `paddle train`, whatever its path, also as a line for a shell.
fn is_v1(argv: &[String]) -> bool {
    let words: Vec<&str> = match argv {
        [shell, flag, line] if shell == "/bin/sh" && flag == "-c" => {
            line.split_whitespace().collect()
        }
        _ => argv.iter().map(String::as_str).collect(),
    };
    let is_paddle = |word: &str| word == "paddle" || word.ends_with("/paddle");
    matches!(words[..], [paddle, "train" | "cluster_node", ..] if is_paddle(paddle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_v1_is_known_however_it_is_written() {
        let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(is_v1(&argv(&["/usr/bin/paddle", "train", "--config=a.py"])));
        assert!(is_v1(&argv(&["/bin/sh", "-c", "paddle train --config=a.py"])));
        assert!(!is_v1(&argv(&["python", "train.py"])));
        assert!(!is_v1(&argv(&["/bin/sh", "-c", "python train.py"])));
    }
}
