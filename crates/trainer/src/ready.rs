//! A batch on its way through a step: made ready, with its rows once they have come, then with its
//! gradients. Both are shared with the exchange that goes on beside the next step.

use crate::matching::Matching;
use crate::updater::{Rows, Wanted};
use crate::values::DescriptionIndex;
use contract::Result;
use engine::batch::Batch;
use engine::{Network, NetworkIndex, Prepared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::gradient::Gradient;

/// Makes batches ready for a network and its parameters.
#[derive(Clone)]
pub(crate) struct Preparation {
    pub(crate) network: Arc<Network>,
    pub(crate) matching: Arc<Matching>,
}

impl Preparation {
    /// Checks a batch and gathers its keys.
    pub(crate) fn prepare(&self, batch: Batch) -> Result<Arc<Ready>> {
        let prepared = self.network.prepare(batch)?;
        let (matching, rows) = (Arc::clone(&self.matching), Mutex::default());
        Ok(Arc::new(Ready { matching, prepared, rows }))
    }
}

/// A batch that can be computed as soon as its values are there.
pub struct Ready {
    matching: Arc<Matching>,
    prepared: Prepared,
    rows: Mutex<Option<Brought>>,
}

/// Rows that have come for a batch.
struct Brought {
    rows: Rows,
    /// How often rows had been set from here when these came.
    writes: u64,
}

impl Ready {
    /// As the engine computes it.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// What it needs, in the order of the network.
    pub fn wanted(&self) -> Vec<Wanted<'_>> {
        self.matching.wanted(&self.prepared)
    }

    /// Keeps rows that have come, after rows had been set from here so many times.
    pub(crate) fn put_rows(&self, rows: Rows, writes: u64) {
        *self.rows() = Some(Brought { rows, writes });
    }

    /// Whether rows have come, and none were set since.
    pub(crate) fn has_rows(&self, writes: u64) -> bool {
        self.rows().as_ref().is_some_and(|brought| brought.writes == writes)
    }

    /// The rows that have come, unless some were set since.
    pub(crate) fn take_rows(&self, writes: u64) -> Option<Rows> {
        let brought = self.rows().take().filter(|brought| brought.writes == writes);
        brought.map(|brought| brought.rows)
    }

    fn rows(&self) -> MutexGuard<'_, Option<Brought>> {
        // Nothing panics while it is held.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch with its gradients.
pub struct Computed {
    ready: Arc<Ready>,
    /// In the order of the network.
    gradients: Vec<Option<Vec<f32>>>,
}

impl Computed {
    pub(crate) fn new(ready: Arc<Ready>, gradients: Vec<Option<Vec<f32>>>) -> Computed {
        Computed { ready, gradients }
    }

    /// The batch.
    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Samples of the batch.
    pub fn samples(&self) -> u64 {
        self.ready.prepared.samples() as u64
    }

    /// The gradient of one of the network's parameters, if it has one.
    pub(crate) fn gradient(&self, index: NetworkIndex) -> Option<Gradient<'_, NetworkIndex>> {
        let values = self.gradients.get(index.0)?.as_deref()?;
        Some(Gradient::new(index, self.ready.prepared.keys(index), values))
    }

    /// All gradients, in the order of the network.
    pub fn gradients(&self) -> Vec<Gradient<'_, DescriptionIndex>> {
        let all = (0..self.gradients.len()).map(NetworkIndex);
        let own =
            |gradient: Gradient<'_, NetworkIndex>| self.ready.matching.index(*gradient.parameter());
        all.filter_map(|index| self.gradient(index))
            .map(|gradient| gradient.with_parameter(own(gradient)))
            .collect()
    }
}
