//! Who changes the values: an optimizer in this process, or the parameter servers.

mod local;
mod remote;
mod state;

pub use local::Local;
pub use remote::{Remote, RemoteConfig};
pub use state::Counts;

use crate::parameters::{Parameters, View};
use contract::{Error, Kind, Result};
use pserver::client::Restored;
use std::io::{Read, Write};
use std::sync::Arc;

/// Values of one parameter that a batch needs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Its place in [`Parameters::descriptions`].
    pub place: usize,
    /// The rows, each once; `None` for all elements.
    pub keys: Option<&'a [u64]>,
}

/// The gradient of one parameter, summed over the samples of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// Its place in [`Parameters::descriptions`].
    pub place: usize,
    /// The rows, each once; `None` for all elements.
    pub keys: Option<&'a [u64]>,
    /// As many as the values.
    pub values: &'a [f32],
}

/// Brings the values for a batch and takes its gradients.
pub trait Updater: Send + Sync {
    /// The values of what is wanted, in that order.
    fn fetch(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Arc<Vec<f32>>>>;

    /// Applies the gradients of a batch of `samples` samples.
    fn update(&mut self, gradients: &[Given<'_>], samples: u64) -> Result<()>;

    /// A pass over the data begins.
    fn start_pass(&mut self) -> Result<()>;

    /// A pass is over; with several trainers, for all of them.
    fn finish_pass(&mut self) -> Result<()>;

    /// There is no data for now, but there may be some in this pass: others are not to wait.
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    /// The first checkpoint that will have all that was applied so far; `None` without servers.
    fn next_cut(&self) -> Option<u64> {
        None
    }

    /// The checkpoints that servers began with.
    fn restored(&self) -> Vec<Restored> {
        Vec::new()
    }

    /// Whether what the optimizer keeps is in this process, so that it can be saved from here.
    fn keeps_state(&self) -> bool {
        false
    }

    /// Writes how far the training is and what the optimizer keeps, after `steps` batches.
    fn write_state(&self, _steps: u64, _writer: &mut dyn Write) -> Result<()> {
        Err(elsewhere())
    }

    /// Takes over what [`Updater::write_state`] wrote in `bytes` bytes.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if it is of another optimizer or network: nothing was changed then.
    fn read_state(&mut self, _reader: &mut dyn Read, _bytes: u64) -> Result<Counts> {
        Err(elsewhere())
    }

    /// Training is over for good; no call may follow.
    fn goodbye(&mut self) -> Result<()>;

    /// This trainer and the number of trainers.
    fn rank(&self) -> (u32, u32);
}

fn elsewhere() -> Error {
    Error::new(Kind::Unsupported, "the servers keep the state of this training; they save it")
}

/// The values of a parameter that nobody trains, or that are only looked at.
pub(crate) fn read(
    parameters: &Parameters,
    wanted: &Wanted<'_>,
    view: View,
) -> Result<Arc<Vec<f32>>> {
    let place = wanted.place;
    let description = &parameters.descriptions()[place];
    match wanted.keys {
        Some(keys) => {
            let mut rows = vec![0.0; keys.len() * description.width()];
            parameters.check_rows(place, keys, rows.len())?;
            parameters.read_rows(place, keys, &mut rows, view)?;
            Ok(Arc::new(rows))
        }
        None if description.is_sparse => parameters.get(&description.name, view).map(Arc::new),
        None => parameters.dense(place, view),
    }
}
