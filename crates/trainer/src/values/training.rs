//! What updaters do with the values: bind an optimizer, fetch, apply, renew. By index, as they have
//! matched the names once.

use super::storage::{Kept, Storage, Training};
use super::{DescriptionIndex, Values};
use crate::recipe::Recipe;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use table::gradient::Gradient;
use table::optimizer::{Now, Update};

impl Values {
    /// Lets `owner` train a parameter in this process; whoever did before does no longer.
    pub(crate) fn train(
        &self,
        index: DescriptionIndex,
        owner: u64,
        recipe: &Recipe,
        now: Now,
    ) -> Result<()> {
        let description = self.description(index);
        let settings = recipe.own(description).settings;
        let update = Update::new(&recipe.optimizer, &settings, description.is_sparse)
            .map_err(|error| error.with("parameter", &description.name))?;
        let training = Training::new(owner, update, now);
        match &mut *self.storage(index) {
            Storage::Dense(dense) => {
                dense.train(training, self.elements(index)? as usize);
                Ok(())
            }
            Storage::Rows(rows) => rows.train(training),
            Storage::Away => Err(Error::new(
                Kind::Conflict,
                "the rows of this parameter are on servers; it cannot be trained in this process. \
                 Save the model there and load it here",
            )
            .with("parameter", &description.name)),
        }
    }

    /// The rows of `keys` for a step; missing ones are created.
    pub(crate) fn fetch_rows(
        &self,
        index: DescriptionIndex,
        keys: &[u64],
        out: &mut [f32],
    ) -> Result<()> {
        self.check_rows(index, keys, out.len())?;
        match &mut *self.storage(index) {
            Storage::Rows(rows) => rows.fetch(self.first(index), keys, out),
            Storage::Dense(_) | Storage::Away => Err(self.away(index)),
        }
    }

    /// Applies a gradient in this process.
    pub(crate) fn apply(
        &self,
        owner: u64,
        gradient: &Gradient<'_, DescriptionIndex>,
    ) -> Result<()> {
        let index = *gradient.parameter();
        let first = self.first(index);
        let applied = match (&mut *self.storage(index), *gradient) {
            (Storage::Dense(dense), Gradient::Dense { values, .. }) => {
                dense.apply(first, owner, values)
            }
            (Storage::Rows(rows), Gradient::Sparse { keys, values, .. }) => {
                rows.apply(first, owner, keys, values)
            }
            _ => Err(self.away(index)),
        };
        applied.map_err(|error| error.with("parameter", &self.description(index).name))
    }

    /// What `owner` trains is from now on read and updated at `now`.
    pub(crate) fn turn(&self, index: DescriptionIndex, owner: u64, now: Now) {
        self.storage(index).turn(owner, now);
    }

    /// What an optimizer of this process keeps: of a dense parameter all, of a sparse one the rows
    /// from the `from`-th on.
    pub(crate) fn kept(&self, index: DescriptionIndex, from: usize, count: usize) -> Result<Kept> {
        match &mut *self.storage(index) {
            Storage::Dense(dense) => {
                Ok(dense.kept(self.first(index), self.elements(index)? as usize))
            }
            Storage::Rows(rows) => Ok(rows.kept(from, count)),
            Storage::Away => Err(self.away(index)),
        }
    }

    /// Rows, if it is sparse, and the numbers of state and counters in all or in a row.
    pub(crate) fn kept_sizes(
        &self,
        index: DescriptionIndex,
    ) -> Result<(Option<u64>, usize, usize)> {
        let (rows, (state, counters)) = match &*self.storage(index) {
            Storage::Dense(dense) => (None, dense.kept_sizes()),
            Storage::Rows(rows) => (Some(rows.len() as u64), rows.kept_sizes()),
            Storage::Away => return Err(self.away(index)),
        };
        Ok((rows, state, counters))
    }

    /// Forgets the rows of a sparse parameter, before [`Values::restore`] brings others.
    pub(crate) fn forget_rows(&self, index: DescriptionIndex) -> Result<()> {
        match &mut *self.storage(index) {
            Storage::Dense(_) => Ok(()),
            Storage::Rows(rows) => {
                rows.clear();
                Ok(())
            }
            Storage::Away => Err(self.away(index)),
        }
    }

    /// Takes what [`Values::kept`] gave, which has the sizes of [`Values::kept_sizes`].
    pub(crate) fn restore(&self, index: DescriptionIndex, kept: Kept) -> Result<()> {
        let keys = kept.keys.as_deref().unwrap_or_default();
        self.check_rows(index, keys, keys.len() * self.description(index).width())?;
        match &mut *self.storage(index) {
            Storage::Dense(dense) => {
                dense.restore(kept);
                Ok(())
            }
            Storage::Rows(rows) => rows.restore(&kept),
            Storage::Away => Err(self.away(index)),
        }
    }

    /// The elements of a dense parameter, if they may differ from the first ones.
    pub(crate) fn changed(&self, index: DescriptionIndex) -> Option<Arc<Vec<f32>>> {
        match &*self.storage(index) {
            Storage::Dense(dense) if dense.is_changed => dense.existing().cloned(),
            _ => None,
        }
    }

    /// From now on the parameter is trained on servers: rows are there alone, and a dense one here
    /// is the copy of what they have.
    pub(crate) fn give_away(&self, index: DescriptionIndex) {
        let mut storage = self.storage(index);
        match &mut *storage {
            Storage::Dense(dense) => {
                dense.stop_training();
                // Should it be trained elsewhere, the copy is what to go on from.
                dense.is_changed = true;
            }
            Storage::Rows(_) | Storage::Away => *storage = Storage::Away,
        }
    }

    /// Takes what the servers have; gives memory back that may be used again.
    pub(crate) fn renew(&self, index: DescriptionIndex, values: Vec<f32>) -> Vec<f32> {
        match &mut *self.storage(index) {
            Storage::Dense(dense) => dense.replace(values),
            Storage::Rows(_) | Storage::Away => values,
        }
    }
}
