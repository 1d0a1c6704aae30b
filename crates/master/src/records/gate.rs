//! How many bytes of blocks may be in memory: the thread that reads ahead waits when those that are
//! on their way to the caller, or in its hands, are many.
//!
//! How large a block is is known only when it is read, and it may be as large as the limit on
//! records: so a small number of blocks is no bound, and one block more than the bound is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The bytes of a reader's blocks.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: u64,
    is_closed: bool,
}

/// No further block is read while those in memory have more bytes than this.
const BYTES_MAX: u64 = 128 << 20;

impl Gate {
    /// Waits until another block may be read; false: nobody wants one any more.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.bytes > BYTES_MAX && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_closed
    }

    /// A block was read.
    pub(super) fn add(&self, bytes: u64) {
        self.lock().bytes += bytes;
    }

    /// A block is gone.
    pub(super) fn release(&self, bytes: u64) {
        self.lock().bytes -= bytes;
        self.changed.notify_all();
    }

    /// The caller is gone.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
