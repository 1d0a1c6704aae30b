//! How the passes before the previous one ended, so that parameters may go back to any checkpoint
//! that is kept: which checkpoint was the first to contain each task.
//!
//! **The problem.** Checkpoints are minutes apart and a pass may take seconds, so the oldest one that
//! is kept can be hundreds of passes ago. All outcomes of all of them would fill the memory.
//!
//! **The way.** Completions claim checkpoints in rising order, so most passes lie between two
//! checkpoints and all their tasks have the same outcome: such a pass is one run, and equal passes in
//! a row are one span. What is beyond a limit all the same is forgotten, the oldest first, and
//! [`Past::forgotten`] remembers up to which checkpoint: to go back further is refused, never done
//! wrong.

use super::facts::Outcome;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Passes that are over, but for the last one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Past {
    /// The oldest first.
    spans: VecDeque<Span>,
    /// The newest checkpoint that a forgotten completion may need; restoring an older one would
    /// skip data.
    forgotten: u64,
}

/// Passes in a row that ended alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    passes: u64,
    /// How many tasks in a row ended how.
    runs: Vec<(u64, Ended)>,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// In this checkpoint for the first time, as far as is known.
    Done(Option<u64>),
    SetAside,
}

/// Runs that are kept at least: about 32 MB.
const RUNS_MAX: usize = 1 << 20;
/// For many tasks more runs are kept, for so many passes.
const PASSES_MIN: usize = 8;

impl Ended {
    pub(super) fn is_undone(self, cut: u64) -> bool {
        match self {
            // What claims no checkpoint is in none for all we know.
            Ended::Done(contained) => contained.is_none_or(|contained| contained > cut),
            Ended::SetAside => false,
        }
    }

    fn newest_cut(self) -> u64 {
        match self {
            Ended::Done(contained) => contained.unwrap_or(u64::MAX),
            Ended::SetAside => 0,
        }
    }
}

impl From<&Outcome> for Ended {
    fn from(outcome: &Outcome) -> Ended {
        match outcome {
            Outcome::Done { cut, .. } => Ended::Done(*cut),
            Outcome::SetAside { .. } => Ended::SetAside,
        }
    }
}

impl Past {
    /// How many passes it knows.
    pub(super) fn passes(&self) -> u64 {
        self.spans.iter().map(|span| span.passes).sum()
    }

    /// How many completions it knows.
    pub(super) fn completions(&self) -> u64 {
        let done = |(tasks, ended): &(u64, Ended)| match ended {
            Ended::Done(_) => *tasks,
            Ended::SetAside => 0,
        };
        let of = |span: &Span| span.passes * span.runs.iter().map(done).sum::<u64>();
        self.spans.iter().map(of).sum()
    }

    /// Adds a pass that is newer than all others.
    pub(super) fn push(&mut self, outcomes: Vec<Ended>) {
        let mut runs: Vec<(u64, Ended)> = Vec::new();
        let tasks = outcomes.len();
        for ended in outcomes {
            match runs.last_mut() {
                Some((tasks, last)) if *last == ended => *tasks += 1,
                _ => runs.push((1, ended)),
            }
        }
        match self.spans.back_mut() {
            Some(span) if span.runs == runs => span.passes += 1,
            _ => self.spans.push_back(Span { passes: 1, runs }),
        }
        let runs_max = RUNS_MAX.max(PASSES_MIN.saturating_mul(tasks));
        let mut runs: usize = self.spans.iter().map(|span| span.runs.len()).sum();
        while runs > runs_max
            && let Some(span) = self.spans.pop_front()
        {
            runs -= span.runs.len();
            self.forget(span.runs.iter().map(|(_, ended)| *ended));
        }
    }

    /// Takes the newest pass out again: how its tasks ended, in their order.
    pub(super) fn pop(&mut self) -> Option<Vec<Ended>> {
        let span = self.spans.back_mut()?;
        span.passes -= 1;
        let repeated = |(tasks, ended): &(u64, Ended)| {
            std::iter::repeat_n(*ended, usize::try_from(*tasks).unwrap_or(0))
        };
        let tasks = span.runs.iter().flat_map(repeated).collect();
        if span.passes == 0 {
            self.spans.pop_back();
        }
        Some(tasks)
    }

    /// How many of the newest passes there are from the first on that has a completion which is in
    /// no checkpoint up to `cut`.
    pub(super) fn undone_passes(&self, cut: u64) -> u64 {
        let has_undone = |span: &Span| span.runs.iter().any(|(_, ended)| ended.is_undone(cut));
        let first = self.spans.iter().position(has_undone).unwrap_or(self.spans.len());
        self.spans.iter().skip(first).map(|span| span.passes).sum()
    }

    /// Refuses to go back to a checkpoint when it is not known what came after it.
    pub(super) fn check_restore(&self, cut: u64) -> Result<()> {
        if cut >= self.forgotten {
            return Ok(());
        }
        Err(Error::new(
            Kind::Conflict,
            "the master has forgotten which data was learnt after this checkpoint; restore a newer \
             one, or begin the job anew with an empty --state_dir",
        )
        .with("checkpoint", cut)
        .with("oldest_known", self.forgotten))
    }

    /// Drops so many of the newest passes: they are to be done again.
    pub(super) fn drop_newest(&mut self, mut passes: u64) {
        while passes > 0
            && let Some(span) = self.spans.back_mut()
        {
            let dropped = passes.min(span.passes);
            span.passes -= dropped;
            passes -= dropped;
            if span.passes == 0 {
                self.spans.pop_back();
            }
        }
    }

    /// Notes that there were passes of which nothing is known: journals of earlier releases have
    /// only one pass before the current one, which ended like this, and the newest `cut` claimed.
    pub(super) fn admit_gap(&mut self, known: impl Iterator<Item = Ended>, cut: u64) {
        // Checkpoints rise: what is older claims no newer one than anything known.
        let oldest = known.filter_map(|ended| match ended {
            Ended::Done(cut) => Some(cut.unwrap_or(u64::MAX)),
            Ended::SetAside => None,
        });
        self.forgotten = self.forgotten.max(oldest.min().unwrap_or(cut));
    }

    /// Whether anything was ever forgotten.
    pub(super) fn has_gap(&self) -> bool {
        self.forgotten > 0
    }

    /// Refuses what no past looks like; for those read from a disk.
    pub(super) fn is_sound(&self, tasks: u64) -> bool {
        let mut passes = Some(0_u64);
        let is_sound = |span: &Span| {
            let counted =
                span.runs.iter().try_fold(0_u64, |sum, (tasks, _)| sum.checked_add(*tasks));
            span.passes > 0 && counted == Some(tasks)
        };
        for span in &self.spans {
            passes = passes.and_then(|passes| passes.checked_add(span.passes));
        }
        // Completions are counted: their number must fit, too.
        passes.and_then(|passes| passes.checked_mul(tasks)).is_some()
            && self.spans.iter().all(is_sound)
    }

    fn forget(&mut self, outcomes: impl Iterator<Item = Ended>) {
        let newest = outcomes.map(Ended::newest_cut).max().unwrap_or(0);
        self.forgotten = self.forgotten.max(newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(cuts: &[u64]) -> Vec<Ended> {
        cuts.iter().map(|cut| Ended::Done(Some(*cut))).collect()
    }

    #[test]
    fn passes_between_two_checkpoints_take_no_room() {
        let mut past = Past::default();
        past.push(done(&[1, 1, 2]));
        for _ in 0..1_000_000 {
            past.push(done(&[2, 2, 2]));
        }
        past.push(done(&[2, 3, 3]));
        assert_eq!((past.passes(), past.spans.len()), (1_000_002, 3));
        assert_eq!(past.completions(), 3_000_006);
        assert_eq!(past.undone_passes(3), 0);
        assert_eq!(past.undone_passes(2), 1);
        assert_eq!(past.undone_passes(1), 1_000_002);
        assert_eq!(past.pop(), Some(done(&[2, 3, 3])));
        assert_eq!(past.pop(), Some(done(&[2, 2, 2])));
        past.drop_newest(999_999);
        assert_eq!(past.pop(), Some(done(&[1, 1, 2])));
        assert_eq!(past.pop(), None);
    }

    #[test]
    fn what_is_forgotten_cannot_be_gone_back_to() {
        let mut past = Past::default();
        let mixed = |first: u64| (0..200_000).map(move |task| Ended::Done(Some(first + task % 2)));
        for pass in 0..20 {
            past.push(mixed(10 * pass).collect());
        }
        assert_eq!(past.passes(), 8, "eight passes are always kept");
        assert_eq!(past.check_restore(110).unwrap_err().kind(), Kind::Conflict);
        past.check_restore(111).unwrap();
        assert_eq!(past.undone_passes(111), 8);
    }
}
