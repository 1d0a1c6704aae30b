//! Desired against observed: what to do next for one job, decided from what the database says and
//! what the backend says. Pure; [`super::drive`] carries it out.
//!
//! The problem: the server can die between any two steps, and the backend goes on without it. So
//! every step is a fact in the database (the [`Stage`]) or a fact of the backend (it knows the job
//! or not, the job has ended or not), and the next step follows from these alone:
//!
//! | stage | the backend has it | next |
//! |---|---|---|
//! | queued | never | wait for admission, or end if somebody wants that |
//! | admitted | no | start it, or end it if somebody wants that |
//! | admitted | yes | a start that nobody heard of: take it over |
//! | placed | running | look on; pass on a request to end it |
//! | placed | for long, and nothing runs | roll it back, and let it fail |
//! | placed | ended | archive its logs, write down the end |
//! | placed | no | it is lost, and the job failed |
//! | ended | yes | it may be forgotten |
//! | ended | no | done |
//!
//! A job is forgotten by its backend only after its end is in the database, so it is never taken
//! for one that was not started, and never runs twice.

use super::need::Need;
use super::row::{JobRow, Stage, worker_name};
use contract::Kind;
use contract::api::job::Worker;
use contract::state::{JobState, ReplicaState, State};
use scheduler::JobRecord;

/// What the backend says of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Observed {
    /// It has nothing of it.
    Unknown,
    /// It has it, and this is how it is.
    Known(Box<JobRecord>),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing until something changes.
    Wait,
    /// Give it to the backend.
    Start,
    /// The backend has it already: note that.
    TakeOver,
    /// Ask the backend to end it.
    Kill {
        /// Whether at once.
        is_forced: bool,
    },
    /// Note how it is; nothing more.
    Look,
    /// Archive the rest of its logs and write down its end.
    Finish,
    /// It never ran, or is lost: write down its end.
    End {
        /// Failed or killed.
        state: JobState,
        /// Why.
        reason: String,
    },
    /// The backend has it, and nothing of it ever ran: roll it back, and let it fail.
    GiveUp,
    /// Let the backend forget it.
    Forget,
    /// The backend has nothing of it any more: note that.
    Forgotten,
}

/// What to do next for a job.
pub(crate) fn decide(now_ms: u64, row: &JobRow, observed: &Observed) -> Step {
    let is_killed = row.kill_ms.is_some();
    let killed = |reason: String| Step::End { state: JobState::Killed, reason };
    match (row.stage, observed) {
        (Stage::Queued, _) if is_killed => killed("killed before it started".to_owned()),
        (Stage::Queued, _) => Step::Wait,
        (Stage::Admitted, Observed::Known(_)) => Step::TakeOver,
        (Stage::Admitted, Observed::Unknown) if is_killed => killed(killed_before_start(row)),
        (Stage::Admitted, Observed::Unknown) if must_wait(now_ms, row) => Step::Wait,
        (Stage::Admitted, Observed::Unknown) => Step::Start,
        (Stage::Placed, Observed::Unknown) if is_killed => {
            killed(if row.reason.is_empty() { "killed".to_owned() } else { row.reason.clone() })
        }
        (Stage::Placed, Observed::Unknown) => Step::End {
            state: JobState::Failed,
            reason: "everything of the job is gone from the place that ran it".to_owned(),
        },
        (Stage::Placed, Observed::Known(record)) if record.state.is_final() => Step::Finish,
        (Stage::Placed, Observed::Known(record)) if is_stuck(now_ms, row, record) => Step::GiveUp,
        (Stage::Placed, Observed::Known(record)) => match &record.ending {
            None if is_killed => Step::Kill { is_forced: row.is_kill_forced },
            Some(ending) if row.is_kill_forced && !ending.is_forced => {
                Step::Kill { is_forced: true }
            }
            _ => Step::Look,
        },
        (Stage::Ended, Observed::Known(record)) if record.state.is_final() => Step::Forget,
        // A start that was rolled back.
        (Stage::Ended, Observed::Known(record)) if record.ending.is_none() => {
            Step::Kill { is_forced: true }
        }
        (Stage::Ended, Observed::Known(_)) => Step::Wait,
        (Stage::Ended, Observed::Unknown) => Step::Forgotten,
    }
}

/// Why a job ends that was admitted, and that somebody wants to end: the row says who.
pub(crate) fn killed_before_start(row: &JobRow) -> String {
    match row.reason.as_str() {
        "" => "killed before it started".to_owned(),
        who => format!("{who}, before it started"),
    }
}

/// How often a start that fails for a reason that may pass is tried, if its backend answers.
const ATTEMPTS_MAX: u32 = 5;
/// How long it is tried if its backend does not answer.
const UNANSWERED_MS: u64 = 10 * 60 * 1000;
/// Between two attempts: doubled each time, up to this.
const RETRY_MS: u64 = 1000;
const RETRY_DOUBLED_MAX: u32 = 5;

/// Whether it is too early for the next attempt to start a job. A longer pause than there is comes
/// of a clock that was put back.
pub(crate) fn must_wait(now_ms: u64, row: &JobRow) -> bool {
    (1..=RETRY_MS << RETRY_DOUBLED_MAX).contains(&row.retry_ms.saturating_sub(now_ms))
}

/// After how many milliseconds a start that failed is tried again, if it is: its reason may pass,
/// and it was not tried too often.
pub(crate) fn decide_retry(
    kind: Kind,
    attempts: u32,
    failed_for_ms: u64,
    is_answering: bool,
) -> Option<u64> {
    let may_pass =
        matches!(kind, Kind::Unavailable | Kind::Timeout | Kind::Io | Kind::LimitExceeded);
    let may_try = match is_answering {
        true => may_pass && attempts < ATTEMPTS_MAX,
        // Whatever it said first, it does not say it any more.
        false => failed_for_ms < UNANSWERED_MS,
    };
    may_try.then(|| RETRY_MS << attempts.min(RETRY_DOUBLED_MAX))
}

/// How long a job may be with its backend before something of it runs.
const STUCK_MS: u64 = 120_000;

/// Whether nothing of a job ever ran, although it is with its backend for long.
fn is_stuck(now_ms: u64, row: &JobRow, record: &JobRecord) -> bool {
    let since_ms = row.started_ms.unwrap_or(now_ms);
    record.conductors == 0 && now_ms.saturating_sub(since_ms) > STUCK_MS
}

/// What the backend says, as the database keeps it. The second part are events worth telling.
pub(crate) fn apply(row: &JobRow, record: &JobRecord) -> (JobRow, Vec<String>) {
    let mut next = row.clone();
    next.workers = record
        .replicas
        .iter()
        .map(|replica| Worker {
            name: worker_name(&row.name, replica.replica),
            role: replica.replica.role,
            rank: replica.replica.rank,
            state: replica.state,
            host: replica.host.clone(),
            attempt: replica.attempt,
            started_ms: replica.started_ms,
            ended_ms: replica.ended_ms,
            exit_code: replica.exit_code,
            message: replica.message.clone().unwrap_or_default(),
        })
        .collect();
    if next.trainers != record.trainers {
        // Scaled by a server that died before it noted that.
        next.trainers = record.trainers;
        next.need = Need::of(&next.spec, next.trainers);
    }
    let own = row.notes.iter().filter(|note| !record.notes.contains(note)).cloned();
    let fresh = record.notes.iter().filter(|note| !row.notes.contains(note));
    let mut events: Vec<String> = fresh.cloned().collect();
    next.notes = own.chain(record.notes.iter().cloned()).collect();
    events.extend(replica_events(row, &next));
    next.state = match record.state {
        state if state.is_final() => state,
        _ if row.kill_ms.is_some() => JobState::Killing,
        JobState::Pending => JobState::Starting,
        state => state,
    };
    // Who wanted its end, and why, is known here alone.
    let is_wanted = row.kill_ms.is_some() && !row.reason.is_empty();
    next.reason = match (&record.ending, record.state) {
        (_, JobState::Killed) if is_wanted => row.reason.clone(),
        (_, state) if is_wanted && !state.is_final() => row.reason.clone(),
        (Some(ending), state) if !state.is_final() => ending.verdict.reason.clone(),
        _ => record.reason.clone(),
    };
    if next.state != row.state && !next.state.is_final() {
        events.push(next.state.to_string());
    }
    if record.state.is_final() {
        next.stage = Stage::Ended;
        next.exit_code = record.exit_code;
        next.ended_ms = record.ended_ms.or(Some(record.changed_ms));
        let why = if next.reason.is_empty() { String::new() } else { format!(": {}", next.reason) };
        events.push(format!("{}{why}", record.state));
    }
    (next, events)
}

/// What changed of the replicas that somebody should be told.
fn replica_events(old: &JobRow, new: &JobRow) -> Vec<String> {
    let mut events = Vec::new();
    for worker in &new.workers {
        let before = old.workers.iter().find(|before| before.name == worker.name);
        let is_new_attempt = before.is_some_and(|before| before.attempt < worker.attempt);
        if is_new_attempt {
            events.push(format!(
                "{} is started again, attempt {}",
                worker.name,
                worker.attempt + 1
            ));
        }
        let was = before.map(|before| before.state);
        let is_bad = matches!(worker.state, ReplicaState::Failed | ReplicaState::Lost);
        if is_bad && (was != Some(worker.state) || is_new_attempt) {
            let code = worker.exit_code.map_or(String::new(), |code| format!(", exit code {code}"));
            let message = match worker.message.as_str() {
                "" => String::new(),
                message => format!(": {message}"),
            };
            events.push(format!("{} {}{code}{message}", worker.name, worker.state));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::job::JobSpec;
    use scheduler::conductor::Stop;
    use scheduler::record::{Ending, Verdict};

    fn row(stage: Stage) -> JobRow {
        let spec = JobSpec { name: "ctr".into(), ..JobSpec::default() };
        JobRow { stage, ..JobRow::queued("ctr-1".into(), "r".into(), spec, None, 1) }
    }

    fn known(state: JobState, is_ending: bool) -> Observed {
        let verdict = || Verdict::killed(Stop { exit_code: 143, reason: None, is_forced: false });
        Observed::Known(Box::new(JobRecord {
            state,
            ending: is_ending.then(|| Ending { verdict: verdict(), since_ms: 0, is_forced: false }),
            ..JobRecord::default()
        }))
    }

    /// One line per stage and observation: what is done, and what if somebody wants its end.
    #[test]
    fn the_next_step_follows_from_the_facts() {
        let mut lines = String::new();
        let name = |step: Step| match step {
            Step::End { state, .. } => format!("end as {state}"),
            Step::Kill { is_forced } => format!("kill forced={is_forced}"),
            other => format!("{other:?}").to_lowercase(),
        };
        for stage in [Stage::Queued, Stage::Admitted, Stage::Placed, Stage::Ended] {
            for (word, observed) in [
                ("unknown", Observed::Unknown),
                ("running", known(JobState::Running, false)),
                ("ending", known(JobState::Running, true)),
                ("over", known(JobState::Failed, false)),
            ] {
                let wanted = JobRow { kill_ms: Some(5), ..row(stage) };
                let forced = JobRow { is_kill_forced: true, ..wanted.clone() };
                let steps =
                    [row(stage), wanted, forced].map(|row| name(decide(10, &row, &observed)));
                lines.push_str(&format!("{stage} {word}: {}\n", steps.join(" | ")));
            }
        }
        insta::assert_snapshot!(lines, @r"
        queued unknown: wait | end as killed | end as killed
        queued running: wait | end as killed | end as killed
        queued ending: wait | end as killed | end as killed
        queued over: wait | end as killed | end as killed
        admitted unknown: start | end as killed | end as killed
        admitted running: takeover | takeover | takeover
        admitted ending: takeover | takeover | takeover
        admitted over: takeover | takeover | takeover
        placed unknown: end as failed | end as killed | end as killed
        placed running: look | kill forced=false | kill forced=true
        placed ending: look | look | kill forced=true
        placed over: finish | finish | finish
        ended unknown: forgotten | forgotten | forgotten
        ended running: kill forced=true | kill forced=true | kill forced=true
        ended ending: wait | wait | wait
        ended over: forget | forget | forget
        ");
    }

    #[test]
    fn a_start_that_failed_is_not_tried_again_at_once() {
        let row = JobRow { retry_ms: 100, ..row(Stage::Admitted) };
        assert_eq!(decide(99, &row, &Observed::Unknown), Step::Wait);
        assert_eq!(decide(100, &row, &Observed::Unknown), Step::Start);
        let put_back = JobRow { retry_ms: 24 * 3600 * 1000, ..row };
        assert_eq!(decide(99, &put_back, &Observed::Unknown), Step::Start);
    }

    #[test]
    fn a_job_that_is_killed_while_it_starts_says_who_wanted_it() {
        let reason = "wu asked to end it".to_owned();
        let row = JobRow { kill_ms: Some(5), reason, ..row(Stage::Admitted) };
        let end = |reason: &str| Step::End { state: JobState::Killed, reason: reason.to_owned() };
        let expected = end("wu asked to end it, before it started");
        assert_eq!(decide(10, &row, &Observed::Unknown), expected);
        let row = JobRow { stage: Stage::Placed, ..row };
        assert_eq!(decide(10, &row, &Observed::Unknown), end("wu asked to end it"));
    }

    #[test]
    fn a_job_that_was_scaled_by_a_server_that_died_counts_as_large_as_it_is() {
        let row = row(Stage::Placed);
        let record = JobRecord { state: JobState::Running, trainers: 5, ..JobRecord::default() };
        let (next, _) = apply(&row, &record);
        assert_eq!((next.trainers, next.need), (5, Need::of(&row.spec, 5)));
    }

    #[test]
    fn a_job_that_nobody_runs_is_given_up() {
        let row = JobRow { started_ms: Some(1000), ..row(Stage::Placed) };
        let observed = known(JobState::Pending, false);
        assert_eq!(decide(1000 + STUCK_MS, &row, &observed), Step::Look);
        assert_eq!(decide(1001 + STUCK_MS, &row, &observed), Step::GiveUp);
    }

    #[test]
    fn what_the_backend_says_becomes_what_people_see() {
        let Observed::Known(record) = known(JobState::Pending, false) else { unreachable!() };
        let (next, events) = apply(&row(Stage::Placed), &record);
        assert_eq!((next.state, events), (JobState::Starting, vec!["starting".to_owned()]));
        let (next, _) = apply(&JobRow { kill_ms: Some(1), ..row(Stage::Placed) }, &record);
        assert_eq!(next.state, JobState::Killing);
        let mut record = *record;
        record.finish(Verdict::failed("trainer-0 failed".into()), 77);
        let (next, events) = apply(&next, &record);
        assert_eq!(
            (next.stage, next.state, next.ended_ms),
            (Stage::Ended, JobState::Failed, Some(77))
        );
        assert_eq!(events, ["failed: trainer-0 failed"]);
    }

    #[test]
    fn a_start_that_fails_is_tried_again_within_limits() {
        let pauses = |kind, is_answering| {
            let retry = |attempts| decide_retry(kind, attempts, 1000, is_answering);
            (1..=7).map(retry).map(|pause| pause.unwrap_or(0)).collect::<Vec<_>>()
        };
        let some = [2000, 4000, 8000, 16_000, 0, 0, 0];
        assert_eq!(pauses(Kind::Unavailable, true), some);
        // What can never work is not tried again.
        assert_eq!(pauses(Kind::Forbidden, true), [0; 7]);
        // A place that does not answer has longer, and an end, too.
        let long = [2000, 4000, 8000, 16_000, 32_000, 32_000, 32_000];
        assert_eq!(pauses(Kind::Timeout, false), long);
        assert_eq!(decide_retry(Kind::Timeout, 20, UNANSWERED_MS, false), None);
    }
}
