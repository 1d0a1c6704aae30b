//! Trainers whose training is over although their processes have not ended well. Pure.
//!
//! A server ends with 0 only when all trainers have said goodbye, which they do when their program
//! has ended. So what happens to a trainer after that undoes nothing, unless it is its own failure.

use crate::record::{JobRecord, ReplicaRecord};
use crate::replica::ReplicaId;
use contract::state::ReplicaState;
use contract::{exit, role::Role};

/// Whether this is a trainer that failed when its work was finished.
pub(super) fn has_finished_anyway(replica: &ReplicaRecord, record: &JobRecord) -> bool {
    let is_killed = replica.exit_code.and_then(exit::signal).is_some();
    has_no_servers_left(replica, record) && (is_killed || has_finished_before(replica, record))
}

/// Whether this is a trainer that was killed between its goodbye and its end, and was started
/// again: an earlier attempt has finished, and this one finds no servers.
pub(super) fn has_finished_before(replica: &ReplicaRecord, record: &JobRecord) -> bool {
    let ReplicaId { role, rank } = replica.replica;
    let heard = |server: &ReplicaRecord| {
        let goodbyes = server.goodbyes.as_ref().filter(|_| server.state == ReplicaState::Succeeded);
        let attempt =
            |all: &Vec<(u32, u32)>| all.iter().find(|(its, _)| *its == rank).map(|(_, own)| *own);
        goodbyes.map(|all| attempt(all).unwrap_or(0))
    };
    role == Role::Trainer
        && record.replicas.iter().filter_map(heard).any(|attempt| attempt < replica.attempt)
}

/// Whether this is a trainer that failed after its servers had ended, as they do when all trainers
/// have left. Started again it would find none of them.
pub(super) fn has_no_servers_left(replica: &ReplicaRecord, record: &JobRecord) -> bool {
    let has_ended = |other: &ReplicaRecord| {
        other.replica.role == Role::Pserver && other.state == ReplicaState::Succeeded
    };
    replica.replica.role == Role::Trainer
        && replica.state == ReplicaState::Failed
        && record.replicas.iter().any(has_ended)
}
