//! Who changes the values: an optimizer in this process, or the parameter servers.

mod local;
mod remote;
mod state;

pub use local::Local;
pub use remote::{Remote, RemoteConfig};
pub use state::Counts;

use crate::ready::{Computed, Ready};
use crate::values::{DescriptionIndex, Values, View};
use contract::{Error, Kind, Result};
use pserver::client::Restored;
use std::io::{Read, Write};
use std::sync::Arc;

/// Values of one parameter that a batch needs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The parameter.
    pub parameter: DescriptionIndex,
    /// The rows, each once; `None` for all elements.
    pub keys: Option<&'a [u64]>,
}

/// Rows of what is wanted by keys, in that order; `None` for the rest.
pub type Rows = Vec<Option<Vec<f32>>>;

/// Where a trainer goes on that was started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resume {
    /// Whether training had begun before this process came.
    pub is_resumed: bool,
    /// Passes that are finished.
    pub pass: u64,
    /// Batches of the pass after them that are trained.
    pub batches: u64,
    /// Whether an earlier process has finished all training: nothing is left to do but to leave.
    pub has_left: bool,
    /// Whether trainers come and go, so that none has a fixed part of the data.
    pub is_elastic: bool,
}

/// Brings the values for a batch and takes its gradients.
pub trait Updater: Send + Sync {
    /// The values that a batch wants, in that order.
    fn fetch(&mut self, batch: &Ready) -> Result<Vec<Arc<Vec<f32>>>>;

    /// Applies the gradients of a batch, or begins to: what is under way when this returns ends, or
    /// fails, in a later call. Of the batches that come next, as far as they are known, it may bring
    /// the rows.
    fn update(&mut self, step: &Arc<Computed>, ahead: &[Arc<Ready>]) -> Result<()>;

    /// Of how many batches ahead [`Updater::update`] has a use for knowing them.
    fn lookahead(&self) -> usize {
        0
    }

    /// Waits until no update is under way.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Updates that are under way: nobody has confirmed yet that they were applied.
    fn under_way(&self) -> u64 {
        0
    }

    /// A pass over the data begins.
    fn start_pass(&mut self) -> Result<()>;

    /// A pass is over; with several trainers, for all of them.
    fn finish_pass(&mut self) -> Result<()>;

    /// There is no data for now, but there may be some in this pass: others are not to wait.
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    /// The first checkpoint that will have all that is confirmed so far; `None` without servers.
    fn next_cut(&self) -> Option<u64> {
        None
    }

    /// The epoch of the servers and the checkpoint it began with; `None` without servers.
    fn restored(&self) -> Option<Restored> {
        None
    }

    /// Where this trainer goes on, if an earlier process of its rank has trained before.
    fn resume(&self) -> Resume {
        Resume::default()
    }

    /// Whether what the optimizer keeps is in this process, so that it can be saved from here.
    fn keeps_state(&self) -> bool {
        false
    }

    /// Writes how far the training is and what the optimizer keeps; `position` is the trainer's own.
    fn write_state(&self, _position: u64, _writer: &mut dyn Write) -> Result<()> {
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

/// The values, in this process, of a parameter that the updater does not train. Only a sparse one
/// is wanted by keys: `Matching::for_training` has checked that.
fn read(values: &Values, wanted: &Wanted<'_>) -> Result<Arc<Vec<f32>>> {
    let index = wanted.parameter;
    let Some(keys) = wanted.keys else { return values.dense(index, View::Present) };
    let mut rows = vec![0.0; keys.len() * values.description(index).width()];
    values.check_rows(index, keys, rows.len())?;
    values.read_rows(index, keys, &mut rows, View::Present)?;
    Ok(Arc::new(rows))
}
