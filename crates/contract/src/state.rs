//! The lives of a job and of a replica: their states, and which may follow which.
//!
//! Whoever watches a job polls, so a state may be skipped: a short job goes from pending to
//! succeeded between two looks. What a state means for money, quotas or a screen is decided
//! elsewhere.
//!
//! A replica's life is that of one incarnation of its rank. A restart does not revive it; it is
//! another incarnation (`PADDLE_ATTEMPT` + 1), which begins as pending. So a replica that was
//! given up as lost and turns up again is a stranger: its incarnation is refused and it is killed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Kind, Result, word};

/// A state machine given by a table of successors.
pub trait State: Copy + Eq + fmt::Display + 'static {
    /// The word for what has this state.
    const OF: &'static str;

    /// The states that may follow, none for a final one.
    fn next(self) -> &'static [Self];

    /// Whether nothing can follow.
    fn is_final(self) -> bool {
        self.next().is_empty()
    }

    /// Whether `next` may follow. A state does not follow itself.
    fn can_become(self, next: Self) -> bool {
        self.next().contains(&next)
    }

    /// `next`, or a [`Kind::Conflict`] that names both states.
    fn advance(self, next: Self) -> Result<Self> {
        if self.can_become(next) {
            return Ok(next);
        }
        let message = format!("a {} that is {self} cannot become {next}", Self::OF);
        Err(Error::new(Kind::Conflict, message))
    }
}

/// The state of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Accepted, and waiting for its turn or for resources.
    #[default]
    Pending,
    /// Its replicas are being started.
    Starting,
    /// All its replicas serve.
    Running,
    /// Somebody asked to end it, and not all of it has ended.
    Killing,
    /// All trainers finished.
    Succeeded,
    /// It cannot finish; the reason is told beside the state.
    Failed,
    /// It was ended on request.
    Killed,
}

impl JobState {
    /// Every state, in the order of a life.
    pub const ALL: [JobState; 7] = [
        JobState::Pending,
        JobState::Starting,
        JobState::Running,
        JobState::Killing,
        JobState::Succeeded,
        JobState::Failed,
        JobState::Killed,
    ];
}

impl State for JobState {
    const OF: &'static str = "job";

    fn next(self) -> &'static [Self] {
        use JobState::*;
        match self {
            Pending => &[Starting, Running, Killing, Succeeded, Failed, Killed],
            // Back to pending: the cluster took the machines away and will give others.
            Starting => &[Pending, Running, Killing, Succeeded, Failed, Killed],
            // Back to starting: a fault-tolerant job resumes from its last checkpoint.
            Running => &[Pending, Starting, Killing, Succeeded, Failed, Killed],
            // It may have ended by itself before the request arrived.
            Killing => &[Succeeded, Failed, Killed],
            Succeeded | Failed | Killed => &[],
        }
    }
}

/// The state of one incarnation of a replica; its exit code is kept beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaState {
    /// Not placed on a machine yet.
    Pending,
    /// Its process is being started, or has not said that it is ready.
    Starting,
    /// It serves, or runs the user's program.
    Running,
    /// It ended with exit code 0.
    Succeeded,
    /// It ended with another code, or could not be started.
    Failed,
    /// It was ended on request.
    Killed,
    /// Given up: its machine has not answered for too long.
    Lost,
}

impl ReplicaState {
    /// Every state, in the order of a life.
    pub const ALL: [ReplicaState; 7] = [
        ReplicaState::Pending,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Succeeded,
        ReplicaState::Failed,
        ReplicaState::Killed,
        ReplicaState::Lost,
    ];
}

impl State for ReplicaState {
    const OF: &'static str = "replica";

    fn next(self) -> &'static [Self] {
        use ReplicaState::*;
        match self {
            Pending => &[Starting, Running, Succeeded, Failed, Killed, Lost],
            Starting => &[Running, Succeeded, Failed, Killed, Lost],
            Running => &[Succeeded, Failed, Killed, Lost],
            Succeeded | Failed | Killed | Lost => &[],
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        word::parse("job state", text)
    }
}

impl FromStr for ReplicaState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        word::parse("replica state", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per state: the state, then those that may follow.
    fn table<S: State>(all: &[S]) -> String {
        let line = |state: &S| {
            let next: Vec<_> = state.next().iter().map(|next| format!(" {next}")).collect();
            format!("{state}:{}\n", next.concat())
        };
        all.iter().map(line).collect()
    }

    #[test]
    fn a_job_lives_by_this_table() {
        insta::assert_snapshot!(table(&JobState::ALL), @r"
        pending: starting running killing succeeded failed killed
        starting: pending running killing succeeded failed killed
        running: pending starting killing succeeded failed killed
        killing: succeeded failed killed
        succeeded:
        failed:
        killed:
        ");
    }

    #[test]
    fn a_replica_lives_by_this_table() {
        insta::assert_snapshot!(table(&ReplicaState::ALL), @r"
        pending: starting running succeeded failed killed lost
        starting: running succeeded failed killed lost
        running: succeeded failed killed lost
        succeeded:
        failed:
        killed:
        lost:
        ");
    }

    fn check_machine<S: State + FromStr<Err = Error> + fmt::Debug>(all: &[S], finals: usize) {
        assert_eq!(all.iter().filter(|state| state.is_final()).count(), finals);
        for &state in all {
            assert_eq!(state.to_string().parse::<S>().unwrap(), state);
            assert!(!state.can_become(state), "{state} follows itself");
            for &next in all {
                match state.advance(next) {
                    Ok(reached) => assert!(reached == next && state.can_become(next)),
                    Err(error) => assert_eq!(error.kind(), Kind::Conflict),
                }
            }
        }
    }

    #[test]
    fn only_what_the_table_allows_can_happen() {
        check_machine(&JobState::ALL, 3);
        check_machine(&ReplicaState::ALL, 4);
    }

    #[test]
    fn a_refusal_names_both_states() {
        insta::assert_snapshot!(
            JobState::Succeeded.advance(JobState::Running).unwrap_err(),
            @"a job that is succeeded cannot become running"
        );
        insta::assert_snapshot!(
            "done".parse::<ReplicaState>().unwrap_err(),
            @"not a replica state: unknown variant `done`, expected one of `pending`, `starting`, `running`, `succeeded`, `failed`, `killed`, `lost`"
        );
    }
}
