//! The line at the bottom of the terminal: how many replicas are in which state, and the trainers'
//! newest figures. Pure.

use contract::role::Role;
use contract::state::ReplicaState;
use scheduler::{JobRecord, ReplicaRecord};

/// One line for a job.
pub(super) fn line(record: &JobRecord) -> String {
    let mut parts: Vec<String> =
        Role::ALL.iter().filter_map(|role| role_part(record, *role)).collect();
    parts.extend(figures(record));
    parts.join("  ")
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
        "pass {} batch {}  cost {cost:.6}  {speed:.0} samples/s",
        newest("pass"),
        newest("batch")
    ))
}
