//! Gradients: judged, checked as a whole, then applied or held for the others of the step.

use super::{Job, Parked, Reply, Shard, Waiting, not_joined};
use crate::message::{FLAG_DROPPED, FLAG_DUPLICATE, FLAG_LAST, Payload};
use crate::policy::Freshness;
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;
use table::optimizer::Now;

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    pub(super) fn push(
        &mut self,
        now: Instant,
        token: T,
        payload: Rc<Payload<B>>,
    ) -> Result<Option<Reply>> {
        let head = payload.head;
        let version = self.job.as_ref().map_or(0, |job| job.version);
        self.metrics.push(payload.bytes(), version.saturating_sub(head.base));
        if self.must_wait(&payload)? {
            self.park(now, token, head.rank, Waiting::Push(payload))?;
            return Ok(None);
        }
        let flags = self.take_push(now, &payload)?;
        self.advance(now)?;
        Ok(Some(self.acknowledgement(flags)))
    }

    fn must_wait(&self, payload: &Payload<B>) -> Result<bool> {
        let head = payload.head;
        // Frames of a rank are taken in the order in which they were sent.
        let is_behind = self.parked.iter().any(|parked| match &parked.waiting {
            Waiting::Push(other) => {
                other.head.rank == head.rank && other.head.sequence < head.sequence
            }
            _ => false,
        });
        if is_behind {
            return Ok(true);
        }
        if self.members.judge(head.rank, head.sequence)? == Freshness::Duplicate {
            return Ok(false);
        }
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        // The trainer may have its values from other shards, which trainer 0 reached before; or it is
        // a step ahead of the others, and its next step waits for theirs.
        let is_ahead = job.has_sync && self.members.steps(head.rank)? > job.version;
        Ok(!job.epoch.has_begun || is_ahead)
    }

    /// Applies or holds a push that need not wait; the flags of its reply.
    fn take_push(&mut self, now: Instant, payload: &Rc<Payload<B>>) -> Result<u32> {
        let head = payload.head;
        if self.members.judge(head.rank, head.sequence)? == Freshness::Duplicate {
            self.metrics.duplicate();
            return Ok(FLAG_DUPLICATE);
        }
        let steps = self.members.steps(head.rank)?;
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        if job.has_sync && head.version != steps {
            return Err(Error::new(
                Kind::Conflict,
                "push is of another step than the trainer's next",
            )
            .with("rank", head.rank)
            .with("step", head.version)
            .with("expected", steps));
        }
        let mut dense = Vec::new();
        for entry in &payload.entries {
            let table = job.table(entry.parameter)?;
            table.check(payload, entry, true)?;
            if !table.is_sparse() {
                dense.push(entry.parameter);
            }
        }
        dense.sort_unstable();
        if let Some(pair) = dense.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("a dense parameter comes twice in a push")
                .with("parameter", &job.table(pair[0])?.name)
                .with("rank", head.rank));
        }
        self.moved = now;
        let awaited = self.members.waited_for();
        let is_dropped = job.is_too_old(head.base, self.members.active());
        let is_last = head.flags & FLAG_LAST != 0;
        job.step_samples.insert(head.rank, head.samples);
        job.take_gradients(payload, &awaited, is_dropped)?;
        self.members.accept(head.rank, head.sequence, is_last)?;
        match (job.has_sync, is_last) {
            (true, _) => {}
            (false, true) => job.finish_step()?,
            // Another rank's frame may come next, and is an update of its own.
            (false, false) => job.step_samples.clear(),
        }
        if is_dropped {
            self.metrics.dropped();
            return Ok(FLAG_DROPPED);
        }
        Ok(0)
    }

    /// Does everything that has become possible: steps, passes, parked requests.
    pub(super) fn advance(&mut self, now: Instant) -> Result<()> {
        loop {
            let Some(job) = &mut self.job else { return Ok(()) };
            let mut has_moved = false;
            let has_begun = job.epoch.has_begun;
            if has_begun && job.has_sync && self.members.completes(job.version) {
                job.finish_step()?;
                has_moved = true;
            }
            if has_begun && self.members.is_pass_over() && self.members.has_staying() {
                job.pass += 1;
                self.moved = now;
                job.update_rate();
                self.members.start_pass(job.version);
                has_moved = true;
            }
            self.take_due_cut();
            has_moved |= self.answer_parked(now)?;
            if !has_moved {
                return Ok(());
            }
        }
    }

    // Answers what no longer has to wait; true after a parked push, which may have moved the rest.
    fn answer_parked(&mut self, now: Instant) -> Result<bool> {
        let mut place = 0;
        while place < self.parked.len() {
            if !self.is_due(&self.parked[place].waiting)? {
                place += 1;
                continue;
            }
            let Parked { token, since, waiting, .. } = self.parked.remove(place);
            self.metrics.waited(now.saturating_duration_since(since));
            let has_pushed = matches!(waiting, Waiting::Push(_));
            let outcome = match waiting {
                Waiting::Pull(payload) => self.answer_pull(&payload),
                Waiting::Push(payload) => {
                    self.take_push(now, &payload).map(|flags| self.acknowledgement(flags))
                }
                Waiting::FinishPass { rank, .. } => self.own_step(rank),
                Waiting::Synchronize { .. } => Ok(self.acknowledgement(0)),
                Waiting::Members { .. } => Ok(self.roll()),
            };
            self.outbox.push((token, outcome.unwrap_or_else(Reply::Error)));
            if has_pushed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_due(&self, waiting: &Waiting<B>) -> Result<bool> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        Ok(match waiting {
            Waiting::Push(payload) => {
                let steps = self.members.steps(payload.head.rank)?;
                job.epoch.has_begun && (!job.has_sync || steps <= job.version)
            }
            Waiting::Pull(payload) => self.may_pull(payload)?,
            Waiting::FinishPass { pass, .. } => job.pass > *pass,
            Waiting::Synchronize { number } => self.members.is_synchronized(*number),
            Waiting::Members { changes } => self.members.changes() > *changes,
        })
    }
}

impl<B: Deref<Target = [u8]>> Job<B> {
    fn take_gradients(
        &mut self,
        payload: &Rc<Payload<B>>,
        awaited: &[bool],
        is_dropped: bool,
    ) -> Result<()> {
        let now = self.update_moment();
        self.is_mid_step = true;
        for (place, entry) in payload.entries.iter().enumerate() {
            let table = self.table_mut(entry.parameter)?;
            if table.mode == Mode::Sync {
                table.hold(&now, payload, place, awaited);
            } else if !is_dropped {
                table.apply(&now, payload, entry)?;
            }
        }
        Ok(())
    }

    /// All gradients of the step are in: the version turns.
    pub(super) fn finish_step(&mut self) -> Result<()> {
        let now = self.update_moment();
        for table in self.tables.iter_mut().flatten() {
            table.finish_step(&now)?;
        }
        self.is_mid_step = false;
        self.version += 1;
        self.samples = self.samples_with_step();
        self.step_samples.clear();
        self.update_rate();
        Ok(())
    }

    /// The moment of the update under way, whose own samples count for the learning rate.
    pub(super) fn update_moment(&self) -> Now {
        let rate = self.join.model.optimizer.rate(self.samples_with_step(), self.pass);
        Now { step: self.version, rate }
    }

    /// Samples so far, those of the step under way included. What a peer claims has no bound.
    fn samples_with_step(&self) -> u64 {
        self.step_samples.values().fold(self.samples, |sum, own| sum.saturating_add(*own))
    }

    pub(super) fn update_rate(&mut self) {
        self.now.step = self.version;
        self.now.rate = self.join.model.optimizer.rate(self.samples, self.pass);
    }

    // Async only: the gradient was computed from values that many updates have changed since.
    fn is_too_old(&self, base: u64, trainers: usize) -> bool {
        let Some(ratio) = self.join.lag_ratio_max else { return false };
        let lag = self.version.saturating_sub(base);
        !self.has_sync && trainers > 1 && lag as f32 > ratio * trainers as f32
    }
}
