//! What a job waits for, or why it ended: one sentence, with numbers. Pure.

use super::row::{JobRow, Stage};
use contract::api::job::Why;
use contract::role::Role;
use contract::state::{JobState, ReplicaState};

/// The sentence about a job.
pub(crate) fn why(now_ms: u64, row: &JobRow, place_notes: &[String]) -> Why {
    let mut notes = row.notes.clone();
    notes.extend(place_notes.iter().filter(|note| !row.notes.contains(note)).cloned());
    let mut sentence = sentence(now_ms, row);
    if let (Stage::Placed, Some(trouble)) = (row.stage, &row.trouble) {
        let since = duration(now_ms.saturating_sub(trouble.since_ms));
        let error = &trouble.error;
        sentence.push_str(&format!(
            "; that was {since} ago, since then the place that runs it cannot be asked: {error}"
        ));
    }
    Why { state: row.state, sentence, notes }
}

fn not_started(now_ms: u64, row: &JobRow) -> String {
    let times = match row.attempts {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let since = row.trouble.as_ref().map(|trouble| now_ms.saturating_sub(trouble.since_ms));
    let since = since.map(|since| format!(" in {}", duration(since))).unwrap_or_default();
    let next = match row.retry_ms.saturating_sub(now_ms) {
        0 => "now".to_owned(),
        pause => format!("in {}", duration(pause)),
    };
    format!("it could not be started, tried {times}{since}, again {next}: {}", row.reason)
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
        (JobState::Starting, Stage::Admitted) if row.attempts > 0 => not_started(now_ms, row),
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
            // Such as that its time is over, while its replicas are still ending.
            let why = if row.reason.is_empty() { "" } else { "; " };
            format!("it runs since {}: {}{why}{}", since(row.started_ms), counts(row), row.reason)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::row::Trouble;
    use contract::job::JobSpec;

    fn troubled(stage: Stage, state: JobState) -> JobRow {
        let spec = JobSpec { trainers: 2, ..JobSpec::default() };
        let trouble = Trouble { error: "nothing listens (host: n1)".to_owned(), since_ms: 60_000 };
        let row = JobRow::queued("job-1".to_owned(), String::new(), spec, None, 0);
        JobRow { stage, state, trouble: Some(trouble), started_ms: Some(30_000), ..row }
    }

    #[test]
    fn a_start_that_failed_says_how_often_since_when_and_when_again() {
        let reason = "nothing listens (host: n1)".to_owned();
        let row = troubled(Stage::Admitted, JobState::Starting);
        let row = JobRow { attempts: 3, retry_ms: 108_000, reason, ..row };
        insta::assert_snapshot!(sentence(100_000, &row), @"it could not be started, tried 3 times in 40 s, again in 8 s: nothing listens (host: n1)");
        let row = JobRow { attempts: 1, retry_ms: 0, ..row };
        insta::assert_snapshot!(sentence(100_000, &row), @"it could not be started, tried once in 40 s, again now: nothing listens (host: n1)");
    }

    #[test]
    fn a_job_that_is_ending_by_itself_says_why() {
        let reason = "ended after its time limit of 2 s (time_limit_seconds)".to_owned();
        let row = JobRow { trouble: None, reason, ..troubled(Stage::Placed, JobState::Running) };
        insta::assert_snapshot!(sentence(100_000, &row), @"it runs since 70 s: 0 of 2 trainers run; ended after its time limit of 2 s (time_limit_seconds)");
    }

    #[test]
    fn a_place_that_cannot_be_asked_is_told() {
        let row = troubled(Stage::Placed, JobState::Running);
        insta::assert_snapshot!(why(100_000, &row, &[]).sentence, @"it runs since 70 s: 0 of 2 trainers run; that was 40 s ago, since then the place that runs it cannot be asked: nothing listens (host: n1)");
        assert_eq!(
            row.job().reason,
            "the place that runs it cannot be asked: nothing listens (host: n1)"
        );
    }
}
