//! Everything but steps: beginning, passes, checkpoints, looking around, leaving.

use super::link::Link;
use super::plan::Request;
use super::{Client, Page};
use crate::message::{EntryHead, FLAG_AVERAGED, Head, Payload, Statistics, Verb, decode_json};
use contract::{Error, Result};
use futures_util::future::try_join_all;
use std::sync::atomic::Ordering;
use table::model::ModelIndex;
use wire::Body;

/// A page of a scan has at most so many rows, and about so many bytes.
const SCAN_ROWS_MAX: u64 = 65_536;
const SCAN_BYTES_MAX: u64 = 4 << 20;

impl Client {
    /// Trainer 0: the values that were to be set are set, the servers make the rest. The others'
    /// pulls wait for it. May be called when there is nothing to begin.
    ///
    /// Shard 0 hears of it last, so that what has begun there has begun everywhere. If values were
    /// set, which no server could make again, a checkpoint of them is ordered.
    pub async fn begin(&self) -> Result<()> {
        let joined = self.joined();
        if self.has_set.load(Ordering::Relaxed) && joined.iter().all(|joined| joined.can_cut) {
            let (cut, version) = (self.position().cut + 1, self.start().version);
            self.shared.hear_cut(cut, version);
        }
        let begin = || Request::of(Verb::Begin, Head::default());
        let others = self.links.iter().skip(1);
        try_join_all(others.map(|link| ask_one(link, begin()))).await?;
        self.ask_first(begin()).await?;
        self.has_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Says that this trainer has no more data in this pass, and waits until none has.
    pub async fn finish_pass(&self) -> Result<()> {
        let pass = self.pass.load(Ordering::Relaxed);
        let take = |link: &Link, head: &Head| link.progress().go_on(head.version);
        self.ask_all(Verb::FinishPass, Head { version: pass, ..Head::default() }, &take).await?;
        self.pass.store(pass + 1, Ordering::Relaxed);
        self.is_resting.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Says that this trainer has no data for now, but may get some in this pass: the others'
    /// steps do not wait for it until it wakes. No push may come before that.
    pub async fn rest(&self) -> Result<()> {
        self.ask_all(Verb::Rest, Head::default(), &|_, _| {}).await?;
        self.is_resting.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes part in steps again. The values that it has are old.
    ///
    /// Shards in step must wait for it from one and the same step on, but each is where it is. So
    /// all are asked for the newest step that we know of. One that is past it answers with its own,
    /// and goes no further without us; then all are asked for the latest of these.
    pub async fn wake(&self) -> Result<()> {
        let in_step = || self.links.iter().filter(|link| link.progress().is_in_step());
        let mut step = in_step().map(|link| link.progress().version).max().unwrap_or(0);
        loop {
            let take = |link: &Link, head: &Head| link.progress().go_on(head.version);
            self.ask_all(Verb::Wake, Head { version: step, ..Head::default() }, &take).await?;
            let latest = in_step().map(|link| link.progress().steps).max().unwrap_or(step);
            if in_step().all(|link| link.progress().steps == latest) {
                self.is_resting.store(false, Ordering::Relaxed);
                return Ok(());
            }
            step = latest;
        }
    }

    /// Tells all shards that the epoch cannot go on.
    pub(super) async fn abandon(&self) -> Result<()> {
        self.ask_all(Verb::Abandon, Head::default(), &|_, _| {}).await
    }

    /// Waits until all trainers have called this as often as this one.
    pub async fn synchronize(&self) -> Result<()> {
        let number = self.synchronized.fetch_add(1, Ordering::Relaxed) + 1;
        // One shard is enough to meet at.
        let head = Head { version: number, ..Head::default() };
        self.ask_first(Request::of(Verb::Synchronize, head)).await.map(|_| ())
    }

    /// Orders a checkpoint and returns its number; [`Client::statistics`] tells when a shard has
    /// it on disk. Sync: it is taken two updates later, which must come.
    pub async fn checkpoint(&self) -> Result<u64> {
        let reply = self.ask_first(Request::of(Verb::Cut, Head::default())).await?;
        Ok(reply.head.cut)
    }

    /// Shows all rows of a sparse parameter that exist, shard after shard, in pages of keys and
    /// values. Rows that are created meanwhile may be missing.
    pub async fn scan(
        &self,
        parameter: ModelIndex,
        is_averaged: bool,
        page: Page<'_>,
    ) -> Result<()> {
        let width = self.layout.placed(parameter)?.width()? as u64;
        let rows_max = (SCAN_BYTES_MAX / (8 + 4 * width)).clamp(1, SCAN_ROWS_MAX);
        let entry = EntryHead { parameter: parameter.0 as u32, ..EntryHead::default() };
        let flags = if is_averaged { FLAG_AVERAGED } else { 0 };
        for (number, link) in self.links.iter().enumerate() {
            if self.layout.shard(number, true).is_none() {
                continue;
            }
            let mut next = 0;
            loop {
                let head = Head { version: next, samples: rows_max, flags, ..Head::default() };
                let mut request = Request::of(Verb::Scan, head);
                request.entries.push(entry);
                let reply = ask_one(link, request).await?;
                for entry in &reply.entries {
                    let (keys, values) = (reply.keys(entry), reply.values(entry));
                    if values.len() as u64 != keys.len() as u64 * width {
                        let damage = Error::new(contract::Kind::Damaged, "rows are incomplete");
                        return Err(link.placed(damage));
                    }
                    page(keys, values)?;
                }
                if reply.head.version <= next {
                    break;
                }
                next = reply.head.version;
            }
        }
        Ok(())
    }

    /// What every shard knows of itself: server by server, dense ports first.
    pub async fn statistics(&self) -> Result<Vec<Statistics>> {
        try_join_all(self.links.iter().map(|link| async move {
            let request = [Request::of(Verb::Statistics, Head::default())];
            let mut statistics = None;
            let mut take = |_, body: Body| {
                statistics = Some(decode_json(&body)?);
                Ok(())
            };
            link.exchange(&request, &mut take).await?;
            statistics.ok_or_else(|| link.placed(unanswered()))
        }))
        .await
    }

    /// Leaves the job for good; servers end when all trainers have. No call may follow.
    ///
    /// Shard 0 hears of it first and once more at the end: if this process dies on the way, its
    /// successor learns there that nothing is left to do, and tells the rest.
    pub async fn goodbye(&self) -> Result<()> {
        let had_left = self.start().has_left;
        let (first, others) = self.links.split_at(1);
        if !had_left {
            try_join_all(first.iter().map(|link| link.begin_leave())).await?;
        }
        try_join_all(others.iter().map(|link| link.leave(had_left))).await?;
        try_join_all(first.iter().map(|link| link.leave(had_left))).await.map(|_| ())
    }

    /// Asks every shard the same.
    async fn ask_all(
        &self,
        verb: Verb,
        head: Head,
        take: &(dyn Fn(&Link, &Head) + Sync),
    ) -> Result<()> {
        let requests: Vec<_> = self.links.iter().map(|_| vec![Request::of(verb, head)]).collect();
        let take = |link: &Link, _: &Request<'_>, reply: &Payload<Body>| {
            take(link, &reply.head);
            Ok(())
        };
        self.ask(&requests, &take).await
    }

    /// Asks shard 0.
    async fn ask_first(&self, request: Request<'_>) -> Result<Payload<Body>> {
        let first = self.links.first().ok_or_else(|| Error::invalid("there is no server"))?;
        ask_one(first, request).await
    }
}

async fn ask_one(link: &Link, request: Request<'_>) -> Result<Payload<Body>> {
    let mut reply = None;
    let mut take = |_, body| {
        reply = Some(link.read(body)?);
        Ok(())
    };
    link.exchange(&[request], &mut take).await?;
    reply.ok_or_else(|| link.placed(unanswered()))
}

fn unanswered() -> Error {
    Error::new(contract::Kind::Damaged, "server did not answer")
}
