//! A job's life on a shard: trainers join, values begin, passes end, trainers leave.

use super::table::Table;
use super::{Job, Parked, Reply, Restore, Shard, Waiting, not_joined};
use crate::message::{Epoch, FLAG_LAST, Head, Join, Joined, Message, Payload, encode_json};
use crate::policy::{Arrival, Dropped, Speaker};
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
        who: Speaker,
        restore: &mut dyn Restore,
    ) -> Result<Reply> {
        self.check_trainers(&join)?;
        self.forget_other_epoch(&join)?;
        self.check_join(&join)?;
        let attempt = join.attempt;
        if self.members.is_over() && !self.members.has_left(who.rank)? {
            let message = "the job is over: all of its trainers have left";
            return Err(Error::new(Kind::Conflict, message).with("rank", who.rank));
        }
        if self.job.is_none() {
            join.model.check()?;
            self.job = Some(self.start_job(join, restore)?);
            (self.joined, self.moved) = (now, now);
        }
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        // Where steps are not taken together, versions count the pushes of all: one that comes late
        // is as far behind as it is, on every shard, or shards would wait for different trainers.
        let is_counted = job.has_sync || self.members.is_elastic();
        let version = if is_counted { job.version } else { 0 };
        let arrival = self.members.join(now, who, version)?;
        if let Arrival::Successor(dropped) = arrival {
            self.succeed(who.rank, dropped)?;
        }
        self.members.note_attempt(who.rank, attempt)?;
        let joined = self.describe(who.rank)?;
        self.advance(now)?;
        encode_json(&joined).map(Reply::Json)
    }

    fn describe(&self, rank: u32) -> Result<Joined> {
        let (job, members) = (self.job.as_ref().ok_or_else(not_joined)?, &self.members);
        let announced = self.cut.announced();
        Ok(Joined {
            needs_values: !job.epoch.has_begun && job.epoch.cut == 0,
            version: job.version,
            pass: job.pass,
            sequence: members.sequence(rank)?,
            epoch: job.epoch,
            is_in_step: job.has_sync,
            steps: members.steps(rank)?,
            batches: members.batches(rank)?,
            is_resting: members.is_resting(rank)?,
            has_left: members.has_left(rank)?,
            can_cut: self.config.can_cut,
            announced: (announced.0 > 0).then_some(announced),
            cut: self.cut.number(),
            synchronized: members.synchronized(),
            is_elastic: members.is_elastic(),
        })
    }

    /// Another process speaks for a rank now. Steps that its predecessor has completed stay.
    fn succeed(&mut self, rank: u32, dropped: Dropped) -> Result<()> {
        self.drop_unfinished(rank, dropped, "another process of the same rank has joined")?;
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        let is_torn = dropped.frames > 0
            && job.has_sync
            && job.tables.iter().flatten().any(|table| table.is_ahead(job.version));
        if is_torn && !self.members.is_elastic() {
            return Err(self.abandon_step(rank));
        }
        self.update_without_more();
        Ok(())
    }

    /// Drops what a process has asked for and what it has delivered of a step that it did not
    /// complete.
    pub(super) fn drop_unfinished(
        &mut self,
        rank: u32,
        dropped: Dropped,
        reason: &str,
    ) -> Result<()> {
        let is_of_rank = |parked: &mut Parked<T, B>| parked.rank == rank;
        for parked in self.parked.extract_if(.., is_of_rank) {
            let error = Error::new(Kind::Conflict, reason.to_owned()).with("rank", rank);
            self.outbox.push((parked.token, Reply::Error(error)));
        }
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        if dropped.frames > 0 && job.has_sync {
            for table in job.tables.iter_mut().flatten() {
                table.drop_arrivals(rank, dropped.step);
            }
            job.step_samples.remove(&rank);
        }
        Ok(())
    }

    /// Ends the job: a step is applied in part, and nobody has the rest of it.
    fn abandon_step(&mut self, rank: u32) -> Error {
        let message = format!(
            "trainer {rank} died within a step that is partly applied, so that it can be neither \
             completed nor undone: all servers and trainers have to start again from the newest \
             checkpoint"
        );
        self.fail(Kind::Unavailable, message.clone());
        Error::new(Kind::Unavailable, message)
    }

    /// A trainer has found that some shards have applied a step and others have not.
    pub(super) fn abandon(&mut self, head: &Head) -> Result<Reply> {
        Err(self.abandon_step(head.rank))
    }

    /// All first values that were not brought are made here; training may begin.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Reply> {
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        job.epoch.has_begun = true;
        self.moved = now;
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
        if head.version > job.pass {
            return Err(Error::new(Kind::Conflict, "a trainer finishes a pass that has not begun")
                .with("rank", head.rank)
                .with("pass", head.version)
                .with("begun", job.pass));
        }
        self.members.finish_pass(head.rank)?;
        self.update_without_more();
        let waiting = Waiting::FinishPass { pass: head.version, rank: head.rank };
        self.park(now, token, head.rank, waiting)?;
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

    pub(super) fn wake(&mut self, now: Instant, head: &Head) -> Result<Reply> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        if job.has_sync && head.version.saturating_sub(job.version) > WAKE_AHEAD_MAX {
            return Err(Error::invalid("a trainer wants to take part from too late a step on")
                .with("step", head.version)
                .with("version", job.version));
        }
        let wanted = if job.has_sync { head.version } else { 0 };
        // As in `join`: elsewhere versions count the pushes of all, of which each shard has others.
        let step = match job.has_sync || self.members.is_elastic() {
            true => wanted.max(job.version),
            false => self.members.pace(),
        };
        self.members.wake(head.rank, step)?;
        // Steps that nobody takes part in pass at once.
        self.advance(now)?;
        self.own_step(head.rank)
    }

    /// Fewer are waited for: what the others have delivered may be all.
    pub(super) fn update_without_more(&mut self) {
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
        self.park(now, token, head.rank, Waiting::Synchronize { number: head.version })?;
        self.advance(now)?;
        Ok(None)
    }

    pub(super) fn goodbye(&mut self, now: Instant, head: &Head) -> Result<Reply> {
        self.members.leave(head.rank, head.flags & FLAG_LAST != 0)?;
        self.update_without_more();
        self.advance(now)?;
        Ok(self.acknowledgement(0))
    }

    fn check_trainers(&self, join: &Join) -> Result<()> {
        let refuse =
            |message: &str| Err(Error::new(Kind::Conflict, message).with("rank", join.rank));
        if join.dense_ports == 0 {
            return Err(Error::invalid("dense_ports must be at least 1").with("rank", join.rank));
        }
        if let Some(ratio) = join.lag_ratio_max.filter(|ratio| !ratio.is_finite() || *ratio < 0.0) {
            let error = Error::invalid("lag_ratio_max must be a finite number, 0 or more");
            return Err(error.with("value", ratio).with("rank", join.rank));
        }
        if join.trainers != self.config.trainers {
            let message = format!(
                "the trainer says there are {} trainers, this server was started with \
                 --num_gradient_servers={}",
                join.trainers, self.config.trainers
            );
            return refuse(&message);
        }
        // Before its model becomes the job's: honest trainers would be refused for having another.
        if join.rank >= join.trainers {
            return Err(Error::invalid("rank is not below the number of trainers")
                .with("rank", join.rank)
                .with("trainers", join.trainers));
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
        Ok(())
    }

    /// Refuses a trainer of another epoch. An epoch that has not begun when another one comes never
    /// will: shard 0 has started again, and this shard has nothing to lose.
    fn forget_other_epoch(&mut self, join: &Join) -> Result<()> {
        let Some(wanted) = join.epoch else {
            return match join.is_to_first() {
                true => Ok(()),
                false => Err(Error::invalid("join shard 0 first: it decides about the epoch")),
            };
        };
        let Some(job) = &self.job else {
            let message = match (join.is_to_first(), wanted.has_begun) {
                (false, false) => return Ok(()),
                (false, true) => LOST,
                (true, _) => RESTARTED,
            };
            return Err(Error::new(Kind::Conflict, message).with("rank", join.rank));
        };
        if wanted.is_same(&job.epoch) {
            // It begins everywhere else before it begins on shard 0.
            let is_lost = wanted.has_begun && !job.epoch.has_begun && !join.is_to_first();
            return match is_lost {
                true => Err(Error::new(Kind::Conflict, LOST).with("rank", join.rank)),
                false => Ok(()),
            };
        }
        if job.epoch.has_begun || wanted.has_begun || join.is_to_first() {
            return Err(Error::new(Kind::Conflict, RESTARTED)
                .with("rank", join.rank)
                .with("epoch", job.epoch.number)
                .with("of_trainer", wanted.number)
                .with("cut", job.epoch.cut)
                .with("of_trainer", wanted.cut));
        }
        self.job = None;
        self.members = self.config.members();
        for parked in self.parked.drain(..) {
            let error = Error::new(Kind::Conflict, RESTARTED);
            self.outbox.push((parked.token, Reply::Error(error)));
        }
        Ok(())
    }

    fn check_join(&self, join: &Join) -> Result<()> {
        let refuse =
            |message: &str| Err(Error::new(Kind::Conflict, message).with("rank", join.rank));
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
        // All dense parameters together have to fit, before memory is used for any; rows come later.
        let mut bytes_left = self.config.table_bytes_max;
        for parameter in &join.model.parameters {
            tables.push(match join.holds(parameter.shape) {
                true => {
                    let table = Table::new(&join.model, parameter, &place, bytes_left)
                        .map_err(|error| error.with("parameter", &parameter.name))?;
                    bytes_left = bytes_left.saturating_sub(table.bytes() as usize);
                    Some(table)
                }
                false => None,
            });
        }
        tables.iter_mut().flatten().for_each(Table::initialize);
        let restored = restore.restore(&join, &mut |parameter, part| match tables
            .get_mut(parameter)
            .and_then(Option::as_mut)
        {
            Some(table) => table.restore(part),
            None => Ok(()),
        })?;
        let cut = restored.as_ref().map_or(0, |facts| facts.cut);
        let own = Epoch { number: epoch_of(self.config.incarnation), cut, has_begun: false };
        let epoch = join.epoch.unwrap_or(own);
        if epoch.cut != cut {
            let message = "this server would begin with another checkpoint than shard 0; start all \
                           servers with the same --restore";
            return Err(Error::new(Kind::Conflict, message)
                .with("cut", cut)
                .with("of_shard_0", epoch.cut));
        }
        let is_in_step = |mode: Mode| mode == Mode::Sync;
        let mut held = tables.iter().flatten();
        // Shard 0 announces checkpoints, so it counts steps wherever there are any to count.
        let counts_for_others = (join.is_to_first() || tables.iter().all(Option::is_none))
            && join.model.parameters.iter().any(|parameter| is_in_step(parameter.mode));
        let has_sync = counts_for_others || held.any(|table| is_in_step(table.mode));
        let mut job = Job {
            tables,
            epoch,
            version: 0,
            pass: 0,
            samples: 0,
            step_samples: BTreeMap::new(),
            now: Now { step: 0, rate: 0.0 },
            has_sync,
            is_mid_step: false,
            join,
        };
        if let Some(facts) = restored {
            (job.version, job.pass, job.samples) = (facts.version, facts.pass, facts.samples);
            self.members.restore(&facts.trainers);
            self.cut.resume_after(facts.cut);
        }
        job.update_rate();
        Ok(job)
    }
}

/// What a shard calls its epoch: the life of its process, shortened.
pub(crate) fn epoch_of(incarnation: u64) -> u32 {
    ((incarnation >> 32) as u32 ^ incarnation as u32).max(1)
}

/// How far ahead of a shard a step may be that a trainer wants to take part from: shards are hardly
/// ever more than one apart.
const WAKE_AHEAD_MAX: u64 = 64;

const LOST: &str = "training has begun and this server knows nothing of it: it was started again \
                    without the others, and its values are lost; start all servers again with \
                    --restore, and then the trainers";
const RESTARTED: &str = "servers of this job were started again, and the trainer is of the time \
                         before; all servers and trainers start again together, from one \
                         checkpoint (--restore)";
