//! The line at the bottom of the terminal while a job runs: how many replicas are in which state, and the trainers'
//! newest figures. Pure.

use contract::role::Role;
use contract::state::ReplicaState;
use scheduler::{JobRecord, ReplicaRecord};

/// One line for a job.
pub fn line(record: &JobRecord) -> String {
    let roles = Role::ALL.iter().filter_map(|role| role_part(record, *role));
    figures(record).into_iter().chain(roles).collect::<Vec<_>>().join("  ")
}

fn role_part(record: &JobRecord, role: Role) -> Option<String> {
    let replicas: Vec<_> = record.replicas.iter().filter(|r| r.replica.role == role).collect();
    let states = ReplicaState::ALL.iter().filter_map(|state| {
        let count = replicas.iter().filter(|replica| replica.state == *state).count();
        (count > 0).then(|| format!("{count} {state}"))
    });
    let states: Vec<_> = states.collect();
    let restarts: u32 = replicas.iter().map(|replica| replica.attempt).sum();
    let restarts = if restarts > 0 { format!(" ({restarts} restarted)") } else { String::new() };
    (!replicas.is_empty()).then(|| format!("{role}: {}{restarts}", states.join(", ")))
}

/// The newest pass and batch, the mean cost and the sum of the speeds.
fn figures(record: &JobRecord) -> Option<String> {
    let numbers = |name: &str| -> Vec<f64> {
        let number = |replica: &ReplicaRecord| replica.metrics.as_ref()?.get(name)?.as_f64();
        record.replicas.iter().filter_map(number).collect()
    };
    let newest = |name| numbers(name).into_iter().fold(0.0, f64::max);
    let costs = numbers("cost");
    if costs.is_empty() {
        return None;
    }
    let cost = costs.iter().sum::<f64>() / costs.len() as f64;
    let speed: f64 = numbers("samples_per_second").iter().sum();
    Some(format!(
        "pass {} batch {}  cost {cost:.5}  {speed:.0} samples/s",
        newest("pass"),
        newest("batch")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::state::JobState;

    #[test]
    fn states_are_counted_and_figures_joined() {
        let replica = |name: &str, state, metrics| ReplicaRecord {
            replica: name.parse().unwrap(),
            host: "localhost".to_owned(),
            state,
            attempt: u32::from(name == "trainer-1"),
            pid: None,
            ready: None,
            exit_code: None,
            message: None,
            started_ms: None,
            ended_ms: None,
            log: "log".into(),
            metrics,
        };
        let figures = |cost: f64| serde_json::json!({"pass": 1, "batch": 20, "cost": cost, "samples_per_second": 150.4});
        let mut record = JobRecord {
            version: 1,
            job: "job".to_owned(),
            state: JobState::Running,
            reason: String::new(),
            culprit: None,
            exit_code: None,
            began_ms: 0,
            ended_ms: None,
            ending: None,
            replicas: vec![
                replica("pserver-0", ReplicaState::Running, None),
                replica("trainer-0", ReplicaState::Running, None),
                replica("trainer-1", ReplicaState::Starting, None),
            ],
        };
        assert_eq!(
            line(&record),
            "pserver: 1 running  trainer: 1 starting, 1 running (1 restarted)"
        );
        record.replicas[1].metrics = Some(figures(0.5));
        record.replicas[2].metrics = Some(figures(0.25));
        assert_eq!(
            line(&record),
            "pass 1 batch 20  cost 0.37500  301 samples/s  \
             pserver: 1 running  trainer: 1 starting, 1 running (1 restarted)"
        );
    }
}
