//! What to do next with a job, from what is known of it. Pure: no clock, no processes.
//!
//! Servers first, trainers when all servers serve, the end when all trainers are done. The first
//! failure that may not be repaired ends the whole job: a job that goes on with a part of its
//! replicas waits for the others for ever, or trains something nobody asked for.

use super::plan::Policy;
use super::record::{Ending, JobRecord, ReplicaRecord, Verdict};
use crate::replica::ReplicaId;
use contract::state::{JobState, ReplicaState, State};
use contract::{exit, role::Role};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Start these, for the first time or again.
    Start(Vec<ReplicaId>),
    /// Ask everything that runs to end.
    End(Verdict),
    /// Kill what was asked to end and did not.
    Kill,
    /// Nothing is left to do.
    Finish,
    /// Nothing until an event, or until this moment.
    Wait(Option<u64>),
}

/// Exit codes of a program that is not there or cannot be executed: starting it again is no help.
const HOPELESS: [i32; 2] = [126, 127];
/// The pause before the second restart of a rank; each later one is twice as long.
const PAUSE_MS: u64 = 1000;
const PAUSE_MS_MAX: u64 = 60_000;

/// The next step and its reason, in words for people; empty where nothing happens.
pub fn decide(now_ms: u64, record: &JobRecord, policy: &Policy) -> (Decision, String) {
    if let Some(ending) = &record.ending {
        return decide_ending(now_ms, record, ending, policy);
    }
    let mut wake_ms: Option<u64> = None;
    let mut wait_until = |moment: u64| wake_ms = Some(wake_ms.map_or(moment, |w| w.min(moment)));
    for replica in &record.replicas {
        match replica.state {
            ReplicaState::Failed => match restart_ms(replica, policy) {
                None => return end(failure(replica, policy)),
                Some(moment) if moment <= now_ms => {
                    let reason = format!(
                        "{} is started again ({} of {}): {}",
                        replica.replica,
                        replica.attempt + 1,
                        policy.restarts,
                        replica.reason(),
                    );
                    return (Decision::Start(vec![replica.replica]), reason);
                }
                Some(moment) => wait_until(moment),
            },
            ReplicaState::Lost => return end(failure(replica, policy)),
            ReplicaState::Starting if replica.replica.is_server() => {
                let deadline = replica.started_ms.unwrap_or(now_ms) + policy.ready_ms;
                if deadline <= now_ms {
                    return end(not_ready(replica, policy));
                }
                wait_until(deadline);
            }
            _ => {}
        }
    }
    let servers = || record.replicas.iter().filter(|replica| replica.replica.is_server());
    let trainers = || record.replicas.iter().filter(|replica| !replica.replica.is_server());
    let has_state = |state| move |replica: &&ReplicaRecord| replica.state == state;
    let pending = |replicas: &mut dyn Iterator<Item = &ReplicaRecord>| {
        replicas.filter(has_state(ReplicaState::Pending)).map(|r| r.replica).collect::<Vec<_>>()
    };
    let waiting = pending(&mut servers());
    if !waiting.is_empty() {
        return (Decision::Start(waiting), "servers first".to_owned());
    }
    let serves = |replica: &ReplicaRecord| {
        matches!(replica.state, ReplicaState::Running | ReplicaState::Succeeded)
    };
    let waiting = pending(&mut trainers());
    if servers().all(serves) && !waiting.is_empty() {
        return (Decision::Start(waiting), "all servers are ready".to_owned());
    }
    let has_succeeded = |replica: &ReplicaRecord| replica.state == ReplicaState::Succeeded;
    if trainers().all(has_succeeded) && (!policy.servers_leave || servers().all(has_succeeded)) {
        return end(Verdict {
            state: JobState::Succeeded,
            exit_code: 0,
            reason: "all trainers finished".to_owned(),
            culprit: None,
        });
    }
    (Decision::Wait(wake_ms), String::new())
}

fn end(verdict: Verdict) -> (Decision, String) {
    let reason = verdict.reason.clone();
    (Decision::End(verdict), reason)
}

fn decide_ending(
    now_ms: u64,
    record: &JobRecord,
    ending: &Ending,
    policy: &Policy,
) -> (Decision, String) {
    let has_ended = |replica: &ReplicaRecord| {
        replica.state == ReplicaState::Pending || replica.state.is_final()
    };
    let deadline = ending.since_ms + policy.grace_ms;
    let silently = |decision| (decision, String::new());
    if record.replicas.iter().all(has_ended) {
        silently(Decision::Finish)
    } else if ending.is_forced {
        silently(Decision::Wait(None))
    } else if now_ms < deadline {
        silently(Decision::Wait(Some(deadline)))
    } else {
        let seconds = policy.grace_ms / 1000;
        (Decision::Kill, format!("what has not ended within {seconds} s is killed"))
    }
}

/// When a failed replica may be started again; `None` if it may not.
fn restart_ms(replica: &ReplicaRecord, policy: &Policy) -> Option<u64> {
    let is_hopeless = replica.exit_code.is_some_and(|code| HOPELESS.contains(&code));
    if replica.attempt >= policy.restarts || is_hopeless {
        return None;
    }
    let pause = match replica.attempt {
        0 => 0,
        attempt => PAUSE_MS.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE_MS_MAX),
    };
    Some(replica.ended_ms.unwrap_or(0) + pause)
}

fn failure(replica: &ReplicaRecord, policy: &Policy) -> Verdict {
    let again = match (replica.attempt, policy.restarts) {
        (0, _) => String::new(),
        (attempt, _) => format!(", started again {attempt} times"),
    };
    let code = match replica.exit_code {
        Some(code) if code != 0 => format!(" ({})", code_in_words(code)),
        _ => String::new(),
    };
    Verdict {
        state: JobState::Failed,
        exit_code: replica.exit_code.filter(|code| *code != 0).unwrap_or(1),
        reason: format!("{} failed{again}{code}: {}", replica.replica, replica.reason()),
        culprit: Some(replica.replica),
    }
}

fn code_in_words(code: i32) -> String {
    match exit::signal(code) {
        Some(signal) => format!("exit code {code}, signal {signal}"),
        None => format!("exit code {code}"),
    }
}

fn not_ready(replica: &ReplicaRecord, policy: &Policy) -> Verdict {
    let what = match replica.replica.role {
        Role::Master => "the master",
        _ => "the server",
    };
    let seconds = policy.ready_ms / 1000;
    Verdict {
        state: JobState::Failed,
        exit_code: 1,
        reason: format!(
            "{} did not get ready within {seconds} s: the end of its log says how far {what} came; \
             give it more time with --ready_timeout",
            replica.replica
        ),
        culprit: Some(replica.replica),
    }
}
