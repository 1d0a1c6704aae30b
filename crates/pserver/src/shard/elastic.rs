//! Elastic jobs on a shard: trainers that vanish are released and the others go on. Shard 0 decides,
//! the other shards hear of it from the trainers. [`crate::policy`] has the rules.

use super::{Reply, Shard, Waiting};
use crate::message::{EntryHead, Head, Message, Payload};
use crate::policy::{RELEASED_MAX, Released};
use contract::{Error, Result};
use std::ops::Deref;
use std::time::{Duration, Instant};

/// How long a trainer whose connection is closed may take to make another: a process that was
/// killed never does.
const RECONNECT: Duration = Duration::from_secs(5);

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    /// A connection is closed.
    pub fn disconnect(&mut self, now: Instant, connection: u64) {
        self.members.disconnect(now, connection);
    }

    /// Shard 0 of an elastic job: goes on without trainers that have vanished.
    pub(super) fn release_vanished(&mut self, now: Instant) {
        let decides = self.job.as_ref().is_some_and(|job| job.join.is_to_first());
        if !self.members.is_elastic() || !decides {
            return;
        }
        let timeout = self.config.trainer_timeout;
        while let Some(who) = self.members.vanished(now, timeout, RECONNECT) {
            let Released { rank, .. } = who;
            tracing::warn!(rank, "trainer has vanished; the job goes on without it");
            // Fails only where no job is.
            let _ = self.release(now, who);
        }
    }

    fn release(&mut self, now: Instant, who: Released) -> Result<()> {
        let Some(dropped) = self.members.release(who) else { return Ok(()) };
        let reason = "the servers go on without this trainer, which was not heard of";
        self.drop_unfinished(who.rank, dropped, reason)?;
        self.update_without_more();
        self.advance(now)
    }

    /// Tells a trainer who was released, or hears it from one.
    pub(super) fn exchange_members(
        &mut self,
        now: Instant,
        token: T,
        payload: &Payload<B>,
    ) -> Result<Option<Reply>> {
        let Head { rank, version: changes, .. } = payload.head;
        let decides = self.job.as_ref().is_some_and(|job| job.join.is_to_first());
        if !self.members.is_elastic() {
            return Err(Error::invalid("the trainers of this job do not change")
                .with("rank", rank)
                .with("trainers", self.members.len()));
        }
        if decides {
            if self.members.changes() > changes {
                return Ok(Some(self.roll()));
            }
            self.park(now, token, rank, Waiting::Members { changes })?;
            return Ok(None);
        }
        for who in released_of(payload)? {
            self.release(now, who)?;
        }
        Ok(Some(self.roll()))
    }

    /// The newest change and who was released so far.
    pub(super) fn roll(&self) -> Reply {
        let head = Head { version: self.members.changes(), ..self.reply_head(0) };
        let mut message = Message::of(head);
        message.keys = pairs_of(self.members.released());
        message.entries.push(EntryHead { keys: message.keys.len() as u32, ..EntryHead::default() });
        Reply::Message(message)
    }

    /// For whom an elastic job has waited too long, in words.
    pub(super) fn lacks_trainers(&mut self, now: Instant) -> Option<String> {
        if self.members.is_deserted(now, 2 * self.config.trainer_timeout) {
            // Shard 0 would have released them: it hangs, or cannot be reached.
            return Some("no trainer has been heard of for too long, and none was released".into());
        }
        let wanted = self.members.wanted().filter(|_| self.job.is_some());
        let Some(wanted) = wanted else {
            self.short = None;
            return None;
        };
        let waited = now.saturating_duration_since(*self.short.get_or_insert(now));
        if waited > self.config.join_timeout {
            return Some(format!("waited for {} s for {wanted}", waited.as_secs()));
        }
        if waited > super::WAIT_SAID_AFTER
            && now.saturating_duration_since(self.said) > super::WAIT_SAID_AFTER
        {
            self.said = now;
            tracing::warn!(seconds = waited.as_secs(), "waiting for {wanted}");
        }
        None
    }
}

/// Processes as they travel: rank and incarnation, one after the other.
pub(crate) fn pairs_of(released: &[Released]) -> Vec<u64> {
    released.iter().flat_map(|who| [u64::from(who.rank), who.incarnation]).collect()
}

/// Reads what [`pairs_of`] wrote.
fn released_of<B: Deref<Target = [u8]>>(payload: &Payload<B>) -> Result<Vec<Released>> {
    let [entry] = &payload.entries[..] else {
        return Err(Error::invalid("a list of trainers is one entry")
            .with("entries", payload.entries.len()));
    };
    let keys = payload.keys(entry);
    if !keys.len().is_multiple_of(2) || keys.len() > 2 * RELEASED_MAX {
        return Err(Error::invalid("a list of trainers is pairs of rank and incarnation")
            .with("numbers", keys.len())
            .with("most", 2 * RELEASED_MAX));
    }
    let pair = |pair: &[u64]| {
        let rank = u32::try_from(pair[0]).map_err(|_| {
            Error::invalid("rank is not below the number of trainers").with("rank", pair[0])
        })?;
        Ok(Released { rank, incarnation: pair[1] })
    };
    keys.chunks_exact(2).map(pair).collect()
}
