//! The next batches, made ready on a thread of their own while another one is computed.
//!
//! Making ready is checking a batch and gathering its keys. It needs no values, so it changes no bit
//! of the training in any mode; but the updater can then bring the rows of later batches in the
//! round trip that takes the gradients of this one.

use crate::ready::{Preparation, Ready};
use contract::{Error, Kind, Result};
use engine::batch::Batch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A batch that was announced, to be run once.
pub struct Announced(Arc<Slot>);

/// What a step is computed from.
pub enum Fed {
    /// A batch that nobody has announced.
    Given(Batch),
    /// One that was announced before.
    Announced(Announced),
}

impl From<Batch> for Fed {
    fn from(batch: Batch) -> Fed {
        Fed::Given(batch)
    }
}

impl From<Announced> for Fed {
    fn from(announced: Announced) -> Fed {
        Fed::Announced(announced)
    }
}

/// The thread that makes batches ready. It ends when this is dropped.
pub(crate) struct Preparer {
    slots: Sender<Arc<Slot>>,
}

/// Where a batch is made ready.
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
    /// A forked child has no such thread.
    process: u32,
}

enum State {
    /// Not begun: whoever wants it first may do it.
    Fed(Batch),
    Busy,
    Ready(Arc<Ready>),
    Failed(Error),
    Taken,
}

impl Preparer {
    pub(crate) fn start(preparation: Preparation) -> Result<Preparer> {
        let (slots, announced) = channel::<Arc<Slot>>();
        std::thread::Builder::new()
            .name("trainer-ahead".to_owned())
            .spawn(move || announced.iter().for_each(|slot| slot.prepare(&preparation)))
            .map_err(|source| Error::io("cannot start a thread that prepares batches", source))?;
        Ok(Preparer { slots })
    }

    /// Begins to make a batch ready.
    pub(crate) fn announce(&self, batch: Batch) -> Announced {
        let state = Mutex::new(State::Fed(batch));
        let slot = Arc::new(Slot { state, changed: Condvar::new(), process: std::process::id() });
        // Without the thread, the first who wants the batch makes it ready.
        let _ = self.slots.send(Arc::clone(&slot));
        Announced(slot)
    }
}

impl Announced {
    /// Waits until the batch is ready; `None` if that failed, which [`Announced::take`] tells.
    pub(crate) fn look(&self, preparation: &Preparation) -> Option<Arc<Ready>> {
        match &*self.0.wait(preparation).ok()? {
            State::Ready(ready) => Some(Arc::clone(ready)),
            _ => None,
        }
    }

    /// Waits until the batch is ready and takes it.
    pub(crate) fn take(self, preparation: &Preparation) -> Result<Arc<Ready>> {
        let mut state = self.0.wait(preparation)?;
        match std::mem::replace(&mut *state, State::Taken) {
            State::Ready(ready) => Ok(ready),
            State::Failed(error) => Err(error),
            _ => Err(Error::new(Kind::Conflict, "this batch has been run already")),
        }
    }

    /// Another handle to the same batch.
    pub(crate) fn share(&self) -> Announced {
        Announced(Arc::clone(&self.0))
    }

    pub(crate) fn is_same(&self, other: &Announced) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Slot {
    /// Makes the batch ready, unless somebody has begun to.
    fn prepare(&self, preparation: &Preparation) {
        let fed = match &mut *self.lock() {
            state @ State::Fed(_) => std::mem::replace(state, State::Busy),
            _ => return,
        };
        let State::Fed(batch) = fed else { return };
        // A panic is a bug, but must not leave others waiting for ever.
        let ready = catch_unwind(AssertUnwindSafe(|| preparation.prepare(batch)));
        let panicked = || Error::new(Kind::Conflict, "preparing a batch has panicked");
        *self.lock() = match ready.unwrap_or_else(|_| Err(panicked())) {
            Ok(ready) => State::Ready(ready),
            Err(error) => State::Failed(error),
        };
        self.changed.notify_all();
    }

    fn wait(&self, preparation: &Preparation) -> Result<MutexGuard<'_, State>> {
        if self.process != std::process::id() {
            return Err(Error::new(
                Kind::Conflict,
                "this batch was announced before the process forked; announce it in the child",
            ));
        }
        self.prepare(preparation);
        let mut state = self.lock();
        while matches!(*state, State::Busy) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
