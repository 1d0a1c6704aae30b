//! Memory of bodies, and its reuse. A buffer keeps its initialised memory between uses, so that in
//! the long run receiving neither allocates nor zeroes: for a body of 64 MiB either would cost as
//! much as reading it.
//!
//! The pool is an ordinary list of at most a few dozen free buffers, the last returned at its end.
//! Taking looks from the end (that one is still in the cache) for one that is large enough but not
//! absurdly so: a small frame that is kept for long must not pin the memory of a large one.
//! Returning drops from the front whatever exceeds the limits, so that sizes which are out of
//! fashion leave by themselves.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// What a peer can make us allocate by a mere claim; beyond it memory at most doubles what came.
const FIRST_STEP_BYTES: usize = 1 << 20;
/// Buffers up to this size serve bodies of any smaller size.
const SMALL_BYTES: usize = 128 << 10;
/// Larger ones serve bodies of at least this part of their size.
const SLACK: usize = 4;
/// Buffers are made in multiples of this, and of an eighth of their size, so that one buffer serves
/// bodies that differ a little.
const GRAIN_BYTES: usize = 4 << 10;

const WORD_BYTES: usize = size_of::<u64>();

/// Free buffers, shared by whoever holds a clone.
#[derive(Clone)]
pub struct Pool(Arc<Shelf>);

struct Shelf {
    buffers_max: usize,
    bytes_max: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    buffers: VecDeque<Vec<u64>>,
    bytes: usize,
}

/// The bytes of a body, aligned for 8-byte values. Dropped, its memory returns to its pool.
pub struct Body {
    storage: Vec<u64>,
    bytes: usize,
    home: Pool,
}

impl Pool {
    /// An empty pool that keeps at most so many free buffers, of at most so many bytes together.
    pub fn new(buffers_max: usize, bytes_max: usize) -> Self {
        Pool(Arc::new(Shelf { buffers_max, bytes_max, free: Mutex::default() }))
    }

    /// A body of `bytes`, for a frame that is to be sent. What it holds is left from earlier use:
    /// overwrite all of it.
    pub fn take(&self, bytes: usize) -> Body {
        let mut body = self.take_empty(bytes);
        if size_of_val(body.storage.as_slice()) < bytes {
            // Asked for by ourselves, so no steps; and from the allocator, which often has zeroed
            // memory at hand.
            body.storage = vec![0; rounded(bytes) / WORD_BYTES];
        }
        body.bytes = bytes;
        body
    }

    /// Bytes of the free buffers.
    pub fn free_bytes(&self) -> usize {
        self.free().bytes
    }

    /// A body without content yet, perhaps with memory for the `bytes` that are announced.
    pub(crate) fn take_empty(&self, bytes: usize) -> Body {
        let roomy = bytes.saturating_mul(SLACK).max(SMALL_BYTES);
        let mut free = self.free();
        let fits = |buffer: &Vec<u64>| (bytes..=roomy).contains(&size_of_val(buffer.as_slice()));
        let found = match bytes {
            0 => None,
            _ => free.buffers.iter().rposition(fits),
        };
        let storage = found.and_then(|index| free.buffers.remove(index)).unwrap_or_default();
        free.bytes -= size_of_val(storage.as_slice());
        drop(free);
        Body { storage, bytes: 0, home: self.clone() }
    }

    fn give_back(&self, storage: Vec<u64>) {
        let bytes = size_of_val(storage.as_slice());
        if bytes == 0 || bytes > self.0.bytes_max || self.0.buffers_max == 0 {
            return;
        }
        let mut surplus = VecDeque::new();
        let mut free = self.free();
        free.bytes += bytes;
        free.buffers.push_back(storage);
        while free.bytes > self.0.bytes_max || free.buffers.len() > self.0.buffers_max {
            let Some(oldest) = free.buffers.pop_front() else { break };
            free.bytes -= size_of_val(oldest.as_slice());
            surplus.push_back(oldest);
        }
        // Memory goes back to the system after the lock.
        drop(free);
        drop(surplus);
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // Nothing in here panics halfway, so the list of a panicked thread is as good as any.
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body {
    /// Memory behind the content for more of the `total` bytes that are announced: never none
    /// unless all are there, and never more than the peer has earned by what it delivered.
    pub(crate) fn spare(&mut self, total: usize) -> &mut [u8] {
        assert!(self.bytes <= total);
        if self.bytes == size_of_val(self.storage.as_slice()) && self.bytes < total {
            let grown = self.bytes.saturating_mul(2).max(FIRST_STEP_BYTES).min(rounded(total));
            let words = grown / WORD_BYTES;
            self.storage.reserve_exact(words - self.storage.len());
            self.storage.resize(words, 0);
        }
        let end = total.min(size_of_val(self.storage.as_slice()));
        &mut self.storage.as_mut_bytes()[self.bytes..end]
    }

    /// Makes the first `bytes` of what [`Body::spare`] lent content.
    pub(crate) fn commit(&mut self, bytes: usize) {
        assert!(self.bytes + bytes <= size_of_val(self.storage.as_slice()));
        self.bytes += bytes;
    }
}

/// The size of a buffer for `bytes`.
fn rounded(bytes: usize) -> usize {
    let eighth = bytes.checked_next_power_of_two().map_or(0, |power| power / 8);
    bytes.next_multiple_of(eighth.max(GRAIN_BYTES))
}

impl Drop for Body {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.storage));
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage.as_bytes()[..self.bytes]
    }
}

impl DerefMut for Body {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage.as_mut_bytes()[..self.bytes]
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.bytes)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} bytes free)", self.free_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_used_again() {
        let pool = Pool::new(4, 1 << 20);
        let body = pool.take(1000);
        let place = body.as_ptr();
        drop(body);
        assert_eq!(pool.free_bytes(), 4096);
        let again = pool.take(1100);
        assert_eq!((again.as_ptr(), again.len(), pool.free_bytes()), (place, 1100, 0));
        assert_eq!(place as usize % 8, 0);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_limits_and_drops_the_oldest() {
        let pool = Pool::new(2, 1 << 20);
        let bodies: Vec<Body> =
            [1, 5000, 10_000].into_iter().map(|bytes| pool.take(bytes)).collect();
        bodies.into_iter().for_each(drop);
        assert_eq!(pool.free_bytes(), 8192 + 12_288);
        drop(pool.take(1 << 20));
        assert_eq!(pool.free_bytes(), 1 << 20);
        drop(pool.take((1 << 20) + 8));
        assert_eq!(pool.free_bytes(), 1 << 20);
    }

    #[test]
    fn a_small_body_does_not_pin_a_large_buffer() {
        let pool = Pool::new(2, 8 << 20);
        drop(pool.take(4 << 20));
        let small = pool.take(100);
        assert_eq!((small.len(), pool.free_bytes()), (100, 4 << 20));
        drop(pool.take(1 << 20));
        assert_eq!(pool.free_bytes(), 4 << 20, "a quarter is near enough to share the buffer");
    }

    #[test]
    fn memory_grows_with_what_arrives_and_not_with_what_is_announced() {
        let pool = Pool::new(2, 1 << 30);
        let total = (200 << 20) + 3;
        let mut body = pool.take_empty(total);
        let mut steps = Vec::new();
        while body.len() < total {
            let room = body.spare(total).len();
            steps.push(room);
            body.commit(room);
        }
        assert_eq!(steps[..4], [1 << 20, 1 << 20, 2 << 20, 4 << 20]);
        assert_eq!(steps.iter().sum::<usize>(), total);
        assert_eq!(size_of_val(body.storage.as_slice()), 224 << 20);
        assert!(body.spare(total).is_empty());
    }
}
