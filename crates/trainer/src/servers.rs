//! The parameters of a model that live on the parameter servers: reading and writing them from
//! here. Every call waits for the servers.

use crate::values::{DescriptionIndex, PIECE_ELEMENTS, Page, View};
use contract::Result;
use pserver::client::{Blocking, Pull, PullStyle, Value};
use std::collections::BTreeMap;
use table::model::ModelIndex;

/// A connection to the servers, and which parameters they have.
pub(crate) struct Servers {
    client: Blocking,
    indices: BTreeMap<DescriptionIndex, ModelIndex>,
}

impl Servers {
    /// `trained` are the parameters of the servers' model, in its order.
    pub(crate) fn new(client: Blocking, trained: &[DescriptionIndex]) -> Servers {
        let numbered = trained.iter().enumerate();
        let indices = numbered.map(|(number, index)| (*index, ModelIndex(number))).collect();
        Servers { client, indices }
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
