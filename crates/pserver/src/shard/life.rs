//! A job's life on a shard: trainers join, values begin, passes end, trainers leave.

use super::table::Table;
use super::{Job, Phase, Reply, Restore, Shard, Waiting, not_joined};
use crate::message::{Head, Join, Joined, Message, Payload, encode_json};
use crate::policy::Progress;
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Instant;
use table::optimizer::Now;

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    pub(super) fn join(
        &mut self,
        now: Instant,
        join: Join,
        incarnation: u64,
        restore: &mut dyn Restore,
    ) -> Result<Reply> {
        self.check_join(&join)?;
        let (rank, steps, acknowledged) = (join.rank, join.steps, join.acknowledged);
        let is_resting = join.is_resting;
        if self.job.is_none() {
            join.model.check()?;
            self.job = Some(self.start_job(join, restore)?);
        }
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        let progress = Progress { steps, acknowledged, version: job.version, is_resting };
        if self.members.join(now, rank, incarnation, progress)? {
            for table in job.tables.iter_mut().flatten() {
                table.drop_arrivals(rank);
            }
            job.step_samples.remove(&rank);
        }
        if job.phase == Phase::NeedsTrainers && self.members.is_complete() {
            // The slowest trainer's step is the one to do next; what the others have delivered for
            // it was lost with the server that died, as promise 4 allows.
            job.version = job.version.max(self.members.steps_min());
            job.phase = Phase::Ready;
            job.update_rate();
        }
        let joined = Joined {
            needs_values: job.phase == Phase::NeedsValues,
            version: job.version,
            pass: job.pass,
            sequence: self.members.records()[rank as usize].sequence,
            restored_cut: job.restored_cut,
            synchronized: self.members.synchronized(),
        };
        self.advance(now)?;
        encode_json(&joined).map(Reply::Json)
    }

    /// All first values that were not brought are made here; training may begin.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Reply> {
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        if job.phase == Phase::NeedsValues {
            job.phase = Phase::Ready;
        }
        self.advance(now)?;
        Ok(self.acknowledgement(0))
    }

    pub(super) fn set(&mut self, payload: &Payload<B>) -> Result<Reply> {
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        for entry in &payload.entries {
            job.table(entry.parameter)?.check(payload, entry, true)?;
        }
        for entry in &payload.entries {
            let now = job.now;
            job.table_mut(entry.parameter)?.set(&now, payload, entry)?;
        }
        Ok(self.acknowledgement(0))
    }

    pub(super) fn finish_pass(
        &mut self,
        now: Instant,
        token: T,
        head: &Head,
    ) -> Result<Option<Reply>> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        if head.version < job.pass {
            // Asked again after a broken connection: that pass is over.
            return self.own_step(head.rank).map(Some);
        }
        self.members.finish_pass(head.rank)?;
        self.update_without_more();
        self.park(now, token, Waiting::FinishPass { pass: head.version, rank: head.rank });
        self.advance(now)?;
        Ok(None)
    }

    /// The reply to a trainer whose pass is over, or that wakes: it goes on from its own step.
    pub(super) fn own_step(&self, rank: u32) -> Result<Reply> {
        let version = self.members.steps(rank)?;
        Ok(Reply::Message(Message::of(Head { version, ..self.reply_head(0) })))
    }

    pub(super) fn rest(&mut self, now: Instant, head: &Head) -> Result<Reply> {
        self.members.rest(head.rank)?;
        self.update_without_more();
        self.advance(now)?;
        Ok(self.acknowledgement(0))
    }

    pub(super) fn wake(&mut self, head: &Head) -> Result<Reply> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        self.members.wake(head.rank, job.version)?;
        self.own_step(head.rank)
    }

    /// Fewer are waited for: what the others have delivered may be all.
    fn update_without_more(&mut self) {
        let Some(job) = &mut self.job else { return };
        let (step, awaited) = (job.update_moment(), self.members.waited_for());
        for table in job.tables.iter_mut().flatten() {
            table.update_complete(&step, &awaited);
        }
    }

    pub(super) fn synchronize(
        &mut self,
        now: Instant,
        token: T,
        head: &Head,
    ) -> Result<Option<Reply>> {
        self.members.synchronize(head.rank, head.version)?;
        self.park(now, token, Waiting::Synchronize { number: head.version });
        self.advance(now)?;
        Ok(None)
    }

    pub(super) fn goodbye(&mut self, now: Instant, head: &Head) -> Result<Reply> {
        self.members.leave(head.rank)?;
        self.update_without_more();
        self.advance(now)?;
        Ok(self.acknowledgement(0))
    }

    fn check_join(&self, join: &Join) -> Result<()> {
        let refuse =
            |message: &str| Err(Error::new(Kind::Conflict, message).with("rank", join.rank));
        if join.trainers != self.config.trainers {
            let message = format!(
                "the trainer says there are {} trainers, this server was started with \
                 --num_gradient_servers={}",
                join.trainers, self.config.trainers
            );
            return refuse(&message);
        }
        if let Some((server, servers)) = self.config.preset
            && (server, servers) != (join.server, join.servers)
        {
            let message = format!(
                "the trainer takes this for server {} of {}, it was started as {server} of \
                 {servers}; list the servers in the same order everywhere",
                join.server, join.servers
            );
            return refuse(&message);
        }
        let Some(job) = &self.job else { return Ok(()) };
        let known = &job.join;
        let place = |join: &Join| {
            format!(
                "port {} (of {} dense and {} sparse) of server {} of {}",
                join.port, join.dense_ports, join.sparse_ports, join.server, join.servers
            )
        };
        if place(known) != place(join) {
            let message = format!(
                "the trainer takes this for {}, trainer {} for {}; list the same servers and ports \
                 in the same order everywhere",
                place(join),
                known.rank,
                place(known)
            );
            return refuse(&message);
        }
        if let Some(difference) = known.model.difference(&join.model) {
            return refuse(&format!(
                "the trainer's model differs from that of trainer {}: {difference}",
                known.rank
            ));
        }
        Ok(())
    }

    fn start_job(&mut self, join: Join, restore: &mut dyn Restore) -> Result<Job<B>> {
        let place = join.place()?;
        let mut tables = Vec::new();
        for parameter in &join.model.parameters {
            tables.push(match join.holds(parameter.shape) {
                true => {
                    let bytes_max = self.config.table_bytes_max;
                    let mut table = Table::new(&join.model, parameter, &place, bytes_max)?;
                    table.initialize();
                    Some(table)
                }
                false => None,
            });
        }
        let restored = restore.restore(&join, &mut |parameter, part| match tables
            .get_mut(parameter)
            .and_then(Option::as_mut)
        {
            Some(table) => table.restore(part),
            None => Ok(()),
        })?;
        let has_sync = tables.iter().flatten().any(|table| table.mode == Mode::Sync);
        let mut job = Job {
            tables,
            phase: Phase::NeedsValues,
            version: 0,
            pass: 0,
            samples: 0,
            step_samples: BTreeMap::new(),
            now: Now { step: 0, rate: 0.0 },
            has_sync,
            restored_cut: None,
            join,
        };
        if let Some(facts) = restored {
            job.phase = Phase::NeedsTrainers;
            (job.version, job.pass, job.samples) = (facts.version, facts.pass, facts.samples);
            job.restored_cut = Some(facts.cut);
            self.members.restore(&facts.trainers);
            self.cut.resume_after(facts.cut);
        }
        job.update_rate();
        Ok(job)
    }
}
