//! Elastic jobs: what a change or the death of a trainer means when the others may go on. Pure.
//!
//! The plan has a replica for every rank below the maximum; the record has those that were wanted at
//! some time. A trainer whose rank is not below the wanted number leaves: it is asked to end, killed
//! after the grace, and its tasks go to others. One that fails is started again as in any job, while
//! the others go on; when it may not be, or its machine is lost, the job goes on without it as long
//! as the minimum is there. Trainer 0 is not dispensable: it writes the model.

use super::decide::restart_ms;
use crate::plan::Policy;
use crate::record::{JobRecord, ReplicaRecord};
use crate::replica::ReplicaId;
use contract::role::Role;
use contract::state::{ReplicaState, State};

/// Trainers that have to leave: those to be asked to, those to be killed, and when to look again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) asked: Vec<ReplicaId>,
    pub(super) killed: Vec<ReplicaId>,
    pub(super) wake_ms: Option<u64>,
}

pub(super) fn leaving(now_ms: u64, record: &JobRecord, policy: &Policy) -> Leaving {
    let mut leaving = Leaving::default();
    for replica in record.replicas.iter().filter(|replica| is_superfluous(replica, record)) {
        let runs = matches!(replica.state, ReplicaState::Starting | ReplicaState::Running);
        match replica.leaving_ms.filter(|_| runs) {
            None if runs => leaving.asked.push(replica.replica),
            Some(asked_ms) if asked_ms.saturating_add(policy.grace_ms) <= now_ms => {
                leaving.killed.push(replica.replica);
            }
            Some(asked_ms) if asked_ms < u64::MAX => {
                let moment = asked_ms.saturating_add(policy.grace_ms);
                leaving.wake_ms = Some(leaving.wake_ms.map_or(moment, |wake| wake.min(moment)));
            }
            _ => {}
        }
    }
    leaving
}

/// Whether the number of trainers was lowered below this rank.
pub(super) fn is_superfluous(replica: &ReplicaRecord, record: &JobRecord) -> bool {
    replica.replica.role == Role::Trainer && replica.replica.rank >= record.trainers
}

/// Whether a trainer that left, or was given up, is wanted again.
pub(super) fn comes_back(replica: &ReplicaRecord, record: &JobRecord) -> bool {
    replica.leaving_ms.is_some()
        && replica.state.is_final()
        && replica.state != ReplicaState::Succeeded
        && !is_superfluous(replica, record)
}

/// Whether an elastic job goes on, or ends well, without this replica.
pub(super) fn is_dispensable(replica: &ReplicaRecord, record: &JobRecord, policy: &Policy) -> bool {
    let Some(least) = policy.min_trainers else { return false };
    if replica.replica.role != Role::Trainer || replica.replica.rank == 0 {
        return false;
    }
    if is_superfluous(replica, record) || has_trained(record) {
        return true;
    }
    is_given_up(replica, policy)
        && !comes_back(replica, record)
        && active(record, policy) >= least as usize
}

/// The wanted trainers that an elastic job goes on without, in words for people.
pub(super) fn losses(record: &JobRecord, policy: &Policy) -> Vec<String> {
    if has_trained(record) {
        return Vec::new();
    }
    let trainers = record.replicas.iter().filter(|replica| !is_superfluous(replica, record));
    let lost = trainers
        .filter(|replica| is_given_up(replica, policy) && is_dispensable(replica, record, policy));
    // The same words whenever they are asked for: each loss is noted once.
    let text = |lost: &ReplicaRecord| {
        let (name, attempt, why) = (lost.replica, lost.attempt, lost.reason());
        let end = match lost.state {
            ReplicaState::Lost => format!("since its machine, {}, is lost", lost.host),
            _ => "unless `paddle scale` starts it again".to_owned(),
        };
        format!("the job goes on without {name}, {end} (attempt {attempt}: {why})")
    };
    lost.map(text).collect()
}

fn is_given_up(replica: &ReplicaRecord, policy: &Policy) -> bool {
    match replica.state {
        ReplicaState::Lost => true,
        ReplicaState::Failed => restart_ms(replica, policy).is_none(),
        _ => false,
    }
}

/// Whether an elastic job is trained: trainer 0, which takes part in the end of every pass, has
/// finished.
pub(super) fn has_trained(record: &JobRecord) -> bool {
    record.replicas.iter().any(|replica| {
        replica.replica == ReplicaId::new(Role::Trainer, 0)
            && replica.state == ReplicaState::Succeeded
    })
}

/// Trainers that run, have finished, or will be started.
fn active(record: &JobRecord, policy: &Policy) -> usize {
    let is_active = |replica: &&ReplicaRecord| match replica.state {
        _ if comes_back(replica, record) => true,
        ReplicaState::Failed => restart_ms(replica, policy).is_some(),
        ReplicaState::Lost | ReplicaState::Killed => false,
        _ => true,
    };
    let trainers = record.replicas.iter().filter(|other| other.replica.role == Role::Trainer);
    trainers.filter(|replica| !is_superfluous(replica, record)).filter(is_active).count()
}
