//! Values out: when they may be read, and the reply.

use super::table::{ReadStyle, Table};
use super::{Job, Reply, Shard, Waiting, not_joined};
use crate::message::{EntryHead, FLAG_AVERAGED, FLAG_READ_ONLY, Head, Message, Payload};
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use std::ops::Deref;
use std::time::Instant;

/// The most values of a reply: it must fit a frame.
const REPLY_VALUES_MAX: usize = (256 << 20) / size_of::<f32>();
/// The most rows of one page of a scan.
const SCAN_ROWS_MAX: u64 = 65_536;

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    pub(super) fn pull(
        &mut self,
        now: Instant,
        token: T,
        payload: Payload<B>,
    ) -> Result<Option<Reply>> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        let mut values = 0;
        for entry in &payload.entries {
            let table = job.table(entry.parameter)?;
            values += table.check(&payload, entry, false)?;
            if values > REPLY_VALUES_MAX {
                return Err(Error::new(
                    Kind::LimitExceeded,
                    "a pull asks for more than a reply holds; ask for less at a time",
                )
                .with("parameter", &table.name)
                .with("rank", payload.head.rank)
                .with("values_max", REPLY_VALUES_MAX));
            }
        }
        if self.may_pull(&payload)? {
            return self.answer_pull(&payload).map(Some);
        }
        self.park(now, token, payload.head.rank, Waiting::Pull(payload))?;
        Ok(None)
    }

    /// Whether every entry of a pull may be read now.
    pub(super) fn may_pull(&self, payload: &Payload<B>) -> Result<bool> {
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        if !job.epoch.has_begun {
            return Ok(false);
        }
        let least = payload.head.version;
        for entry in &payload.entries {
            let table = job.table(entry.parameter)?;
            let is_ready = match table.mode {
                // A block may be a step ahead of its shard: its gradients are all in.
                Mode::Sync => job.version >= least || table.has_version(payload.keys(entry), least),
                Mode::Stale(steps) => self.members.is_fresh_enough(least, steps),
                Mode::Async | Mode::Hybrid => true,
            };
            if !is_ready {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn answer_pull(&mut self, payload: &Payload<B>) -> Result<Reply> {
        let head = self.reply_head(0);
        let job = self.job.as_mut().ok_or_else(not_joined)?;
        let now = job.now;
        let style = style_of(&payload.head);
        let mut message = Message::of(head);
        message.values = self.spare.pop().unwrap_or_default();
        message.values.clear();
        for entry in &payload.entries {
            let start = message.values.len();
            let table = job.table_mut(entry.parameter)?;
            table.read(&now, payload.keys(entry), style, &mut message.values)?;
            message.entries.push(EntryHead {
                parameter: entry.parameter,
                data_type: payload.value_type as u16,
                values: (message.values.len() - start) as u32,
                ..EntryHead::default()
            });
        }
        self.metrics.pull(message.values.len() * payload.value_type.bytes());
        Ok(Reply::Message(message))
    }

    /// A page of rows: keys and values, and where to continue (0 at the end).
    pub(super) fn scan(&mut self, payload: &Payload<B>) -> Result<Reply> {
        let [entry] = &payload.entries[..] else {
            return Err(Error::invalid("a scan names one parameter"));
        };
        let head = self.reply_head(0);
        let job = self.job.as_ref().ok_or_else(not_joined)?;
        let table = job.table(entry.parameter)?;
        if !table.is_sparse() {
            return Err(Error::invalid("only sparse parameters have rows to scan")
                .with("parameter", &table.name));
        }
        let from = payload.head.version.min(table.rows());
        let end = table.rows().min(from + payload.head.samples.clamp(1, SCAN_ROWS_MAX));
        let mut message = Message::of(head);
        let is_averaged = style_of(&payload.head).is_averaged;
        table.scan(&job.now, from as usize..end as usize, is_averaged, &mut message);
        message.head.version = if end < table.rows() { end } else { 0 };
        message.entries.push(EntryHead {
            parameter: entry.parameter,
            keys: message.keys.len() as u32,
            values: message.values.len() as u32,
            ..EntryHead::default()
        });
        Ok(Reply::Message(message))
    }
}

impl<B: Deref<Target = [u8]>> Job<B> {
    pub(super) fn table(&self, parameter: u32) -> Result<&Table<B>> {
        let table = self.tables.get(parameter as usize).and_then(Option::as_ref);
        table.ok_or_else(|| self.no_such_parameter(parameter))
    }

    pub(super) fn table_mut(&mut self, parameter: u32) -> Result<&mut Table<B>> {
        if self.tables.get(parameter as usize).is_none_or(Option::is_none) {
            return Err(self.no_such_parameter(parameter));
        }
        self.tables[parameter as usize].as_mut().ok_or_else(not_joined)
    }

    fn no_such_parameter(&self, parameter: u32) -> Error {
        let message = match self.model().parameters.get(parameter as usize) {
            Some(_) => "this port does not hold this kind of parameter",
            None => "the model has no such parameter",
        };
        Error::new(Kind::Invalid, message).with("parameter", parameter)
    }
}

fn style_of(head: &Head) -> ReadStyle {
    ReadStyle {
        is_read_only: head.flags & FLAG_READ_ONLY != 0,
        is_averaged: head.flags & FLAG_AVERAGED != 0,
        rank: head.rank,
    }
}
