//! The parameters of a model that live on the parameter servers: reading and writing them from
//! here. Every call waits for the servers.

use crate::updater::{Rows, Wanted};
use crate::values::{DescriptionIndex, PIECE_ELEMENTS, Page, View};
use contract::Result;
use pserver::client::{Blocking, Pull, PullStyle, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use table::model::ModelIndex;

/// A connection to the servers, and which parameters they have.
pub(crate) struct Servers {
    client: Blocking,
    indices: BTreeMap<DescriptionIndex, ModelIndex>,
    /// How often rows were set from here.
    writes: AtomicU64,
}

impl Servers {
    /// `trained` are the parameters of the servers' model, in its order.
    pub(crate) fn new(client: Blocking, trained: &[DescriptionIndex]) -> Servers {
        let numbered = trained.iter().enumerate();
        let indices = numbered.map(|(number, index)| (*index, ModelIndex(number))).collect();
        Servers { client, indices, writes: AtomicU64::new(0) }
    }

    pub(crate) fn client(&self) -> &Blocking {
        &self.client
    }

    /// The parameter's index in the servers' model; `None` if they do not have it.
    pub(crate) fn index(&self, index: DescriptionIndex) -> Option<ModelIndex> {
        self.indices.get(&index).copied()
    }

    /// The parameters that they have, each with its index in their model.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (DescriptionIndex, ModelIndex)> {
        self.indices.iter().map(|(here, there)| (*here, *there))
    }

    /// How often rows were set from here: rows that were fetched before may have others now.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
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
