//! The optimizer in this process: one trainer, its values in [`Parameters`].
//!
//! Steps, samples and passes are counted as a shard of the servers counts them for a single sync
//! trainer, and the same code applies the gradients, so the results have the same bits.

use super::{Given, Updater, Wanted, read};
use crate::parameters::{Parameters, View};
use crate::recipe::Recipe;
use contract::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::optimizer::Now;

/// Trains some of the parameters in this process.
pub struct Local {
    parameters: Arc<Parameters>,
    recipe: Recipe,
    /// By place in [`Parameters::descriptions`].
    is_trained: Vec<bool>,
    /// Tells its parameters from those that another updater has taken over.
    owner: u64,
    version: u64,
    samples: u64,
    pass: u64,
}

static OWNERS: AtomicU64 = AtomicU64::new(1);

impl Local {
    /// Takes the parameters at `trained` over; what an optimizer kept beside them begins anew.
    ///
    /// # Errors
    /// If the optimizer cannot be, or their values are on servers.
    pub fn new(parameters: Arc<Parameters>, recipe: Recipe, trained: &[usize]) -> Result<Local> {
        recipe.optimizer.check()?;
        let mut is_trained = vec![false; parameters.descriptions().len()];
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
        let local = Local {
            parameters,
            recipe,
            is_trained: Vec::new(),
            owner,
            version: 0,
            samples: 0,
            pass: 0,
        };
        for &place in trained {
            local.parameters.train(place, owner, &local.recipe, local.now())?;
            is_trained[place] = true;
        }
        Ok(Local { is_trained, ..local })
    }

    /// The moment of a read or, with the samples of the batch counted, of an update.
    fn now(&self) -> Now {
        Now { step: self.version, rate: self.recipe.optimizer.rate(self.samples, self.pass) }
    }

    fn turn(&self) {
        let now = self.now();
        for (place, _) in self.is_trained.iter().enumerate().filter(|(_, is_trained)| **is_trained)
        {
            self.parameters.turn(place, self.owner, now);
        }
    }
}

impl Updater for Local {
    fn fetch(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Arc<Vec<f32>>>> {
        let fetch = |wanted: &Wanted<'_>| match wanted.keys {
            Some(keys) if self.is_trained[wanted.place] => {
                let width = self.parameters.descriptions()[wanted.place].width();
                let mut rows = vec![0.0; keys.len() * width];
                self.parameters.fetch_rows(wanted.place, keys, &mut rows)?;
                Ok(Arc::new(rows))
            }
            _ => read(&self.parameters, wanted, View::Present),
        };
        wanted.iter().map(fetch).collect()
    }

    fn update(&mut self, gradients: &[Given<'_>], samples: u64) -> Result<()> {
        self.samples += samples;
        self.turn();
        for given in gradients.iter().filter(|given| self.is_trained[given.place]) {
            self.parameters.apply(given.place, self.owner, given.keys, given.values)?;
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

    fn goodbye(&mut self) -> Result<()> {
        Ok(())
    }

    fn rank(&self) -> (u32, u32) {
        (0, 1)
    }
}
