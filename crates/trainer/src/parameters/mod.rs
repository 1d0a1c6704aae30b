//! The values of a model, shared by the trainers and inferences of this process.
//!
//! A model costs nothing until it is used: elements and rows are made when they are first needed,
//! by the function of seed, name and index that the servers use too. When the model is trained on
//! servers, its sparse parameters live there, and are read and written in pieces, so that a table
//! never has to fit in a trainer; dense ones stay here as a copy that the updater renews.
//!
//! Every parameter has its own lock, held for one piece of a read or write, never during a call
//! to a server. A long read of a parameter that is being trained sees different moments.

mod storage;
mod training;

use crate::description::Description;
use contract::{Error, Kind, Result};
use pserver::client::{Pull, PullStyle, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use storage::Remote;
use storage::{First, Storage};
use table::model::PARAMETERS_MAX;

/// Elements that are moved at once, where a whole parameter could be too many.
pub(crate) const PIECE_ELEMENTS: usize = 1 << 18;

/// Which values are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum View {
    /// Those of now.
    #[default]
    Present,
    /// Their averages over recent updates, where the optimizer averages; else as `Present`.
    Averaged,
}

/// The values of a model.
pub struct Parameters {
    descriptions: Vec<Description>,
    places: HashMap<String, usize>,
    seed: u64,
    /// By place of the parameter.
    firsts: Vec<First>,
    /// Shared with models that were made by adding parameters to this one.
    storages: Vec<Arc<Mutex<Storage>>>,
}

/// Takes some rows: keys, and a row for each.
pub type Page<'a> = &'a mut (dyn FnMut(&[u64], &[f32]) -> Result<()> + Send);

impl Parameters {
    /// A model whose first values follow from its descriptions and `seed`.
    ///
    /// # Errors
    /// If a description cannot be, or two have the same name.
    pub fn new(descriptions: Vec<Description>, seed: u64) -> Result<Parameters> {
        if descriptions.len() > PARAMETERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the model has too many parameters")
                .with("parameters", descriptions.len())
                .with("limit", PARAMETERS_MAX));
        }
        let mut places = HashMap::new();
        for (place, description) in descriptions.iter().enumerate() {
            description.check()?;
            if places.insert(description.name.clone(), place).is_some() {
                return Err(Error::invalid("two parameters have the same name; rename one")
                    .with("parameter", &description.name));
            }
        }
        let firsts = descriptions.iter().map(|one| First::new(one, seed)).collect();
        let storage = |one: &Description| Arc::new(Mutex::new(Storage::new(one)));
        let storages = descriptions.iter().map(storage).collect();
        Ok(Parameters { descriptions, places, seed, firsts, storages })
    }

    /// The same parameters with more behind them. Both models see every change of what they share.
    ///
    /// # Errors
    /// As [`Parameters::new`].
    pub fn extended(&self, more: Vec<Description>) -> Result<Parameters> {
        let descriptions = self.descriptions.iter().cloned().chain(more).collect();
        let mut extended = Parameters::new(descriptions, self.seed)?;
        for (storage, shared) in extended.storages.iter_mut().zip(&self.storages) {
            *storage = Arc::clone(shared);
        }
        Ok(extended)
    }

    /// The parameters, in their order.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// Where first values come from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The place of a parameter in [`Parameters::descriptions`].
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is none of this name.
    pub fn index(&self, name: &str) -> Result<usize> {
        self.places.get(name).copied().ok_or_else(|| {
            Error::new(Kind::NotFound, "the model has no such parameter").with("parameter", name)
        })
    }

    /// A whole parameter; rows that were never touched have their first values.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for keys without a bound.
    pub fn get(&self, name: &str, view: View) -> Result<Vec<f32>> {
        let place = self.index(name)?;
        let elements = self.elements(place)? as usize;
        if !self.descriptions[place].is_sparse {
            return Ok(self.dense(place, view)?.to_vec());
        }
        let mut values = vec![0.0; elements];
        let piece = self.piece_elements(place);
        for (number, out) in values.chunks_mut(piece).enumerate() {
            self.read_range(name, (number * piece) as u64, out, view)?;
        }
        Ok(values)
    }

    /// Reads the rows of `keys` into `out`. Rows that were never touched have their first values,
    /// and are not created.
    pub fn get_rows(&self, name: &str, keys: &[u64], out: &mut [f32], view: View) -> Result<()> {
        let place = self.index(name)?;
        self.check_rows(place, keys, out.len())?;
        self.read_rows(place, keys, out, view)
    }

    /// Sets a whole parameter.
    ///
    /// # Errors
    /// If the number of values is another.
    pub fn set(&self, name: &str, values: &[f32]) -> Result<()> {
        let place = self.index(name)?;
        let elements = self.elements(place)?;
        if elements != values.len() as u64 {
            let [rows, columns] = self.descriptions[place].dims;
            return Err(Error::invalid("the parameter has another size")
                .with("parameter", name)
                .with("rows", rows)
                .with("columns", columns)
                .with("expected", elements)
                .with("got", values.len()));
        }
        for (number, piece) in values.chunks(self.write_elements(place)).enumerate() {
            self.write_range(name, (number * self.write_elements(place)) as u64, piece)?;
        }
        Ok(())
    }

    /// Sets the rows of `keys`; of a key that repeats the last row counts.
    pub fn set_rows(&self, name: &str, keys: &[u64], values: &[f32]) -> Result<()> {
        let place = self.index(name)?;
        self.check_rows(place, keys, values.len())?;
        let width = self.descriptions[place].width();
        let remote = match &mut *self.storage(place) {
            Storage::Dense(_) => None,
            Storage::Rows(rows) => return rows.set(keys, values),
            Storage::Away(remote) => Some(remote.clone()),
            Storage::Left => return Err(self.left(place)),
        };
        if let Some(Remote { client, place }) = remote {
            let rows_at_once = (PIECE_ELEMENTS / width).max(1);
            let pieces = keys.chunks(rows_at_once).zip(values.chunks(rows_at_once * width));
            for (keys, values) in pieces {
                client.set(&[Value::Sparse { parameter: place, keys, values }])?;
            }
            return Ok(());
        }
        for (key, row) in keys.iter().zip(values.chunks_exact(width)) {
            self.write_range(name, key * width as u64, row)?;
        }
        Ok(())
    }

    /// Reads the elements from `first` on, in row-major order, of a parameter of known size.
    pub fn read_range(&self, name: &str, first: u64, out: &mut [f32], view: View) -> Result<()> {
        let place = self.index(name)?;
        self.check_range(place, first, out.len())?;
        if !self.descriptions[place].is_sparse {
            if view == View::Present && !self.is_made(place) {
                self.firsts[place].fill(first, out);
                return Ok(());
            }
            let value = self.dense(place, view)?;
            out.copy_from_slice(&value[first as usize..][..out.len()]);
            return Ok(());
        }
        let width = self.descriptions[place].width() as u64;
        let end = first + out.len() as u64;
        let keys: Vec<u64> = (first / width..end.div_ceil(width)).collect();
        if first.is_multiple_of(width) && end.is_multiple_of(width) {
            return self.read_rows(place, &keys, out, view);
        }
        let mut rows = vec![0.0; keys.len() * width as usize];
        self.read_rows(place, &keys, &mut rows, view)?;
        out.copy_from_slice(&rows[(first % width) as usize..][..out.len()]);
        Ok(())
    }

    /// Sets the elements from `first` on, in row-major order, of a parameter of known size; of a
    /// sparse one whole rows.
    pub fn write_range(&self, name: &str, first: u64, values: &[f32]) -> Result<()> {
        let place = self.index(name)?;
        self.check_range(place, first, values.len())?;
        let width = self.descriptions[place].width() as u64;
        if self.descriptions[place].is_sparse {
            let end = first + values.len() as u64;
            if !first.is_multiple_of(width) || !end.is_multiple_of(width) {
                return Err(Error::invalid("only whole rows of a sparse parameter can be set")
                    .with("parameter", name)
                    .with("columns", width));
            }
            let keys: Vec<u64> = (first / width..end / width).collect();
            return self.set_rows(name, &keys, values);
        }
        let elements = self.elements(place)? as usize;
        let (remote, value) = {
            let mut storage = self.storage(place);
            let Storage::Dense(dense) = &mut *storage else { return Err(self.left(place)) };
            dense.set(&self.firsts[place], elements, first as usize, values);
            let value = Arc::clone(dense.value(&self.firsts[place], elements));
            (dense.remote.clone(), value)
        };
        match remote {
            Some(Remote { client, place }) => {
                client.set(&[Value::Dense { parameter: place, values: &value }])
            }
            None => Ok(()),
        }
    }

    /// Shows all rows of a sparse parameter that exist, in pages. Rows that are created meanwhile
    /// may be missing.
    pub fn scan(&self, name: &str, view: View, page: Page<'_>) -> Result<()> {
        let place = self.index(name)?;
        let count = (PIECE_ELEMENTS / self.descriptions[place].width()).max(1);
        let mut from = 0;
        let remote = loop {
            let (keys, values) = match &*self.storage(place) {
                Storage::Dense(_) => {
                    return Err(Error::invalid("only sparse parameters have rows to scan")
                        .with("parameter", name));
                }
                Storage::Rows(rows) if from >= rows.len() => return Ok(()),
                Storage::Rows(rows) => rows.page(from, count, view),
                Storage::Away(remote) => break remote.clone(),
                Storage::Left => return Err(self.left(place)),
            };
            from += keys.len();
            // The lock is not held while a page is shown.
            page(&keys, &values)?;
        };
        remote.client.scan(remote.place, view == View::Averaged, page)
    }

    /// All elements of a dense parameter.
    pub(crate) fn dense(&self, place: usize, view: View) -> Result<Arc<Vec<f32>>> {
        let elements = self.elements(place)? as usize;
        let remote = {
            let mut storage = self.storage(place);
            let Storage::Dense(dense) = &mut *storage else { return Err(self.left(place)) };
            match &dense.remote {
                Some(remote) if view == View::Averaged => remote.clone(),
                _ => return Ok(dense.read(&self.firsts[place], elements, view)),
            }
        };
        let mut values = vec![0.0; elements];
        let pull = Pull::Dense { parameter: remote.place, out: &mut values };
        remote
            .client
            .pull_with(&mut [pull], PullStyle { is_read_only: true, is_averaged: true })?;
        Ok(Arc::new(values))
    }

    /// The rows of `keys`, which were checked, without creating any.
    pub(crate) fn read_rows(
        &self,
        place: usize,
        keys: &[u64],
        out: &mut [f32],
        view: View,
    ) -> Result<()> {
        let remote = match &*self.storage(place) {
            Storage::Dense(_) => None,
            Storage::Rows(rows) => {
                rows.peek(&self.firsts[place], keys, view, out);
                return Ok(());
            }
            Storage::Away(remote) => Some(remote.clone()),
            Storage::Left => return Err(self.left(place)),
        };
        if let Some(Remote { client, place }) = remote {
            let style = PullStyle { is_read_only: true, is_averaged: view == View::Averaged };
            return client.pull_with(&mut [Pull::Sparse { parameter: place, keys, out }], style);
        }
        let value = self.dense(place, view)?;
        let width = self.descriptions[place].width();
        for (key, row) in keys.iter().zip(out.chunks_exact_mut(width)) {
            row.copy_from_slice(&value[*key as usize * width..][..width]);
        }
        Ok(())
    }

    /// Elements of a parameter of known size.
    pub(crate) fn elements(&self, place: usize) -> Result<u64> {
        let description = &self.descriptions[place];
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
    pub(crate) fn piece_elements(&self, place: usize) -> usize {
        let width = self.descriptions[place].width();
        (PIECE_ELEMENTS / width).max(1) * width
    }

    /// Checks that keys are rows of the parameter and that there is a row of values for each.
    pub(crate) fn check_rows(&self, place: usize, keys: &[u64], values: usize) -> Result<()> {
        let description = &self.descriptions[place];
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

    fn check_range(&self, place: usize, first: u64, count: usize) -> Result<()> {
        let elements = self.elements(place)?;
        if first.checked_add(count as u64).is_some_and(|end| end <= elements) {
            return Ok(());
        }
        Err(Error::invalid("the range is not in the parameter")
            .with("parameter", &self.descriptions[place].name)
            .with("first", first)
            .with("count", count)
            .with("elements", elements))
    }

    /// Elements that are written at once: a dense parameter goes to the servers as a whole.
    fn write_elements(&self, place: usize) -> usize {
        match self.descriptions[place].is_sparse {
            true => self.piece_elements(place),
            false => usize::MAX,
        }
    }

    fn is_made(&self, place: usize) -> bool {
        matches!(&*self.storage(place), Storage::Dense(dense) if dense.existing().is_some())
    }

    fn left(&self, place: usize) -> Error {
        Error::new(
            Kind::Conflict,
            "the rows of this parameter are on servers that this process has left; save the model \
             before saying goodbye",
        )
        .with("parameter", &self.descriptions[place].name)
    }

    fn storage(&self, place: usize) -> MutexGuard<'_, Storage> {
        // Nothing in here panics halfway.
        self.storages[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
