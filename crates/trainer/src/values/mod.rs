//! The values of a model in this process. No I/O: what is on servers is not here.
//!
//! A model costs nothing until it is used: elements and rows are made when they are first needed,
//! by the function of seed, name and index that the servers use too. When sparse parameters are
//! trained on servers, their rows are there alone; of dense ones a copy stays here that the updater
//! renews.
//!
//! Every parameter has its own lock, held for one piece of a read or write. A long read of a
//! parameter that is being trained sees different moments.

mod storage;
mod training;

use crate::description::Description;
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use storage::Kept;
use storage::{First, Storage};
use table::model::PARAMETERS_MAX;

/// Elements that are moved at once, where a whole parameter could be too many.
pub(crate) const PIECE_ELEMENTS: usize = 1 << 18;

/// The index of a parameter in the descriptions of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptionIndex(usize);

/// Which values are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    /// The current values.
    #[default]
    Present,
    /// Their averages over recent updates, where the optimizer averages; else as `Present`.
    Averaged,
}

/// Takes some rows: keys, and a row for each.
pub type Page<'a> = &'a mut (dyn FnMut(&[u64], &[f32]) -> Result<()> + Send);

/// The values of a model.
pub struct Values {
    descriptions: Vec<Description>,
    indices: HashMap<String, DescriptionIndex>,
    seed: u64,
    /// By index of the parameter.
    firsts: Vec<First>,
    /// Shared with models that were made by adding parameters to this one.
    storages: Vec<Arc<Mutex<Storage>>>,
}

impl Values {
    /// A model whose first values follow from its descriptions and `seed`.
    pub(crate) fn new(descriptions: Vec<Description>, seed: u64) -> Result<Values> {
        if descriptions.len() > PARAMETERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the model has too many parameters")
                .with("parameters", descriptions.len())
                .with("limit", PARAMETERS_MAX));
        }
        let mut indices = HashMap::new();
        for (number, description) in descriptions.iter().enumerate() {
            description.check()?;
            if indices.insert(description.name.clone(), DescriptionIndex(number)).is_some() {
                return Err(Error::invalid("two parameters have the same name; rename one")
                    .with("parameter", &description.name));
            }
        }
        let firsts = descriptions.iter().map(|one| First::new(one, seed)).collect();
        let storage = |one: &Description| Arc::new(Mutex::new(Storage::new(one)));
        let storages = descriptions.iter().map(storage).collect();
        Ok(Values { descriptions, indices, seed, firsts, storages })
    }

    /// The same parameters with more behind them. Both models see every change of what they share.
    pub(crate) fn extended(&self, more: Vec<Description>) -> Result<Values> {
        let descriptions = self.descriptions.iter().cloned().chain(more).collect();
        let mut extended = Values::new(descriptions, self.seed)?;
        for (storage, shared) in extended.storages.iter_mut().zip(&self.storages) {
            *storage = Arc::clone(shared);
        }
        Ok(extended)
    }

    pub(crate) fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    pub(crate) fn description(&self, index: DescriptionIndex) -> &Description {
        &self.descriptions[index.0]
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = DescriptionIndex> + use<> {
        (0..self.descriptions.len()).map(DescriptionIndex)
    }

    pub(crate) fn index(&self, name: &str) -> Result<DescriptionIndex> {
        self.indices.get(name).copied().ok_or_else(|| {
            Error::new(Kind::NotFound, "the model has no such parameter").with("parameter", name)
        })
    }

    /// Where first values come from.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// All elements of a dense parameter.
    pub(crate) fn dense(&self, index: DescriptionIndex, view: View) -> Result<Arc<Vec<f32>>> {
        let elements = self.elements(index)? as usize;
        match &mut *self.storage(index) {
            Storage::Dense(dense) => Ok(dense.read(self.first(index), elements, view)),
            Storage::Rows(_) | Storage::Away => Err(self.away(index)),
        }
    }

    /// Elements of a dense parameter from `first` on, which were checked. One that nobody has
    /// touched is not made.
    pub(crate) fn read_range(
        &self,
        index: DescriptionIndex,
        first: u64,
        out: &mut [f32],
        view: View,
    ) -> Result<()> {
        if view == View::Present && !self.is_made(index) {
            self.first(index).fill(first, out);
            return Ok(());
        }
        let value = self.dense(index, view)?;
        out.copy_from_slice(&value[first as usize..][..out.len()]);
        Ok(())
    }

    /// Sets elements of a dense parameter from `first` on, which were checked; returns all of them.
    pub(crate) fn set_range(
        &self,
        index: DescriptionIndex,
        first: usize,
        values: &[f32],
    ) -> Result<Arc<Vec<f32>>> {
        let elements = self.elements(index)? as usize;
        match &mut *self.storage(index) {
            Storage::Dense(dense) => {
                dense.set(self.first(index), elements, first, values);
                Ok(Arc::clone(dense.value(self.first(index), elements)))
            }
            Storage::Rows(_) | Storage::Away => Err(self.away(index)),
        }
    }

    /// The rows of `keys` of a sparse parameter, which were checked, without creating any.
    pub(crate) fn read_rows(
        &self,
        index: DescriptionIndex,
        keys: &[u64],
        out: &mut [f32],
        view: View,
    ) -> Result<()> {
        match &*self.storage(index) {
            Storage::Rows(rows) => {
                rows.peek(self.first(index), keys, view, out);
                Ok(())
            }
            Storage::Dense(_) | Storage::Away => Err(self.away(index)),
        }
    }

    /// Sets the rows of `keys` of a sparse parameter, which were checked.
    pub(crate) fn set_rows(
        &self,
        index: DescriptionIndex,
        keys: &[u64],
        values: &[f32],
    ) -> Result<()> {
        match &mut *self.storage(index) {
            Storage::Rows(rows) => rows.set(keys, values),
            Storage::Dense(_) | Storage::Away => Err(self.away(index)),
        }
    }

    /// Shows all rows of a sparse parameter that exist here, in pages.
    pub(crate) fn scan(&self, index: DescriptionIndex, view: View, page: Page<'_>) -> Result<()> {
        let count = (PIECE_ELEMENTS / self.description(index).width()).max(1);
        let mut from = 0;
        loop {
            let (keys, values) = match &*self.storage(index) {
                Storage::Dense(_) => {
                    return Err(Error::invalid("only sparse parameters have rows to scan")
                        .with("parameter", &self.description(index).name));
                }
                Storage::Rows(rows) if from >= rows.len() => return Ok(()),
                Storage::Rows(rows) => rows.page(from, count, view),
                Storage::Away => return Err(self.away(index)),
            };
            from += keys.len();
            // The lock is not held while a page is shown.
            page(&keys, &values)?;
        }
    }

    /// Elements of a parameter of known size.
    pub(crate) fn elements(&self, index: DescriptionIndex) -> Result<u64> {
        let description = self.description(index);
        description.elements().ok_or_else(|| {
            Error::new(
                Kind::Unsupported,
                "a parameter with keys without a bound has no whole; read the rows you need, or \
                 scan those that exist",
            )
            .with("parameter", &description.name)
        })
    }

    /// Elements that are read at once: whole rows.
    pub(crate) fn piece_elements(&self, index: DescriptionIndex) -> usize {
        let width = self.description(index).width();
        (PIECE_ELEMENTS / width).max(1) * width
    }

    /// Checks that keys are rows of the parameter and that there is a row of values for each.
    pub(crate) fn check_rows(
        &self,
        index: DescriptionIndex,
        keys: &[u64],
        values: usize,
    ) -> Result<()> {
        let description = self.description(index);
        let [rows, width] = description.dims;
        if let Some(key) = keys.iter().find(|key| rows > 0 && **key >= rows as u64) {
            return Err(Error::invalid("key is not below the number of rows")
                .with("parameter", &description.name)
                .with("key", key)
                .with("rows", rows));
        }
        if keys.len() * width != values {
            return Err(Error::invalid("there must be a row of values for each key")
                .with("parameter", &description.name)
                .with("keys", keys.len())
                .with("columns", width)
                .with("values", values));
        }
        Ok(())
    }

    /// Checks that there are so many elements from `first` on.
    pub(crate) fn check_range(
        &self,
        index: DescriptionIndex,
        first: u64,
        count: usize,
    ) -> Result<()> {
        let elements = self.elements(index)?;
        if first.checked_add(count as u64).is_some_and(|end| end <= elements) {
            return Ok(());
        }
        Err(Error::invalid("the range is not in the parameter")
            .with("parameter", &self.description(index).name)
            .with("first", first)
            .with("count", count)
            .with("elements", elements))
    }

    fn is_made(&self, index: DescriptionIndex) -> bool {
        matches!(&*self.storage(index), Storage::Dense(dense) if dense.existing().is_some())
    }

    fn away(&self, index: DescriptionIndex) -> Error {
        Error::new(
            Kind::Conflict,
            "the rows of this parameter are on servers and not in this process; save the model \
             before its trainer says goodbye or another one takes over",
        )
        .with("parameter", &self.description(index).name)
    }

    fn first(&self, index: DescriptionIndex) -> &First {
        &self.firsts[index.0]
    }

    fn storage(&self, index: DescriptionIndex) -> MutexGuard<'_, Storage> {
        // Nothing in here panics halfway.
        self.storages[index.0].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
