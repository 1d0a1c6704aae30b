//! The line at the bottom of the terminal while a job runs: how many replicas are in which state, and the trainers'
//! newest figures. Pure.

use crate::figures::Figures;
use contract::role::Role;
use contract::state::ReplicaState;
use scheduler::JobRecord;

/// One line for a job.
pub fn line(record: &JobRecord) -> String {
    let roles = Role::ALL.iter().filter_map(|role| role_part(record, *role));
    figures(&Figures::of(record)).into_iter().chain(roles).collect::<Vec<_>>().join("  ")
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

fn figures(figures: &Figures) -> Option<String> {
    let cost = figures.cost?;
    let (pass, batch) = (figures.pass.unwrap_or(0.0), figures.batch.unwrap_or(0.0));
    let speed = figures.samples_per_second.unwrap_or(0.0);
    Some(format!("pass {pass} batch {batch}  cost {cost:.5}  {speed:.0} samples/s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::example;

    #[test]
    fn states_are_counted_and_figures_joined() {
        let mut record = example::record();
        assert_eq!(
            line(&record),
            "pserver: 1 running  trainer: 1 starting, 1 running (1 restarted)"
        );
        record.replicas[1].metrics = Some(example::figures(0.5));
        record.replicas[2].metrics = Some(example::figures(0.25));
        assert_eq!(
            line(&record),
            "pass 1 batch 20  cost 0.37500  301 samples/s  \
             pserver: 1 running  trainer: 1 starting, 1 running (1 restarted)"
        );
    }
}
