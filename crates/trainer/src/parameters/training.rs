//! What updaters do with the values: bind an optimizer, fetch, apply, renew. By place, as they
//! have matched the names once.

use super::storage::{Remote, Rows, Storage, Training};
use super::{Page, Parameters, View};
use crate::recipe::Recipe;
use contract::{Error, Result};
use pserver::client::Blocking;
use std::sync::Arc;
use table::optimizer::{Now, Update};

impl Parameters {
    /// Lets `owner` train a parameter in this process; whoever did before does no longer.
    pub(crate) fn train(&self, place: usize, owner: u64, recipe: &Recipe, now: Now) -> Result<()> {
        let description = &self.descriptions[place];
        let settings = recipe.own(description).settings;
        let update = Update::new(&recipe.optimizer, &settings, description.is_sparse)
            .map_err(|error| error.with("parameter", &description.name))?;
        let training = Training::new(owner, update, now);
        match &mut *self.storage(place) {
            Storage::Dense(dense) => {
                dense.remote = None;
                dense.train(training, self.elements(place)? as usize);
                Ok(())
            }
            Storage::Rows(rows) => rows.train(training),
            Storage::Away(_) => Err(Error::new(
                contract::Kind::Conflict,
                "the rows of this parameter are on the servers; it cannot be trained here",
            )
            .with("parameter", &description.name)),
            Storage::Left => Err(self.left(place)),
        }
    }

    /// The rows of `keys` for a step; missing ones are created.
    pub(crate) fn fetch_rows(&self, place: usize, keys: &[u64], out: &mut [f32]) -> Result<()> {
        self.check_rows(place, keys, out.len())?;
        match &mut *self.storage(place) {
            Storage::Rows(rows) => rows.fetch(&self.firsts[place], keys, out),
            Storage::Dense(_) | Storage::Away(_) | Storage::Left => Err(self.left(place)),
        }
    }

    /// Applies a gradient in this process.
    pub(crate) fn apply(
        &self,
        place: usize,
        owner: u64,
        keys: Option<&[u64]>,
        gradient: &[f32],
    ) -> Result<()> {
        let first = &self.firsts[place];
        let applied = match (&mut *self.storage(place), keys) {
            (Storage::Dense(dense), None) => dense.apply(first, owner, gradient),
            (Storage::Rows(rows), Some(keys)) => rows.apply(first, owner, keys, gradient),
            _ => Err(self.left(place)),
        };
        applied.map_err(|error| error.with("parameter", &self.descriptions[place].name))
    }

    /// What `owner` trains is from now on read and updated at `now`.
    pub(crate) fn turn(&self, place: usize, owner: u64, now: Now) {
        self.storage(place).turn(owner, now);
    }

    /// Gives the dense values that may differ from the first ones to `send`.
    pub(crate) fn changed(&self, place: usize) -> Option<Arc<Vec<f32>>> {
        match &*self.storage(place) {
            Storage::Dense(dense) if dense.is_changed => dense.existing().cloned(),
            _ => None,
        }
    }

    /// Shows the rows that exist in this process.
    pub(crate) fn scan_local(&self, place: usize, page: Page<'_>) -> Result<()> {
        self.scan(&self.descriptions[place].name, View::Present, page)
    }

    /// From now on the parameter lives on the servers, as number `at` of their model.
    pub(crate) fn attach(&self, place: usize, client: &Arc<Blocking>, at: usize) {
        let remote = Remote { client: Arc::clone(client), place: at };
        let mut storage = self.storage(place);
        match &mut *storage {
            Storage::Dense(dense) => dense.remote = Some(remote),
            Storage::Rows(_) | Storage::Away(_) | Storage::Left => *storage = Storage::Away(remote),
        }
    }

    /// The servers are left: the copies of dense parameters stay, rows are gone.
    pub(crate) fn detach(&self, place: usize) {
        let mut storage = self.storage(place);
        match &mut *storage {
            Storage::Dense(dense) => {
                dense.remote = None;
                // Should it be trained elsewhere, these are the values to go on from.
                dense.is_changed = true;
            }
            Storage::Away(_) => *storage = Storage::Left,
            Storage::Rows(Rows { .. }) | Storage::Left => {}
        }
    }

    /// Takes what the servers have; gives memory back that may be used again.
    pub(crate) fn renew(&self, place: usize, values: Vec<f32>) -> Vec<f32> {
        match &mut *self.storage(place) {
            Storage::Dense(dense) => dense.replace(values),
            Storage::Rows(_) | Storage::Away(_) | Storage::Left => values,
        }
    }
}
