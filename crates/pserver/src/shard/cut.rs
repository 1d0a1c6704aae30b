//! Checkpoints, as one shard takes part in them.
//!
//! A checkpoint is a cut through the whole job: all shards as they were after the same update. But
//! shards do not know each other, only trainers know all of them. So shard 0 announces the cut in
//! its replies, two updates ahead, and trainers repeat in every push what they have heard. In sync
//! mode, when shard 0 announces at version v a cut for v+2, some trainer has not delivered step v to
//! it: that one hears of the cut in the reply to that push, before it pushes step v+1 anywhere, and
//! no shard gets to v+2 without that. Shard 0 therefore counts steps even if it holds nothing that
//! is updated in step. In async mode there is no common update: a shard cuts when it first hears,
//! and each is from one instant.
//!
//! At the cut the tables only note it. The server then asks for one saved piece after the other
//! while requests go on; the tables copy what is about to change before it was asked for.

use super::table::{Table, Values};
use super::{Reply, Shard};
use crate::message::Head;
use crate::policy::Record;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::time::{Duration, Instant};
use table::store::{SavedBlock, SavedRows};

/// Where training was at a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutFacts {
    /// The number of the cut, from 1.
    pub cut: u64,
    /// Updates so far.
    pub version: u64,
    /// Passes so far.
    pub pass: u64,
    /// Samples so far: the position in the learning-rate schedule.
    pub samples: u64,
    /// Which life of the server it was.
    pub incarnation: u64,
    /// The epoch; 0 in checkpoints of releases that had none.
    #[serde(default)]
    pub epoch: u32,
    /// What was applied of each trainer's pushes.
    pub trainers: Vec<Record>,
}

/// One parameter in a checkpoint: what its parts consist of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFacts {
    /// Its place in the model.
    pub parameter: usize,
    /// Its name.
    pub name: String,
    /// Whether the parts are rows by key, or blocks by number.
    pub is_sparse: bool,
    /// The optimizer's columns, each as wide as the value.
    pub columns: Vec<String>,
    /// The optimizer's counters.
    pub counters: Vec<String>,
}

/// A piece of a cut, in the order begin, rows and blocks, end.
#[derive(Debug)]
pub enum Saved {
    /// A cut begins.
    Begin {
        /// Where training is.
        facts: CutFacts,
        /// What follows.
        tables: Vec<TableFacts>,
    },
    /// Rows of a sparse parameter.
    Rows {
        /// Its place in the model.
        parameter: usize,
        /// The rows.
        rows: SavedRows,
    },
    /// A block of a dense parameter.
    Block {
        /// Its place in the model.
        parameter: usize,
        /// The block.
        block: SavedBlock,
    },
    /// The cut is complete.
    End,
}

/// How far this shard is with checkpoints.
pub(super) struct Progress {
    /// The newest cut heard of in this epoch, and its version.
    announced: (u64, u64),
    /// The highest number that is in use on disk.
    numbered: u64,
    /// Announced and not yet begun.
    due: Option<(u64, u64)>,
    active: Option<Active>,
    /// The newest one that is complete on disk.
    completed: u64,
    last_announcement: Instant,
}

enum Active {
    Begin(Box<CutFacts>),
    Table(usize),
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Progress {
            announced: (0, 0),
            numbered: 0,
            due: None,
            active: None,
            completed: 0,
            last_announcement: now,
        }
    }

    pub(super) fn announced(&self) -> (u64, u64) {
        self.announced
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// The highest number that is in use.
    pub(super) fn number(&self) -> u64 {
        self.numbered.max(self.announced.0)
    }

    /// Later cuts have higher numbers than the one that was restored.
    pub(super) fn resume_after(&mut self, cut: u64) {
        self.numbered = self.numbered.max(cut);
        self.completed = cut;
    }
}

impl<T: Clone, B: Deref<Target = [u8]>> Shard<T, B> {
    /// The next piece of the cut under way; `None` when there is nothing to save.
    pub fn next_saved(&mut self) -> Option<Saved> {
        let job = self.job.as_mut()?;
        loop {
            match self.cut.active.take()? {
                Active::Begin(facts) => {
                    self.cut.active = Some(Active::Table(0));
                    let tables = job.tables.iter().enumerate().filter_map(|(place, table)| {
                        table.as_ref().map(|table| table.facts(place))
                    });
                    return Some(Saved::Begin { facts: *facts, tables: tables.collect() });
                }
                Active::Table(parameter) => {
                    let Some(table) = job.tables.get_mut(parameter) else {
                        return Some(Saved::End);
                    };
                    let saved = table.as_mut().and_then(|table| table.next_saved(parameter));
                    let next = parameter + usize::from(saved.is_none());
                    self.cut.active = Some(Active::Table(next));
                    if saved.is_some() {
                        return saved;
                    }
                }
            }
        }
    }

    /// Bytes that were copied aside and not yet asked for.
    pub fn displaced_bytes(&self) -> usize {
        let tables = self.job.iter().flat_map(|job| job.tables.iter().flatten());
        tables.map(Table::displaced_bytes).sum()
    }

    /// Cuts get higher numbers than this one, which is on disk already.
    pub fn number_cuts_after(&mut self, cut: u64) {
        self.cut.numbered = self.cut.numbered.max(cut);
    }

    /// Whether a cut is under way.
    pub fn is_cutting(&self) -> bool {
        self.cut.active.is_some()
    }

    /// The cut is on disk.
    pub fn complete_cut(&mut self, cut: u64, time: Duration, bytes: u64) {
        self.metrics.saved(time, bytes);
        self.cut.completed = self.cut.completed.max(cut);
    }

    /// Cuts now, whatever was announced: the server is about to end. False if there is nothing to
    /// save, or if a step is partly applied: other shards may have other parts of it.
    pub fn begin_last_cut(&mut self) -> bool {
        let Some(job) = &self.job else { return false };
        let is_torn = job.has_sync && job.is_mid_step;
        if !job.epoch.has_begun || is_torn || self.is_cutting() {
            return false;
        }
        let cut = self.cut.number().saturating_add(1);
        self.cut.announced = (cut, job.version);
        self.begin_cut(cut);
        true
    }

    /// Notes a cut that a trainer has heard of.
    pub(super) fn hear_cut(&mut self, head: &Head) -> Result<()> {
        if head.cut <= self.cut.announced.0 || !self.config.can_cut {
            return Ok(());
        }
        if self.is_announcer() {
            let message = "a trainer speaks of a checkpoint that was not announced";
            return Err(Error::invalid(message)
                .with("rank", head.rank)
                .with("cut", head.cut)
                .with("announced", self.cut.announced.0));
        }
        self.cut.announced = (head.cut, head.cut_version);
        self.cut.due = Some(self.cut.announced);
        self.take_due_cut();
        Ok(())
    }

    /// Shard 0: announces a cut when it is time.
    pub(super) fn announce_cut(&mut self, now: Instant) {
        let Some(interval) = self.config.cut_interval else { return };
        if now.saturating_duration_since(self.cut.last_announcement) >= interval
            && self.is_announcer()
            && self.cut.due.is_none()
            && !self.is_cutting()
        {
            self.cut.last_announcement = now;
            self.announce();
        }
    }

    /// A trainer orders a checkpoint.
    pub(super) fn order_cut(&mut self, now: Instant) -> Result<Reply> {
        if !self.config.can_cut {
            let message = "the server keeps no checkpoints; start it with --checkpoint_dir";
            return Err(Error::new(Kind::Unsupported, message));
        }
        if !self.is_announcer() {
            return Err(Error::new(Kind::Conflict, "checkpoints are ordered from shard 0"));
        }
        if self.cut.due.is_none() && !self.is_cutting() {
            self.cut.last_announcement = now;
            self.announce();
        }
        Ok(self.acknowledgement(0))
    }

    /// Begins the announced cut if this is its version.
    pub(super) fn take_due_cut(&mut self) {
        let (Some((cut, version)), Some(job)) = (self.cut.due, &self.job) else { return };
        let is_time = !job.has_sync || job.version >= version;
        if is_time && job.epoch.has_begun && !self.is_cutting() {
            self.cut.due = None;
            self.begin_cut(cut);
        }
    }

    fn is_announcer(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.epoch.has_begun && job.join.is_to_first())
    }

    fn announce(&mut self) {
        let Some(job) = &self.job else { return };
        let ahead = if job.has_sync { 2 } else { 0 };
        self.cut.announced =
            (self.cut.number().saturating_add(1), job.version.saturating_add(ahead));
        self.cut.due = Some(self.cut.announced);
        self.take_due_cut();
    }

    fn begin_cut(&mut self, cut: u64) {
        let Some(job) = &mut self.job else { return };
        for table in job.tables.iter_mut().flatten() {
            table.begin_cut();
        }
        let facts = CutFacts {
            cut,
            version: job.version,
            pass: job.pass,
            samples: job.samples,
            incarnation: self.config.incarnation,
            epoch: job.epoch.number,
            trainers: self.members.records(job.has_sync.then_some(job.version)),
        };
        self.cut.active = Some(Active::Begin(Box::new(facts)));
    }
}

impl<B: Deref<Target = [u8]>> Table<B> {
    fn begin_cut(&mut self) {
        match &mut self.values {
            Values::Dense { blocks, .. } => blocks.begin_cut(),
            Values::Sparse { rows, .. } => rows.begin_cut(),
        }
    }

    fn next_saved(&mut self, parameter: usize) -> Option<Saved> {
        match &mut self.values {
            Values::Dense { blocks, .. } => {
                blocks.next_saved().map(|block| Saved::Block { parameter, block })
            }
            Values::Sparse { rows, .. } => {
                rows.next_saved().map(|rows| Saved::Rows { parameter, rows })
            }
        }
    }

    fn displaced_bytes(&self) -> usize {
        match &self.values {
            Values::Dense { blocks, .. } => blocks.displaced_bytes(),
            Values::Sparse { rows, .. } => rows.displaced_bytes(),
        }
    }

    fn facts(&self, parameter: usize) -> TableFacts {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        TableFacts {
            parameter,
            name: self.name.clone(),
            is_sparse: matches!(self.values, Values::Sparse { .. }),
            columns: names(&self.update.columns().state),
            counters: names(&self.update.columns().counters),
        }
    }
}
