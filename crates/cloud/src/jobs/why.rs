//! What a job waits for, or why it ended: one sentence, with numbers. Pure.

use super::row::{JobRow, Stage};
use contract::api::job::Why;
use contract::role::Role;
use contract::state::{JobState, ReplicaState};

/// The sentence about a job.
pub(crate) fn why(now_ms: u64, row: &JobRow, place_notes: &[String]) -> Why {
    let mut notes = row.notes.clone();
    notes.extend(place_notes.iter().filter(|note| !row.notes.contains(note)).cloned());
    Why { state: row.state, sentence: sentence(now_ms, row), notes }
}

fn sentence(now_ms: u64, row: &JobRow) -> String {
    let since = |from: Option<u64>| duration(now_ms.saturating_sub(from.unwrap_or(now_ms)));
    let reason = |otherwise: &str| match row.reason.as_str() {
        "" => otherwise.to_owned(),
        reason => reason.to_owned(),
    };
    match (row.state, row.stage) {
        (JobState::Pending, _) => format!(
            "it has waited for {}: {}",
            since(Some(row.submitted_ms)),
            reason("nobody has looked at it yet")
        ),
        (JobState::Starting, Stage::Admitted) if row.attempts > 0 => format!(
            "it could not be started {} times, and is tried again: {}",
            row.attempts, row.reason
        ),
        (JobState::Starting, Stage::Admitted) => "its program is being made ready".to_owned(),
        (JobState::Starting, _) => {
            // A cluster may have more to say, such as what it has too little of.
            let why = if row.reason.is_empty() { "" } else { "; " };
            format!(
                "its replicas are being started since {}: {}{why}{}",
                since(row.started_ms),
                counts(row),
                row.reason
            )
        }
        (JobState::Running, _) => {
            format!("it runs since {}: {}", since(row.started_ms), counts(row))
        }
        (JobState::Killing, _) => format!(
            "it is being ended since {}: {} of its replicas still run",
            since(row.kill_ms),
            row.workers.iter().filter(|worker| is_alive(worker.state)).count()
        ),
        (JobState::Succeeded, _) if row.trainers == 1 => {
            format!("its trainer finished after {}", lasted(row))
        }
        (JobState::Succeeded, _) => {
            format!("all {} trainers finished after {}", row.trainers, lasted(row))
        }
        (JobState::Failed, _) => {
            format!("it failed after {}: {}", lasted(row), reason("nobody knows why"))
        }
        (JobState::Killed, _) => {
            format!("it was ended after {}: {}", lasted(row), reason("somebody asked for it"))
        }
    }
}

fn lasted(row: &JobRow) -> String {
    let from = row.started_ms.unwrap_or(row.submitted_ms);
    duration(row.ended_ms.unwrap_or(from).saturating_sub(from))
}

fn is_alive(state: ReplicaState) -> bool {
    matches!(state, ReplicaState::Starting | ReplicaState::Running)
}

fn counts(row: &JobRow) -> String {
    let running = |role| row.count(role, |state| state == ReplicaState::Running);
    let mut parts = Vec::new();
    for (role, wanted) in [
        (Role::Master, u32::from(row.spec.master)),
        (Role::Pserver, row.spec.pservers),
        (Role::Trainer, row.trainers),
    ] {
        if wanted > 0 {
            parts.push(format!("{} of {wanted} {role}s run", running(role)));
        }
    }
    let done = row.count(Role::Trainer, |state| state == ReplicaState::Succeeded);
    if done > 0 {
        parts.push(format!("{done} trainers have finished"));
    }
    parts.join(", ")
}

/// A length of time for people.
fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds.saturating_add(500) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
