//! The parameters of a model, wherever they are: in this process, or on the servers that train it.
//!
//! What is here is in [`Values`], what is on servers is reached through [`Servers`]; neither knows
//! this file or the other. Calls named `fetch` and `store` may wait for servers: sparse parameters
//! that are trained there live there and are moved in pieces, so that a table never has to fit in a
//! trainer; of dense ones there is a copy here, which the updater renews, and only their averages
//! are asked for.

use crate::description::Description;
use crate::servers::Servers;
use crate::updater::Wanted;
use crate::values::{DescriptionIndex, Page, Values, View};
use contract::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::model::ModelIndex;

/// The parameters of a model, shared by the trainers and inferences of this process.
pub struct Parameters {
    values: Arc<Values>,
    /// The parameters that are trained on servers, by the trainer that was made last.
    homes: Mutex<BTreeMap<DescriptionIndex, Arc<Servers>>>,
}

/// The servers that have a parameter, and its index there; `None` if it is in this process.
type Home = Option<(Arc<Servers>, ModelIndex)>;

impl Parameters {
    /// A model whose first values follow from its descriptions and `seed`.
    ///
    /// # Errors
    /// If a description cannot be, or two have the same name.
    pub fn new(descriptions: Vec<Description>, seed: u64) -> Result<Parameters> {
        let values = Arc::new(Values::new(descriptions, seed)?);
        Ok(Parameters { values, homes: Mutex::default() })
    }

    /// The same parameters with more behind them. Both models see every change of what they share.
    ///
    /// # Errors
    /// As [`Parameters::new`].
    pub fn extended(&self, more: Vec<Description>) -> Result<Parameters> {
        let values = Arc::new(self.values.extended(more)?);
        Ok(Parameters { values, homes: Mutex::new(self.homes().clone()) })
    }

    /// The parameters, in their order.
    pub fn descriptions(&self) -> &[Description] {
        self.values.descriptions()
    }

    /// A parameter's description.
    pub fn description(&self, index: DescriptionIndex) -> &Description {
        self.values.description(index)
    }

    /// The indices of all parameters.
    pub fn indices(&self) -> impl Iterator<Item = DescriptionIndex> + use<> {
        self.values.indices()
    }

    /// The index of a parameter.
    ///
    /// # Errors
    /// [`contract::Kind::NotFound`] if there is none of this name.
    pub fn index(&self, name: &str) -> Result<DescriptionIndex> {
        self.values.index(name)
    }

    /// A whole parameter; rows that were never touched have their first values.
    ///
    /// # Errors
    /// [`contract::Kind::Unsupported`] for keys without a bound; whatever the servers say.
    pub fn fetch(&self, name: &str, view: View) -> Result<Vec<f32>> {
        let index = self.index(name)?;
        let elements = self.values.elements(index)? as usize;
        if !self.description(index).is_sparse {
            return Ok(self.fetch_dense(index, view)?.to_vec());
        }
        let mut values = vec![0.0; elements];
        let piece = self.values.piece_elements(index);
        for (number, out) in values.chunks_mut(piece).enumerate() {
            self.fetch_range(index, (number * piece) as u64, out, view)?;
        }
        Ok(values)
    }

    /// Reads the rows of `keys` into `out`. Rows that were never touched have their first values,
    /// and are not created.
    pub fn fetch_rows(&self, name: &str, keys: &[u64], out: &mut [f32], view: View) -> Result<()> {
        self.fetch_rows_at(self.index(name)?, keys, out, view)
    }

    /// Sets a whole parameter.
    ///
    /// # Errors
    /// If the number of values is another.
    pub fn store(&self, name: &str, values: &[f32]) -> Result<()> {
        let index = self.index(name)?;
        let elements = self.values.elements(index)?;
        if elements != values.len() as u64 {
            let [rows, columns] = self.description(index).dims;
            return Err(Error::invalid("the parameter has another size")
                .with("parameter", name)
                .with("rows", rows)
                .with("columns", columns)
                .with("expected", elements)
                .with("got", values.len()));
        }
        // A dense parameter goes to the servers as a whole.
        let piece = match self.description(index).is_sparse {
            true => self.values.piece_elements(index),
            false => values.len(),
        };
        for (number, values) in values.chunks(piece).enumerate() {
            self.store_range(index, (number * piece) as u64, values)?;
        }
        Ok(())
    }

    /// Sets the rows of `keys`; of a key that repeats the last row counts.
    pub fn store_rows(&self, name: &str, keys: &[u64], values: &[f32]) -> Result<()> {
        self.store_rows_at(self.index(name)?, keys, values)
    }

    /// Reads the elements from `first` on, in row-major order, of a parameter of known size.
    pub fn fetch_range(
        &self,
        index: DescriptionIndex,
        first: u64,
        out: &mut [f32],
        view: View,
    ) -> Result<()> {
        self.values.check_range(index, first, out.len())?;
        if !self.description(index).is_sparse {
            return match self.average(index, view)? {
                None => self.values.read_range(index, first, out, view),
                Some(_) => {
                    let value = self.fetch_dense(index, view)?;
                    out.copy_from_slice(&value[first as usize..][..out.len()]);
                    Ok(())
                }
            };
        }
        let width = self.description(index).width() as u64;
        let end = first + out.len() as u64;
        let keys: Vec<u64> = (first / width..end.div_ceil(width)).collect();
        if first.is_multiple_of(width) && end.is_multiple_of(width) {
            return self.fetch_rows_at(index, &keys, out, view);
        }
        let mut rows = vec![0.0; keys.len() * width as usize];
        self.fetch_rows_at(index, &keys, &mut rows, view)?;
        out.copy_from_slice(&rows[(first % width) as usize..][..out.len()]);
        Ok(())
    }

    /// Sets the elements from `first` on, in row-major order, of a parameter of known size; of a
    /// sparse one whole rows.
    pub fn store_range(&self, index: DescriptionIndex, first: u64, values: &[f32]) -> Result<()> {
        self.values.check_range(index, first, values.len())?;
        let description = self.description(index);
        let width = description.width() as u64;
        if description.is_sparse {
            let end = first + values.len() as u64;
            if !first.is_multiple_of(width) || !end.is_multiple_of(width) {
                return Err(Error::invalid("only whole rows of a sparse parameter can be set")
                    .with("parameter", &description.name)
                    .with("columns", width));
            }
            let keys: Vec<u64> = (first / width..end / width).collect();
            return self.store_rows_at(index, &keys, values);
        }
        let home = self.home(index)?;
        let value = self.values.set_range(index, first as usize, values)?;
        match home {
            Some((servers, at)) => servers.store_dense(at, &value),
            None => Ok(()),
        }
    }

    /// Shows all rows of a sparse parameter that exist, in pages. Rows that are created meanwhile
    /// may be missing.
    pub fn scan(&self, name: &str, view: View, page: Page<'_>) -> Result<()> {
        let index = self.index(name)?;
        match self.home(index)?.filter(|_| self.description(index).is_sparse) {
            Some((servers, at)) => servers.scan(at, view, page),
            None => self.values.scan(index, view, page),
        }
    }

    /// All elements of a dense parameter.
    pub(crate) fn fetch_dense(&self, index: DescriptionIndex, view: View) -> Result<Arc<Vec<f32>>> {
        let Some((servers, at)) = self.average(index, view)? else {
            return self.values.dense(index, view);
        };
        let mut values = vec![0.0; self.values.elements(index)? as usize];
        servers.fetch_dense(at, view, &mut values)?;
        Ok(Arc::new(values))
    }

    /// What a batch needs that is only looked at.
    pub(crate) fn fetch_wanted(&self, wanted: &Wanted<'_>, view: View) -> Result<Arc<Vec<f32>>> {
        let index = wanted.parameter;
        let description = self.description(index);
        match wanted.keys {
            Some(keys) => {
                let mut rows = vec![0.0; keys.len() * description.width()];
                self.fetch_rows_at(index, keys, &mut rows, view)?;
                Ok(Arc::new(rows))
            }
            None if description.is_sparse => self.fetch(&description.name, view).map(Arc::new),
            None => self.fetch_dense(index, view),
        }
    }

    /// Elements of a parameter of known size.
    pub(crate) fn elements(&self, index: DescriptionIndex) -> Result<u64> {
        self.values.elements(index)
    }

    /// Elements that are moved at once: whole rows.
    pub(crate) fn piece_elements(&self, index: DescriptionIndex) -> usize {
        self.values.piece_elements(index)
    }

    fn fetch_rows_at(
        &self,
        index: DescriptionIndex,
        keys: &[u64],
        out: &mut [f32],
        view: View,
    ) -> Result<()> {
        self.values.check_rows(index, keys, out.len())?;
        if self.description(index).is_sparse {
            return match self.home(index)? {
                Some((servers, at)) => servers.fetch_rows(at, keys, view, out),
                None => self.values.read_rows(index, keys, out, view),
            };
        }
        let value = self.fetch_dense(index, view)?;
        let width = self.description(index).width();
        for (key, row) in keys.iter().zip(out.chunks_exact_mut(width)) {
            row.copy_from_slice(&value[*key as usize * width..][..width]);
        }
        Ok(())
    }

    fn store_rows_at(&self, index: DescriptionIndex, keys: &[u64], values: &[f32]) -> Result<()> {
        self.values.check_rows(index, keys, values.len())?;
        let width = self.description(index).width();
        if self.description(index).is_sparse {
            return match self.home(index)? {
                Some((servers, at)) => servers.store_rows(at, keys, width, values),
                None => self.values.set_rows(index, keys, values),
            };
        }
        for (key, row) in keys.iter().zip(values.chunks_exact(width)) {
            self.store_range(index, key * width as u64, row)?;
        }
        Ok(())
    }

    /// The values in this process.
    pub(crate) fn values(&self) -> &Arc<Values> {
        &self.values
    }

    /// From now on what these servers have is read and written there.
    pub(crate) fn attach(&self, servers: &Arc<Servers>) {
        let parameters = servers.parameters().map(|(index, _)| (index, Arc::clone(servers)));
        self.homes().extend(parameters);
    }

    /// These servers have been left.
    pub(crate) fn detach(&self, left: &Arc<Servers>) {
        self.homes().retain(|_, servers| !Arc::ptr_eq(servers, left));
    }

    /// From now on these are trained in this process.
    pub(crate) fn keep_here(&self, trained: &[DescriptionIndex]) {
        self.homes().retain(|index, _| !trained.contains(index));
    }

    /// The servers that have a parameter, and its index there. Waits for a step that is under way:
    /// what is read then has it, and what is written comes after it.
    fn home(&self, index: DescriptionIndex) -> Result<Home> {
        let Some(servers) = self.homes().get(&index).cloned() else { return Ok(None) };
        servers.settle()?;
        Ok(servers.index(index).map(|at| (servers, at)))
    }

    /// The servers that have to be asked for all elements of a dense parameter.
    fn average(&self, index: DescriptionIndex, view: View) -> Result<Home> {
        Ok(self.home(index)?.filter(|_| view == View::Averaged))
    }

    fn homes(&self) -> MutexGuard<'_, BTreeMap<DescriptionIndex, Arc<Servers>>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
