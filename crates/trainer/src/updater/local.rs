//! The optimizer in this process: one trainer, its values in [`Values`].
//!
//! Steps, samples and passes are counted as a shard of the servers counts them for a single sync
//! trainer, and the same code applies the gradients, so the results have the same bits.

use super::state::{Counts, Trained};
use super::{Updater, Wanted, read};
use crate::ready::{Computed, Ready};
use crate::recipe::Recipe;
use crate::values::{DescriptionIndex, Values};
use contract::Result;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::gradient::Gradient;
use table::optimizer::Now;

/// Trains some of the parameters in this process.
pub struct Local {
    values: Arc<Values>,
    recipe: Recipe,
    trained: BTreeSet<DescriptionIndex>,
    /// Tells its parameters from those that another updater has taken over.
    owner: u64,
    /// Rows of the last batch: memory for those of the next.
    rows: BTreeMap<DescriptionIndex, Arc<Vec<f32>>>,
    version: u64,
    samples: u64,
    pass: u64,
}

static OWNERS: AtomicU64 = AtomicU64::new(1);

impl Local {
    /// Takes the `trained` parameters over; what an optimizer kept beside them begins anew.
    ///
    /// # Errors
    /// If the optimizer cannot be, or their values are on servers.
    pub fn new(values: Arc<Values>, recipe: Recipe, trained: &[DescriptionIndex]) -> Result<Local> {
        recipe.optimizer.check()?;
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
        let trained = trained.iter().copied().collect();
        let (rows, version, samples, pass) = (BTreeMap::new(), 0, 0, 0);
        let local = Local { values, recipe, trained, owner, rows, version, samples, pass };
        for &index in &local.trained {
            local.values.train(index, owner, &local.recipe, local.now())?;
        }
        Ok(local)
    }

    /// The moment of a read or, with the samples of the batch counted, of an update.
    fn now(&self) -> Now {
        Now { step: self.version, rate: self.recipe.optimizer.rate(self.samples, self.pass) }
    }

    fn trained(&self) -> Trained<'_> {
        let indices = self.trained.iter().copied().collect();
        Trained { values: &self.values, indices, optimizer: &self.recipe.optimizer }
    }

    fn turn(&self) {
        let now = self.now();
        for &index in &self.trained {
            self.values.turn(index, self.owner, now);
        }
    }
}

impl Updater for Local {
    fn fetch(&mut self, batch: &Ready) -> Result<Vec<Arc<Vec<f32>>>> {
        let Local { values, trained, rows, .. } = self;
        let fetch = |wanted: &Wanted<'_>| match wanted.keys {
            Some(keys) if trained.contains(&wanted.parameter) => {
                let held = rows.entry(wanted.parameter).or_default();
                if Arc::get_mut(held).is_none() {
                    // Somebody still reads the last ones.
                    *held = Arc::default();
                }
                let rows = Arc::make_mut(held);
                rows.resize(keys.len() * values.description(wanted.parameter).width(), 0.0);
                values.fetch_rows(wanted.parameter, keys, rows)?;
                Ok(Arc::clone(held))
            }
            _ => read(values, wanted),
        };
        batch.wanted().iter().map(fetch).collect()
    }

    fn update(&mut self, step: &Arc<Computed>, _ahead: &[Arc<Ready>]) -> Result<()> {
        let gradients = step.gradients();
        self.samples += step.samples();
        self.turn();
        let is_trained =
            |one: &&Gradient<'_, DescriptionIndex>| self.trained.contains(one.parameter());
        let apply =
            |gradient: &Gradient<'_, DescriptionIndex>| self.values.apply(self.owner, gradient);
        // Each parameter by itself, so the bits do not depend on the threads. Outside of a pool
        // there is one.
        match rayon::current_thread_index() {
            None => gradients.iter().filter(is_trained).try_for_each(apply)?,
            Some(_) => gradients.par_iter().filter(is_trained).try_for_each(apply)?,
        }
        self.version += 1;
        self.turn();
        Ok(())
    }

    fn start_pass(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish_pass(&mut self) -> Result<()> {
        self.pass += 1;
        self.turn();
        Ok(())
    }

    fn keeps_state(&self) -> bool {
        true
    }

    fn write_state(&self, position: u64, writer: &mut dyn Write) -> Result<()> {
        let Local { version: updates, samples, pass: passes, .. } = *self;
        self.trained().write(Counts { position, updates, samples, passes }, writer)
    }

    fn read_state(&mut self, reader: &mut dyn Read, bytes: u64) -> Result<Counts> {
        let counts = self.trained().read(reader, bytes)?;
        (self.version, self.samples, self.pass) = (counts.updates, counts.samples, counts.passes);
        self.turn();
        Ok(counts)
    }

    fn goodbye(&mut self) -> Result<()> {
        Ok(())
    }

    fn rank(&self) -> (u32, u32) {
        (0, 1)
    }
}
