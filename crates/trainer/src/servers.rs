//! The parameters of a model that live on the parameter servers: reading and writing them from
//! here, and the steps that change them. Every call waits for the servers, but a step that is begun
//! goes on by itself until somebody needs its outcome.

use crate::exchange::{Exchange, Memory};
use crate::ready::{Computed, Ready};
use crate::updater::{Rows, Wanted};
use crate::values::{DescriptionIndex, PIECE_ELEMENTS, Page, Values, View};
use contract::{Kind, Result};
use pserver::client::{Blocking, Part, Pull, PullStyle, Started, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::model::ModelIndex;

/// A connection to the servers, and which parameters they have.
pub(crate) struct Servers {
    client: Blocking,
    values: Arc<Values>,
    homes: Arc<Homes>,
    /// How often rows were set from here.
    writes: AtomicU64,
    steps: Mutex<Steps>,
}

/// Where the parameters are that the servers have.
pub(crate) struct Homes {
    /// Each parameter's index in the servers' model.
    indices: BTreeMap<DescriptionIndex, ModelIndex>,
    /// The dense ones, of which there is a copy here.
    pub(crate) copied: Vec<(DescriptionIndex, ModelIndex)>,
}

/// The parts of the step that is under way, and memory for the next.
#[derive(Default)]
struct Steps {
    dense: Option<Started<Exchange>>,
    rows: Option<Started<Exchange>>,
    memory: Memory,
}

impl Homes {
    /// The parameter's index in the servers' model; `None` if they do not have it.
    pub(crate) fn index(&self, index: DescriptionIndex) -> Option<ModelIndex> {
        self.indices.get(&index).copied()
    }

    /// Adds pulls of the `rows` of what is wanted by keys, as far as they are on the servers.
    pub(crate) fn add_rows<'a>(
        &self,
        wanted: &[Wanted<'a>],
        rows: &'a mut Rows,
        pulls: &mut Vec<Pull<'a>>,
    ) {
        for (wanted, rows) in wanted.iter().zip(rows) {
            let there = self.index(wanted.parameter);
            if let (Some(parameter), Some(keys), Some(out)) = (there, wanted.keys, rows) {
                pulls.push(Pull::Sparse { parameter, keys, out });
            }
        }
    }
}

impl Servers {
    /// `trained` are the parameters of the servers' model, in its order; the copies of dense ones
    /// are in `values`.
    pub(crate) fn new(client: Blocking, values: Arc<Values>, trained: &[DescriptionIndex]) -> Self {
        let numbered = trained.iter().enumerate();
        let all = numbered.map(|(number, index)| (*index, ModelIndex(number)));
        let is_dense =
            |(here, _): &(DescriptionIndex, ModelIndex)| !values.description(*here).is_sparse;
        let copied = all.clone().filter(is_dense).collect();
        let homes = Arc::new(Homes { indices: all.collect(), copied });
        Servers { client, values, homes, writes: AtomicU64::new(0), steps: Mutex::default() }
    }

    pub(crate) fn client(&self) -> &Blocking {
        &self.client
    }

    pub(crate) fn homes(&self) -> &Arc<Homes> {
        &self.homes
    }

    /// The parameter's index in the servers' model; `None` if they do not have it.
    pub(crate) fn index(&self, index: DescriptionIndex) -> Option<ModelIndex> {
        self.homes.index(index)
    }

    /// The parameters that they have, each with its index in their model.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (DescriptionIndex, ModelIndex)> {
        self.homes.indices.iter().map(|(here, there)| (*here, *there))
    }

    /// How often rows were set from here: rows that were fetched before may have others now.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Copies the dense parameters from the servers.
    pub(crate) fn renew(&self) -> Result<()> {
        let mut steps = self.steps();
        self.land(&mut steps)?;
        let exchange = self.exchange(&mut steps, (Part::Whole, None, Vec::new()))?;
        self.client.make_call(|client| exchange.run(client))?.land(&self.values, &mut steps.memory);
        Ok(())
    }

    /// Pushes a step and copies the dense parameters, and the rows of the batches `ahead`, from the
    /// servers: all in one round trip, which has ended when this returns.
    pub(crate) fn step(&self, step: &Arc<Computed>, ahead: Vec<Arc<Ready>>) -> Result<()> {
        let mut steps = self.steps();
        self.land(&mut steps)?;
        let asked = (Part::Whole, Some(Arc::clone(step)), ahead);
        let exchange = self.exchange(&mut steps, asked)?;
        self.client.make_call(|client| exchange.run(client))?.land(&self.values, &mut steps.memory);
        Ok(())
    }

    /// Begins to push a step and to copy the dense parameters, and the rows of the batches `ahead`,
    /// from the servers: dense and rows in a round trip each, both of which go on by themselves. If
    /// the next step has its rows, it is computed before the rows of this one are there.
    pub(crate) fn begin_step(
        &self,
        step: &Arc<Computed>,
        ahead: Vec<Arc<Ready>>,
        is_next_begun: bool,
    ) -> Result<()> {
        let mut steps = self.steps();
        self.land(&mut steps)?;
        let of_rows = (Part::Rows { is_next_begun }, Some(Arc::clone(step)), ahead);
        let (rows, dense) = (
            self.exchange(&mut steps, of_rows)?,
            self.exchange(&mut steps, (Part::Dense, Some(Arc::clone(step)), Vec::new()))?,
        );
        steps.dense = Some(self.client.begin_call(|client| dense.run(client))?);
        steps.rows = Some(self.client.begin_call(|client| rows.run(client))?);
        Ok(())
    }

    /// Waits until the dense parameters here have the last step.
    pub(crate) fn settle_dense(&self) -> Result<()> {
        let Steps { dense, memory, .. } = &mut *self.steps();
        self.land_part(dense, memory)
    }

    /// Waits for the step that is under way, if one is, and takes what it brought.
    pub(crate) fn settle(&self) -> Result<()> {
        self.land(&mut self.steps())
    }

    /// Whether a step is under way.
    pub(crate) fn is_stepping(&self) -> bool {
        let steps = self.steps();
        steps.dense.is_some() || steps.rows.is_some()
    }

    /// Memory for the rows of what is wanted.
    pub(crate) fn room(&self, wanted: &[Wanted<'_>]) -> Rows {
        self.steps().memory.room(&self.homes, &self.values, wanted)
    }

    /// Takes note of rows whose memory can be used again when nobody reads them any more.
    pub(crate) fn lend(&self, rows: &Arc<Vec<f32>>) {
        self.steps().memory.lend(rows);
    }

    fn exchange(
        &self,
        steps: &mut Steps,
        (part, step, ahead): (Part, Option<Arc<Computed>>, Vec<Arc<Ready>>),
    ) -> Result<Exchange> {
        let asked = (part, step, ahead, self.writes());
        Exchange::new(Arc::clone(&self.homes), &self.values, asked, &mut steps.memory)
    }

    fn land(&self, steps: &mut Steps) -> Result<()> {
        let Steps { dense, rows, memory } = steps;
        // What one part failed for is told after the other has ended, too.
        let outcome = self.land_part(dense, memory);
        self.land_part(rows, memory).and(outcome)
    }

    fn land_part(&self, part: &mut Option<Started<Exchange>>, memory: &mut Memory) -> Result<()> {
        let Some(started) = part else { return Ok(()) };
        let outcome = self.client.finish(started);
        // One that was interrupted is still under way, and is waited for by the next call.
        if outcome.as_ref().is_err_and(|error| error.kind() == Kind::Interrupted) {
            return outcome.map(|_| ());
        }
        *part = None;
        outcome?.land(&self.values, memory);
        Ok(())
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        // A panic in here leaves no step under way that nobody knows of.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All elements of a dense parameter.
    pub(crate) fn fetch_dense(
        &self,
        parameter: ModelIndex,
        view: View,
        out: &mut [f32],
    ) -> Result<()> {
        self.client.pull_with(&mut [Pull::Dense { parameter, out }], style(view))
    }

    /// The rows of `keys`, without creating any.
    pub(crate) fn fetch_rows(
        &self,
        parameter: ModelIndex,
        keys: &[u64],
        view: View,
        out: &mut [f32],
    ) -> Result<()> {
        self.client.pull_with(&mut [Pull::Sparse { parameter, keys, out }], style(view))
    }

    /// Shows all rows that exist.
    pub(crate) fn scan(&self, parameter: ModelIndex, view: View, page: Page<'_>) -> Result<()> {
        self.client.scan(parameter, view == View::Averaged, page)
    }

    /// Sets all elements of a dense parameter.
    pub(crate) fn store_dense(&self, parameter: ModelIndex, values: &[f32]) -> Result<()> {
        self.client.set(&[Value::Dense { parameter, values }])
    }

    /// Sets the rows of `keys`, each of `width` elements, in pieces.
    pub(crate) fn store_rows(
        &self,
        parameter: ModelIndex,
        keys: &[u64],
        width: usize,
        values: &[f32],
    ) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let rows_at_once = (PIECE_ELEMENTS / width).max(1);
        let pieces = keys.chunks(rows_at_once).zip(values.chunks(rows_at_once * width));
        for (keys, values) in pieces {
            self.client.set(&[Value::Sparse { parameter, keys, values }])?;
        }
        Ok(())
    }
}

fn style(view: View) -> PullStyle {
    PullStyle { is_read_only: true, is_averaged: view == View::Averaged }
}
