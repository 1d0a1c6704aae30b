//! The end of a job in words: how it ended and after which time, the last figures, where everything
//! is; at a failure its first cause, with the last lines of the replica that failed. Pure.

use crate::figures::Figures;
use crate::traceback;
use contract::state::JobState;
use scheduler::JobRecord;

/// How much of a failed replica's output is repeated.
const LAST_LINES: usize = 20;
/// Metrics that are shown; a program may have any number.
const METRICS_MAX: usize = 8;

/// Where a job has left things; what it has not left is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Its logs.
    pub logs: Option<String>,
    /// The models it saved.
    pub model: Option<String>,
    /// The servers' checkpoints.
    pub checkpoints: Option<String>,
}

/// The summary. `last` are the last lines of the replica that failed, more than are shown.
pub fn text(command: &str, record: &JobRecord, places: &Places, last: &[String]) -> String {
    let mut text = format!("{command}: {}\n", headline(record));
    if record.state == JobState::Failed
        && let Some(culprit) = record.culprit.and_then(|culprit| record.replica(culprit))
    {
        let log = culprit.log.display();
        match last {
            [] => text.push_str(&format!("it printed nothing ({log})\n")),
            lines => {
                text.push_str(&format!("the last lines of {} ({log}):\n", culprit.replica));
                let folded = traceback::fold(lines);
                let shown = &folded[folded.len().saturating_sub(LAST_LINES)..];
                shown.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
            }
        }
    }
    let figures = Figures::of(record);
    let rows = [
        ("speed", figures.samples_per_second.map(|speed| format!("{speed:.0} samples/s"))),
        ("cost", cost(&figures)),
        ("logs", places.logs.clone()),
        ("model", places.model.clone()),
        ("checkpoints", places.checkpoints.clone()),
    ];
    for (name, value) in rows {
        text.extend(value.map(|value| format!("  {name:<12} {value}\n")));
    }
    text
}

fn headline(record: &JobRecord) -> String {
    let ended_ms = record.ended_ms.unwrap_or(record.began_ms);
    let time = duration(ended_ms.saturating_sub(record.began_ms));
    match (record.state, record.reason.as_str()) {
        (JobState::Succeeded, _) => format!("succeeded in {time}"),
        (state, "") => format!("{state} after {time}"),
        (state, reason) => format!("{state} after {time}: {reason}"),
    }
}

fn cost(figures: &Figures) -> Option<String> {
    let cost = figures.cost?;
    let metrics = figures.metrics.iter().take(METRICS_MAX);
    let metrics: String = metrics.map(|(name, value)| format!("  {name} {value:.5}")).collect();
    let place = match (figures.pass, figures.batch) {
        (Some(pass), Some(batch)) => format!("  (pass {pass}, batch {batch})"),
        _ => String::new(),
    };
    Some(format!("{cost:.5}{metrics}{place}"))
}

/// A time as people say it.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
pub(crate) mod example {
    //! A job for tests: one server, a trainer that runs and one that is started again.

    use contract::state::{JobState, ReplicaState};
    use scheduler::{JobRecord, ReplicaRecord};

    pub(crate) fn figures(cost: f64) -> serde_json::Value {
        serde_json::json!({
            "pass": 1, "batch": 20, "cost": cost, "samples_per_second": 150.4,
            "metrics": {"error": cost / 2.0, "note": "none"},
        })
    }

    pub(crate) fn record() -> JobRecord {
        let replica = |name: &str, state| {
            let (id, log) = (name.parse().unwrap(), format!("/job/log/{name}.log").into());
            let restarts = u32::from(name == "trainer-1");
            ReplicaRecord {
                state,
                attempt: restarts,
                failures: restarts,
                ..ReplicaRecord::pending(id, "localhost".to_owned(), log)
            }
        };
        JobRecord {
            state: JobState::Running,
            began_ms: 1000,
            replicas: vec![
                replica("pserver-0", ReplicaState::Running),
                replica("trainer-0", ReplicaState::Running),
                replica("trainer-1", ReplicaState::Starting),
            ],
            ..JobRecord::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_success_says_what_came_out_of_it() {
        let mut record = example::record();
        record.state = JobState::Succeeded;
        record.ended_ms = Some(13_345);
        record.replicas[1].metrics = Some(example::figures(0.5));
        record.replicas[2].metrics = Some(example::figures(0.25));
        let places = Places {
            logs: Some("/job/log".to_owned()),
            model: Some("/job/output".to_owned()),
            checkpoints: None,
        };
        insta::assert_snapshot!(text("paddle launch", &record, &places, &lines("not shown")), @r"
        paddle launch: succeeded in 12.3 s
          speed        301 samples/s
          cost         0.37500  error 0.18750  (pass 1, batch 20)
          logs         /job/log
          model        /job/output
        ");
    }

    #[test]
    fn a_failure_has_its_cause_and_the_last_lines_of_the_culprit() {
        let mut record = example::record();
        record.state = JobState::Failed;
        record.ended_ms = Some(91_000);
        record.reason = "trainer-1 failed: the program failed".to_owned();
        record.culprit = Some("trainer-1".parse().unwrap());
        let places = Places { logs: Some("/job/log".to_owned()), ..Places::default() };
        let mut last = lines("early");
        last.extend((0..19).map(|number| number.to_string()));
        last.push("ValueError: 7".to_owned());
        let shown = text("paddle launch", &record, &places, &last);
        assert!(!shown.contains("early") && shown.contains("    0\n"), "{shown}");
        insta::assert_snapshot!(text("paddle launch", &record, &places, &last[18..]), @r"
        paddle launch: failed after 1 min 30 s: trainer-1 failed: the program failed
        the last lines of trainer-1 (/job/log/trainer-1.log):
            17
            18
            ValueError: 7
          logs         /job/log
        ");
        insta::assert_snapshot!(text("paddle launch", &record, &Places::default(), &[]), @r"
        paddle launch: failed after 1 min 30 s: trainer-1 failed: the program failed
        it printed nothing (/job/log/trainer-1.log)
        ");
    }

    #[test]
    fn times_are_short_to_read() {
        let shown = [0, 950, 59_999, 60_000, 3_599_000, 3_600_000, 90_000_000].map(duration);
        insta::assert_snapshot!(shown.join(", "), @"0.0 s, 0.9 s, 59.9 s, 1 min 00 s, 59 min 59 s, 1 h 00 min, 1 d 01 h");
    }
}
