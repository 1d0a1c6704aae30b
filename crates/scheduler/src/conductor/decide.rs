//! What to do next with a job, from what is known of it. Pure: no clock, no processes.
//!
//! Servers first, trainers when all servers serve, the end when all trainers are done. The first
//! failure that may not be repaired ends the whole job: a job that goes on with a part of its
//! replicas waits for the others for ever, or trains something nobody asked for.
//!
//! What a failure means depends on whose it is (`docs/faults.md` has the reasons):
//!
//! - a trainer or a master is started again alone, and goes on where it was;
//! - a parameter server takes what it held with it, and so does a machine that is lost: everything
//!   is killed, and the whole job begins another round, from the newest checkpoint of all servers,
//!   or from the beginning where there is none;
//! - an elastic job goes on without a trainer (`elastic.rs`).

use super::elastic::{self, is_dispensable};
use super::goodbye::{has_finished_anyway, has_finished_before, has_no_servers_left};
use crate::plan::Policy;
use crate::record::{Ending, JobRecord, ReplicaRecord, Verdict};
use crate::replica::ReplicaId;
use contract::state::{JobState, ReplicaState, State};
use contract::{exit, role::Role};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Start these for the first time in this round.
    Start(Vec<ReplicaId>),
    /// Start this one again.
    Restart(ReplicaId),
    /// Ask these trainers to end, or kill them: fewer are wanted.
    Leave {
        /// The trainers.
        replicas: Vec<ReplicaId>,
        /// Whether they were asked before and have not ended.
        is_killed: bool,
    },
    /// Kill everything and begin another round, because of this replica.
    Again(ReplicaId),
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
/// How long the end of a killed process is waited for. The kernel ends one at once, unless it hangs
/// in a call that cannot be interrupted.
const DEATH_MS: u64 = 30_000;
/// How long servers may take to write their last checkpoint after a training that succeeded. Killed
/// after the grace, as everything else is, they would lose it.
const LAST_CHECKPOINT_MS: u64 = 600_000;

/// The next step and its reason, in words for people; empty where nothing happens.
pub fn decide(now_ms: u64, record: &JobRecord, policy: &Policy) -> (Decision, String) {
    if let Some(ending) = &record.ending {
        return decide_ending(now_ms, record, ending, policy);
    }
    let mut wake_ms: Option<u64> = None;
    let mut wait_until = |moment: u64| wake_ms = Some(wake_ms.map_or(moment, |w| w.min(moment)));
    if let Some(limit_ms) = policy.time_limit_ms {
        let since_ms = record.granted_ms.unwrap_or(record.began_ms);
        let deadline = since_ms.saturating_add(limit_ms);
        if deadline <= now_ms {
            return end(out_of_time(limit_ms));
        }
        wait_until(deadline);
    }
    // Those that take all with them first: what fails besides fails because of them.
    let takes_all_first = record.replicas.iter().filter(|r| takes_all(r));
    let others = record.replicas.iter().filter(|r| !takes_all(r));
    for replica in takes_all_first.chain(others) {
        match replica.state {
            ReplicaState::Failed if has_finished_anyway(replica, record) => {}
            ReplicaState::Failed | ReplicaState::Lost
                if is_dispensable(replica, record, policy) => {}
            ReplicaState::Failed | ReplicaState::Lost if elastic::comes_back(replica, record) => {}
            ReplicaState::Failed if has_no_servers_left(replica, record) => {
                return end(failed_at_last(replica));
            }
            ReplicaState::Failed | ReplicaState::Lost => match restart_ms(replica, policy) {
                None if replica.state == ReplicaState::Lost => return end(lost(replica)),
                None => return end(failure(replica, policy)),
                Some(moment) if moment <= now_ms => return start_again(replica, policy),
                Some(moment) => {
                    wait_until(moment);
                    if takes_all(replica) {
                        // The pause before another round: nothing new is begun meanwhile.
                        return (Decision::Wait(wake_ms), String::new());
                    }
                }
            },
            ReplicaState::Starting if replica.replica.is_server() => {
                let deadline = replica.started_ms.unwrap_or(now_ms).saturating_add(policy.ready_ms);
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
    let is_pending = |replica: &&ReplicaRecord| replica.state == ReplicaState::Pending;
    let waiting: Vec<_> = servers().filter(is_pending).map(|server| server.replica).collect();
    if !waiting.is_empty() {
        return (Decision::Start(waiting), "servers first".to_owned());
    }
    let serves = |replica: &ReplicaRecord| {
        matches!(replica.state, ReplicaState::Running | ReplicaState::Succeeded)
    };
    let elastic::Leaving { asked, killed, wake_ms: grace_ms } =
        elastic::leaving(now_ms, record, policy);
    for (replicas, is_killed) in [(asked, false), (killed, true)] {
        if !replicas.is_empty() {
            let reason = format!("{} trainers are wanted", record.trainers);
            return (Decision::Leave { replicas, is_killed }, reason);
        }
    }
    let wake_ms = [wake_ms, grace_ms].into_iter().flatten().min();
    let is_elastic = policy.min_trainers.is_some();
    let has_trained = is_elastic && elastic::has_trained(record);
    let starts = |replica: &&ReplicaRecord| {
        let is_wanted = !elastic::is_superfluous(replica, record) && !has_trained;
        is_wanted && (is_pending(replica) || elastic::comes_back(replica, record))
    };
    let waiting: Vec<_> = trainers().filter(starts).map(|replica| replica.replica).collect();
    if servers().all(serves) && !waiting.is_empty() {
        return (Decision::Start(waiting), "all servers are ready".to_owned());
    }
    let is_done = |replica: &ReplicaRecord| {
        let does_nothing = replica.state.is_final() || replica.state == ReplicaState::Pending;
        replica.state == ReplicaState::Succeeded
            || has_finished_anyway(replica, record)
            || has_finished_before(replica, record)
            || (does_nothing && is_dispensable(replica, record, policy))
    };
    // Servers end when all that train have said goodbye: who is still there hangs.
    let is_served = has_trained
        && servers().any(|server| server.replica.role == Role::Pserver)
        && servers().all(|server| {
            server.replica.role == Role::Master || server.state == ReplicaState::Succeeded
        });
    if is_served || trainers().all(is_done) {
        return end(Verdict {
            state: JobState::Succeeded,
            exit_code: 0,
            reason: "all trainers finished".to_owned(),
            culprit: None,
        });
    }
    (Decision::Wait(wake_ms), String::new())
}

/// Whether the whole job has to begin again when this replica is gone.
fn takes_all(replica: &ReplicaRecord) -> bool {
    replica.replica.role == Role::Pserver || replica.state == ReplicaState::Lost
}

fn start_again(replica: &ReplicaRecord, policy: &Policy) -> (Decision, String) {
    let count = format!("{} of {}", replica.failures + 1, policy.restarts);
    let why = replica.reason();
    if takes_all(replica) {
        let from = match policy.has_checkpoints {
            true => "the newest checkpoint",
            false => "the beginning",
        };
        let name = replica.replica;
        let reason = format!("all replicas start again from {from} ({count}): {name}: {why}");
        return (Decision::Again(name), reason);
    }
    let reason = format!("{} is started again ({count}): {why}", replica.replica);
    (Decision::Restart(replica.replica), reason)
}

/// What is wrong with a job whose trainers all succeeded: servers that nobody used, trainers that
/// had nothing to do, which is no fault in an elastic job. To be asked when everything has ended.
pub fn idle(record: &JobRecord, is_elastic: bool) -> Option<String> {
    let trained_on_servers = |replica: &ReplicaRecord| {
        figure(replica, "remote").and_then(serde_json::Value::as_bool) == Some(true)
    };
    let servers = || record.replicas.iter().filter(|r| r.replica.role == Role::Pserver);
    let is_unused = |replica: &ReplicaRecord| replica.trainers_joined == Some(0);
    let is_used = record.replicas.iter().any(trained_on_servers);
    if servers().count() > 0 && !is_used && servers().all(is_unused) {
        let names = names(servers());
        return Some(format!(
            "no trainer used {names}: train with is_local=False (the default in a job with servers), \
             start the job without servers (`paddle launch --pservers 0`), or allow it \
             (`paddle launch --allow-idle`, `paddlecloud submit -allow_idle`)"
        ));
    }
    let had_nothing = |replica: &&ReplicaRecord| {
        let is_end = figure(replica, "event").and_then(serde_json::Value::as_str) == Some("end");
        let samples = figure(replica, "samples").and_then(serde_json::Value::as_u64);
        // One that goes on with a training may find that nothing is left to do.
        let is_resumed = figure(replica, "resumed").and_then(serde_json::Value::as_bool);
        let goes_on = replica.attempt > 0 || is_resumed == Some(true);
        is_end && samples == Some(0) && !goes_on
    };
    let idle: Vec<_> = record.replicas.iter().filter(had_nothing).collect();
    let names: Vec<_> = idle.iter().map(|replica| replica.replica.to_string()).collect();
    (!names.is_empty() && !is_elastic).then(|| {
        format!(
            "{} got no data: make at least as many files or tasks as there are trainers, start \
             fewer trainers, or allow it (`paddle launch --allow-idle`, `paddlecloud submit \
             -allow_idle`)",
            names.join(", ")
        )
    })
}

/// Why a job that is trained lacks its last checkpoint, if it does: a server said that it could not
/// write it, or did not live to say anything. To be asked when everything has ended.
pub fn unsaved(record: &JobRecord, policy: &Policy) -> Option<String> {
    let has_failed = |replica: &&ReplicaRecord| {
        let is_cut_short = replica.state.is_final() && replica.state != ReplicaState::Succeeded;
        let should_save = policy.has_checkpoints && replica.replica.role == Role::Pserver;
        replica.is_unsaved || (should_save && is_cut_short)
    };
    let names = names(record.replicas.iter().filter(has_failed));
    (!names.is_empty()).then(|| {
        format!(
            "the training finished, but {names} did not write the last checkpoint: the end of its \
             log says why (checkpoint_dir)"
        )
    })
}

/// What looks distributed and is not, though the job did what its program says.
pub fn unasked_master(record: &JobRecord) -> Option<String> {
    // One that was started again has heard only a part.
    let is_unasked = |replica: &ReplicaRecord| {
        replica.replica.role == Role::Master
            && (replica.trainers_joined, replica.attempt) == (Some(0), 0)
    };
    record.replicas.iter().any(is_unasked).then(|| {
        "no trainer asked the master for data, so each read what its program says: read with \
         cloud_reader (docs/data.md), or start the job without a master"
            .to_owned()
    })
}

fn figure<'a>(replica: &'a ReplicaRecord, name: &str) -> Option<&'a serde_json::Value> {
    replica.metrics.as_ref()?.get(name)
}

/// How a job ends that was to be over by now.
pub(crate) fn out_of_time(limit_ms: u64) -> Verdict {
    let seconds = limit_ms / 1000;
    Verdict {
        state: JobState::Failed,
        exit_code: 1,
        reason: format!("ended after its time limit of {seconds} s (time_limit_seconds)"),
        culprit: None,
    }
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
    let deadline = ending.since_ms.saturating_add(policy.grace_ms);
    let silently = |decision| (decision, String::new());
    let saves_until = ending.since_ms.saturating_add(LAST_CHECKPOINT_MS);
    let may_save = policy.has_checkpoints && ending.verdict.state == JobState::Succeeded;
    if record.replicas.iter().all(has_ended) {
        silently(Decision::Finish)
    } else if ending.is_forced {
        match ending.since_ms.saturating_add(DEATH_MS) {
            last if now_ms < last => silently(Decision::Wait(Some(last))),
            _ => (Decision::Finish, undead(record).unwrap_or_default()),
        }
    } else if now_ms < deadline {
        silently(Decision::Wait(Some(deadline)))
    } else if may_save && now_ms < saves_until && record.replicas.iter().any(is_saving) {
        let hung = record.replicas.iter().filter(|replica| {
            !has_ended(replica) && !is_saving(replica) && replica.leaving_ms != Some(u64::MAX)
        });
        let replicas: Vec<_> = hung.map(|replica| replica.replica).collect();
        if replicas.is_empty() {
            let names = names(record.replicas.iter().filter(|replica| is_saving(replica)));
            let reason = format!("waiting for {names} to write the last checkpoint");
            (Decision::Wait(Some(saves_until)), reason)
        } else {
            let reason = "what has not ended is killed, but for servers that save".to_owned();
            (Decision::Leave { replicas, is_killed: true }, reason)
        }
    } else {
        let seconds = policy.grace_ms / 1000;
        (Decision::Kill, format!("what has not ended within {seconds} s is killed"))
    }
}

fn has_ended(replica: &ReplicaRecord) -> bool {
    replica.state == ReplicaState::Pending || replica.state.is_final()
}

/// Whether a replica of a job that is trained writes what it holds to disk: servers do so when all
/// trainers have left, and end when it is written.
fn is_saving(replica: &ReplicaRecord) -> bool {
    replica.replica.role == Role::Pserver && !has_ended(replica)
}

fn names<'a>(replicas: impl Iterator<Item = &'a ReplicaRecord>) -> String {
    replicas.map(|replica| replica.replica.to_string()).collect::<Vec<_>>().join(", ")
}

/// Which replicas were killed and have not ended all the same. To be asked when the job is over.
pub fn undead(record: &JobRecord) -> Option<String> {
    let name = |replica: &ReplicaRecord| match replica.pid {
        Some(pid) => format!("{} (pid {pid} on {})", replica.replica, replica.host),
        None => format!("{} (on {})", replica.replica, replica.host),
    };
    let left = record.replicas.iter().filter(|replica| !has_ended(replica));
    let names: Vec<_> = left.map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} did not end within {} s after being killed: it hangs in the kernel, often for a \
             disk or a network file system that does not answer",
            names.join(", "),
            DEATH_MS / 1000
        )
    })
}

/// When a failed replica may be started again; `None` if it may not.
pub(super) fn restart_ms(replica: &ReplicaRecord, policy: &Policy) -> Option<u64> {
    // A server says with 2 that it was asked for something that makes no sense.
    let is_hopeless = |code| HOPELESS.contains(&code) || (replica.replica.is_server() && code == 2);
    let is_hopeless = replica.exit_code.is_some_and(is_hopeless);
    if replica.failures >= policy.restarts || is_hopeless {
        return None;
    }
    let pause = match replica.failures {
        0 => 0,
        failures => PAUSE_MS.saturating_mul(1 << (failures - 1).min(16)).min(PAUSE_MS_MAX),
    };
    Some(replica.ended_ms.unwrap_or(0) + pause)
}

fn failure(replica: &ReplicaRecord, policy: &Policy) -> Verdict {
    let again = match replica.failures {
        0 => String::new(),
        failures => format!(" after {failures} of {} restarts", policy.restarts),
    };
    let reason = replica.reason();
    let code = match replica.exit_code {
        Some(code) if code != 0 && !reason.contains(&code.to_string()) => {
            format!(" ({})", code_in_words(code))
        }
        _ => String::new(),
    };
    Verdict {
        state: JobState::Failed,
        exit_code: replica.exit_code.filter(|code| *code != 0).unwrap_or(1),
        reason: format!("{} failed{again}{code}: {reason}", replica.replica),
        culprit: Some(replica.replica),
    }
}

fn failed_at_last(replica: &ReplicaRecord) -> Verdict {
    Verdict {
        state: JobState::Failed,
        exit_code: replica.exit_code.filter(|code| *code != 0).unwrap_or(1),
        reason: format!(
            "{} failed after its training was over: {}; it is not started again, since its servers \
             have ended",
            replica.replica,
            replica.reason()
        ),
        culprit: Some(replica.replica),
    }
}

fn lost(replica: &ReplicaRecord) -> Verdict {
    Verdict {
        state: JobState::Failed,
        exit_code: 1,
        reason: format!(
            "{} is lost with its host, {}: {}",
            replica.replica,
            replica.host,
            replica.reason()
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        restarts: 2,
        ready_ms: 1000,
        grace_ms: 500,
        time_limit_ms: Some(20_000),
        allows_idle: false,
        has_checkpoints: true,
        min_trainers: None,
    };

    /// A job given as `pserver-0 running, trainer-0 failed 1`: replicas, states, exit codes; `@N`
    /// is the number of failures. All were started at 100 and ended at 200.
    fn record(text: &str) -> JobRecord {
        let replica = |text: &str| {
            let mut words = text.split_whitespace();
            let id = words.next().unwrap().parse().unwrap();
            let mut replica = ReplicaRecord {
                state: words.next().unwrap().parse().unwrap(),
                started_ms: Some(100),
                ended_ms: Some(200),
                ..ReplicaRecord::pending(id, "localhost".to_owned(), "log".into())
            };
            for word in words {
                match word.strip_prefix('@') {
                    Some(failures) => replica.failures = failures.parse().unwrap(),
                    None => replica.exit_code = Some(word.parse().unwrap()),
                }
            }
            replica
        };
        let replicas: Vec<_> = text.split(',').map(replica).collect();
        let trainers = replicas.iter().filter(|one| one.replica.role == Role::Trainer).count();
        JobRecord {
            state: JobState::Running,
            trainers: trainers as u32,
            replicas,
            ..JobRecord::default()
        }
    }

    fn check(now_ms: u64, text: &str, expect: &str) {
        let (decision, _) = decide(now_ms, &record(text), &POLICY);
        assert_eq!(shown(decision), expect, "{text}");
    }

    /// An elastic job that goes on with one trainer, and of which `wanted` are wanted.
    fn check_elastic(now_ms: u64, wanted: u32, text: &str, expect: &str) {
        let job = JobRecord { trainers: wanted, ..record(text) };
        let policy = Policy { min_trainers: Some(1), ..POLICY };
        assert_eq!(shown(decide(now_ms, &job, &policy).0), expect, "{text}");
    }

    fn shown(decision: Decision) -> String {
        let names = |ids: Vec<ReplicaId>| {
            ids.iter().map(ReplicaId::to_string).collect::<Vec<_>>().join(" ")
        };
        match decision {
            Decision::Leave { replicas, is_killed } => {
                format!("{} {}", if is_killed { "kill" } else { "ask" }, names(replicas))
            }
            Decision::Start(replicas) => format!("start {}", names(replicas)),
            Decision::Restart(replica) => format!("restart {replica}"),
            Decision::Again(replica) => format!("again {replica}"),
            Decision::End(verdict) => format!("{} {}", verdict.state, verdict.exit_code),
            Decision::Wait(moment) => format!("wait {moment:?}"),
            decision => format!("{decision:?}"),
        }
    }

    #[test]
    fn an_elastic_job_goes_on_without_a_trainer_that_cannot_come_back() {
        let check = |text: &str, expect: &str| check_elastic(300, 3, text, expect);
        let others = "pserver-0 running, trainer-0 running";
        check(&format!("{others}, trainer-1 failed 1 @2, trainer-2 running"), "wait Some(20000)");
        check(&format!("{others}, trainer-1 lost, trainer-2 running"), "wait Some(20000)");
        check(&format!("{others}, trainer-1 failed 1, trainer-2 running"), "restart trainer-1");
        // It takes no part in the end of a pass, and nobody writes the model.
        check("pserver-0 running, trainer-0 failed 9 @2, trainer-1 running", "failed 9");
        check("pserver-0 running, trainer-0 lost, trainer-1 running", "again trainer-0");
        check("pserver-0 lost, trainer-0 running, trainer-1 lost", "again pserver-0");
        let short = Policy { min_trainers: Some(2), ..POLICY };
        let job = record("pserver-0 running, trainer-0 running, trainer-1 failed 7 @2");
        assert_eq!(shown(decide(300, &job, &short).0), "failed 7");
    }

    #[test]
    fn an_elastic_job_has_as_many_trainers_as_are_wanted() {
        let two = "pserver-0 running, trainer-0 running, trainer-1 running";
        check_elastic(300, 1, two, "ask trainer-1");
        check_elastic(300, 3, &format!("{two}, trainer-2 pending"), "start trainer-2");
        let mut job = JobRecord { trainers: 1, ..record(two) };
        let policy = Policy { min_trainers: Some(1), ..POLICY };
        let leaver = ["trainer-1".parse().unwrap()];
        job.leave(&leaver, false, 300);
        assert_eq!(shown(decide(799, &job, &policy).0), "wait Some(800)");
        assert_eq!(shown(decide(800, &job, &policy).0), "kill trainer-1");
        job.leave(&leaver, true, 800);
        assert_eq!(shown(decide(900, &job, &policy).0), "wait Some(20000)");
        job.replicas[2].state = ReplicaState::Killed;
        assert_eq!(shown(decide(900, &job, &policy).0), "wait Some(20000)");
        job.trainers = 2;
        assert_eq!(shown(decide(900, &job, &policy).0), "start trainer-1");
    }

    #[test]
    fn an_elastic_job_is_done_with_trainer_0() {
        let check = |text: &str, expect: &str| check_elastic(300, 2, text, expect);
        check("pserver-0 running, trainer-0 succeeded 0, trainer-1 running", "wait Some(20000)");
        check("pserver-0 running, trainer-0 succeeded 0, trainer-1 failed 1", "succeeded 0");
        check("pserver-0 running, trainer-0 succeeded 0, trainer-1 pending", "succeeded 0");
        // It hangs: the servers have heard the goodbyes of all others and given it up.
        check("pserver-0 succeeded 0, trainer-0 succeeded 0, trainer-1 running", "succeeded 0");
    }

    #[test]
    fn servers_come_first_and_trainers_when_all_serve() {
        check(
            0,
            "master-0 pending, pserver-0 pending, trainer-0 pending",
            "start master-0 pserver-0",
        );
        check(150, "pserver-0 starting, pserver-1 running, trainer-0 pending", "wait Some(1100)");
        check(
            150,
            "pserver-0 running, trainer-0 pending, trainer-1 pending",
            "start trainer-0 trainer-1",
        );
        check(0, "trainer-0 pending", "start trainer-0");
        check(150, "pserver-0 running, trainer-0 running", "wait Some(20000)");
    }

    #[test]
    fn the_job_is_done_when_all_trainers_are() {
        check(
            300,
            "pserver-0 running, trainer-0 succeeded 0, trainer-1 running",
            "wait Some(20000)",
        );
        check(300, "pserver-0 running, trainer-0 succeeded 0", "succeeded 0");
        // A server leaves by itself when the last trainer has said goodbye.
        check(300, "pserver-0 succeeded 0, trainer-0 running", "wait Some(20000)");
    }

    #[test]
    fn a_failure_is_repaired_as_often_as_allowed_and_then_ends_the_job() {
        check(300, "pserver-0 running, trainer-0 failed 1", "restart trainer-0");
        check(300, "pserver-0 failed 137, trainer-0 running", "again pserver-0");
        check(300, "pserver-0 failed 137 @1, trainer-0 failed 1 @2", "wait Some(1200)");
        check(300, "pserver-0 running, master-0 failed 137, trainer-0 running", "restart master-0");
        // The second time after a pause, the third time not at all.
        check(300, "pserver-0 running, trainer-0 failed 1 @1", "wait Some(1200)");
        check(1200, "pserver-0 running, trainer-0 failed 1 @1", "restart trainer-0");
        check(9000, "pserver-0 running, trainer-0 failed 7 @2", "failed 7");
        check(300, "pserver-0 failed 9 @2, trainer-0 running", "failed 9");
        // What is not there will not be there the next time.
        check(300, "trainer-0 failed 127", "failed 127");
        check(300, "trainer-0 failed 126", "failed 126");
        check(300, "trainer-0 lost", "again trainer-0");
        check(300, "trainer-0 lost @2", "failed 1");
    }

    #[test]
    fn a_trainer_that_is_killed_after_its_goodbye_has_finished() {
        check(300, "pserver-0 succeeded 0, trainer-0 failed 137 @2", "succeeded 0");
        // Its own failure is one, and there is nobody left to train with.
        check(300, "pserver-0 succeeded 0, trainer-0 failed 1 @0", "failed 1");
        check(300, "pserver-0 running, trainer-0 failed 137 @2", "failed 137");
    }

    #[test]
    fn a_trainer_that_is_started_again_behind_its_goodbye_is_not_waited_for() {
        let check = |goodbyes: Option<&[(u32, u32)]>, text: &str, expect: &str| {
            let mut record = record(text);
            let goodbyes = goodbyes.map(<[_]>::to_vec);
            record.replicas[0].goodbyes = goodbyes;
            record.replicas[2].attempt = 2;
            assert_eq!(shown(decide(300, &record, &POLICY).0), expect, "{text}");
        };
        let others = "pserver-0 succeeded 0, trainer-0 succeeded 0";
        for earlier in [&[][..], &[(1, 1)][..], &[(0, 5), (1, 1)][..]] {
            check(Some(earlier), &format!("{others}, trainer-1 running"), "succeeded 0");
            // It has dialled its servers in vain.
            check(Some(earlier), &format!("{others}, trainer-1 failed 1 @2"), "succeeded 0");
        }
        // It has trained itself, or nobody knows.
        for own in [Some(&[(1, 2)][..]), Some(&[(1, u32::MAX)][..]), None] {
            check(own, &format!("{others}, trainer-1 running"), "wait Some(20000)");
            check(own, &format!("{others}, trainer-1 failed 3 @2"), "failed 3");
        }
        let serving = "pserver-0 running, trainer-0 succeeded 0";
        check(Some(&[]), &format!("{serving}, trainer-1 running"), "wait Some(20000)");
    }

    #[test]
    fn a_job_ends_at_its_time_limit() {
        check(19_999, "trainer-0 running", "wait Some(20000)");
        check(20_000, "trainer-0 running", "failed 1");
        let (_, reason) = decide(20_000, &record("trainer-0 running"), &POLICY);
        insta::assert_snapshot!(reason, @"ended after its time limit of 20 s (time_limit_seconds)");
    }

    #[test]
    fn servers_and_trainers_without_work_are_named() {
        let idle_of = |text: &str, joined: Option<u32>, figures: serde_json::Value| {
            let mut record = record(text);
            for replica in &mut record.replicas {
                match replica.replica.role {
                    Role::Pserver => replica.trainers_joined = joined,
                    _ => replica.metrics = Some(figures.clone()),
                }
            }
            idle(&record, false).unwrap_or_default()
        };
        let text = "pserver-0 killed, pserver-1 killed, trainer-0 succeeded 0";
        let local = serde_json::json!({"event": "end", "samples": 8, "remote": false});
        insta::assert_snapshot!(idle_of(text, Some(0), local.clone()), @"no trainer used pserver-0, pserver-1: train with is_local=False (the default in a job with servers), start the job without servers (`paddle launch --pservers 0`), or allow it (`paddle launch --allow-idle`, `paddlecloud submit -allow_idle`)");
        assert_eq!(idle_of(text, Some(1), local.clone()), "");
        assert_eq!(idle_of("trainer-0 succeeded 0", None, local), "");
        let resumed = serde_json::json!({"event": "end", "samples": 0, "resumed": true});
        assert_eq!(idle_of(text, Some(1), resumed), "", "nothing was left to train");
        let empty = serde_json::json!({"event": "end", "samples": 0, "remote": true});
        insta::assert_snapshot!(idle_of(text, Some(1), empty), @"trainer-0 got no data: make at least as many files or tasks as there are trainers, start fewer trainers, or allow it (`paddle launch --allow-idle`, `paddlecloud submit -allow_idle`)");
    }

    #[test]
    fn a_master_that_nobody_asked_is_named() {
        let asked = |trainers, attempt| {
            let mut record = record("master-0 killed, trainer-0 succeeded 0");
            (record.replicas[0].trainers_joined, record.replicas[0].attempt) = (trainers, attempt);
            unasked_master(&record).is_none()
        };
        assert!(!asked(Some(0), 0));
        assert!(asked(Some(1), 0) && asked(None, 0) && asked(Some(0), 1));
    }

    #[test]
    fn a_server_has_until_its_deadline_to_get_ready() {
        check(1099, "pserver-0 starting, trainer-0 pending", "wait Some(1100)");
        check(1100, "pserver-0 starting, trainer-0 pending", "failed 1");
        let (_, reason) = decide(1100, &record("master-0 starting"), &POLICY);
        insta::assert_snapshot!(reason, @"master-0 did not get ready within 1 s: the end of its log says how far the master came; give it more time with --ready_timeout");
    }

    #[test]
    fn servers_have_time_to_write_the_last_checkpoint() {
        let check = |now_ms, has_checkpoints, text: &str, expect: &str| {
            let verdict = Verdict { state: JobState::Succeeded, ..Verdict::failed(String::new()) };
            let ending = Some(Ending { verdict, since_ms: 100, is_forced: false });
            let policy = Policy { has_checkpoints, ..POLICY };
            let (decision, reason) = decide(now_ms, &JobRecord { ending, ..record(text) }, &policy);
            assert_eq!(shown(decision), expect, "{text}: {reason}");
            reason
        };
        let text = "pserver-0 running, pserver-1 succeeded 0, trainer-0 succeeded 0";
        check(599, true, text, "wait Some(600)");
        let reason = check(600, true, text, "wait Some(600100)");
        insta::assert_snapshot!(reason, @"waiting for pserver-0 to write the last checkpoint");
        check(600_100, true, text, "Kill");
        check(600, false, text, "Kill");
        // Whatever else hangs is killed.
        check(600, true, "pserver-0 running, trainer-0 running", "kill trainer-0");
        check(600, true, "pserver-0 succeeded 0, trainer-0 running", "Kill");
    }

    #[test]
    fn a_server_that_did_not_write_the_last_checkpoint_is_named() {
        let unsaved =
            |text, has_checkpoints| unsaved(&record(text), &Policy { has_checkpoints, ..POLICY });
        let killed = "pserver-0 killed 137, pserver-1 lost, pserver-2 succeeded 0, master-0 killed";
        insta::assert_snapshot!(unsaved(killed, true).unwrap(), @"the training finished, but pserver-0, pserver-1 did not write the last checkpoint: the end of its log says why (checkpoint_dir)");
        assert_eq!(unsaved(killed, false), None);
        assert_eq!(unsaved("pserver-0 succeeded 0, trainer-0 succeeded 0", true), None);
        let mut told = record("pserver-0 succeeded 0");
        told.replicas[0].is_unsaved = true;
        assert!(super::unsaved(&told, &POLICY).is_some());
    }

    #[test]
    fn what_makes_no_sense_to_a_server_is_not_tried_again() {
        check(200, "pserver-0 failed 2", "failed 2");
        check(200, "pserver-0 failed 1", "again pserver-0");
    }

    #[test]
    fn a_trainer_that_was_given_up_is_told_once_and_comes_back_when_asked_for() {
        let policy = Policy { min_trainers: Some(1), ..POLICY };
        let mut job =
            record("master-0 running, trainer-0 running, trainer-1 failed 7 @2, trainer-2 lost");
        insta::assert_snapshot!(elastic::losses(&job, &policy).join("\n"), @r"
        the job goes on without trainer-1, unless `paddle scale` starts it again (attempt 0: exited with code 7: the end of its log says why)
        the job goes on without trainer-2, since its machine, localhost, is lost (attempt 0: )
        ");
        let plan = crate::plan::JobPlan {
            job: String::new(),
            nodes: Vec::new(),
            replicas: Vec::new(),
            policy,
        };
        job.scale(&plan, 3);
        assert_eq!(shown(decide(900, &job, &policy).0), "start trainer-1");
        let trainer = |job: &JobRecord, rank: usize| job.replicas[rank + 1].clone();
        job.begin(trainer(&job, 1).replica, 900);
        assert_eq!((trainer(&job, 1).failures, trainer(&job, 1).attempt), (0, 1));
        // Its machine is lost meanwhile, and it is given up as the other.
        job.lose_host("localhost", "gone", 900);
        assert_eq!(trainer(&job, 1).state, ReplicaState::Lost);
    }

    #[test]
    fn reasons_are_plain_words() {
        let reason = |text| decide(9000, &record(text), &POLICY).1;
        insta::assert_snapshot!(reason("trainer-1 failed 139 @2"), @"trainer-1 failed after 2 of 2 restarts (exit code 139, signal 11): crashed: invalid memory access (segmentation fault)");
        insta::assert_snapshot!(reason("trainer-1 failed 42 @2"), @"trainer-1 failed after 2 of 2 restarts: exited with code 42: the end of its log says why");
        insta::assert_snapshot!(reason("trainer-1 failed 137"), @"trainer-1 is started again (1 of 2): killed or out of memory: if nobody killed it, ask for more memory");
    }

    #[test]
    fn what_was_asked_to_end_is_killed_after_a_grace() {
        let verdict = Verdict {
            state: JobState::Killed,
            exit_code: 130,
            reason: "interrupted".to_owned(),
            culprit: None,
        };
        let check = |now_ms, text, is_forced, expect| {
            let ending = Ending { verdict: verdict.clone(), since_ms: 100, is_forced };
            let job = JobRecord { ending: Some(ending), ..record(text) };
            assert_eq!(decide(now_ms, &job, &POLICY).0, expect, "{text}");
        };
        let running = "pserver-0 running, trainer-0 killed 143";
        check(599, running, false, Decision::Wait(Some(600)));
        check(600, running, false, Decision::Kill);
        // Killed; one that hangs in the kernel is not waited for for ever.
        check(9000, running, true, Decision::Wait(Some(30_100)));
        check(30_100, running, true, Decision::Finish);
        insta::assert_snapshot!(undead(&record(running)).unwrap(), @"pserver-0 (on localhost) did not end within 30 s after being killed: it hangs in the kernel, often for a disk or a network file system that does not answer");
        assert_eq!(undead(&record("trainer-0 killed, trainer-1 pending")), None);
        check(
            100,
            "pserver-0 succeeded, trainer-0 killed, trainer-1 pending",
            false,
            Decision::Finish,
        );
    }
}
