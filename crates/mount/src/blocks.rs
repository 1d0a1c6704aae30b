//! Contents that are read: fetched in blocks, some of them ahead of whoever reads on, and kept up
//! to a limit.
//!
//! A block belongs to one content, named by its etag, so what is kept never goes with what replaced
//! it. A block that somebody fetches is waited for, not fetched twice. Fetching ends within
//! the client's patience, and so does waiting.

use crate::content::Content;
use crate::remote::Remote;
use contract::Result;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const BLOCK_BYTES: u64 = 1 << 20;
/// Blocks that are fetched ahead of a reader who reads on.
const AHEAD_MAX: u64 = 8;
/// Threads that fetch ahead, and what waits for them.
const FETCHERS: usize = 4;
const WAITING_MAX: usize = 64;

/// What is kept of all contents.
#[derive(Clone)]
pub(crate) struct Blocks {
    shared: Arc<Shared>,
    ahead: SyncSender<(Arc<Content>, u64)>,
}

struct Shared {
    remote: Arc<Remote>,
    state: Mutex<State>,
    arrived: Condvar,
    blocks_max: usize,
}

#[derive(Default)]
struct State {
    blocks: HashMap<Key, Slot>,
    /// Counts reads, to know which block was not used for longest.
    clock: u64,
}

/// Etag and length of a content, and the block in it.
type Key = (String, u64, u64);

enum Slot {
    Coming,
    Here { bytes: Arc<Vec<u8>>, used: u64 },
}

impl Blocks {
    /// Keeps at most so many bytes, but at least a few blocks.
    pub(crate) fn new(remote: Arc<Remote>, bytes_max: u64) -> Blocks {
        let blocks_max = usize::try_from(bytes_max / BLOCK_BYTES).unwrap_or(usize::MAX).max(16);
        let shared =
            Shared { remote, state: Mutex::default(), arrived: Condvar::new(), blocks_max };
        let shared = Arc::new(shared);
        let (ahead, waiting) = sync_channel::<(Arc<Content>, u64)>(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..FETCHERS {
            let (shared, waiting) = (Arc::clone(&shared), Arc::clone(&waiting));
            std::thread::spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok((content, index)) = next() {
                    // Whoever needs it will ask again, and be told why it cannot be had.
                    let _ = shared.block(&content, index);
                }
            });
        }
        Blocks { shared, ahead }
    }

    /// A part of a content; less at its end.
    pub(crate) fn read(&self, content: &Arc<Content>, offset: u64, length: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(length).min(content.entry.bytes);
        if content.is_kept() {
            return content.read(&self.shared.remote, offset, end.saturating_sub(offset));
        }
        let mut bytes =
            Vec::with_capacity(usize::try_from(end.saturating_sub(offset)).unwrap_or(0));
        let mut at = offset;
        while at < end {
            let index = at / BLOCK_BYTES;
            self.read_on(content, index);
            let block = self.shared.block(content, index)?;
            let from = usize::try_from(at % BLOCK_BYTES).unwrap_or(0).min(block.len());
            let to = usize::try_from(end - index * BLOCK_BYTES).unwrap_or(usize::MAX);
            let part = &block[from..to.min(block.len())];
            if part.is_empty() {
                break;
            }
            bytes.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    /// Fetches ahead for whoever reads one block after another, and more the longer they do.
    fn read_on(&self, content: &Arc<Content>, index: u64) {
        let (last, before) = content.step(index);
        if index == last {
            return;
        }
        let is_next = index == last.wrapping_add(1);
        let depth = if is_next { (before * 2).clamp(2, AHEAD_MAX) } else { 0 };
        content.ahead.store(depth, Ordering::Relaxed);
        let count = content.entry.bytes.div_ceil(BLOCK_BYTES);
        for next in (index + 1..count).take(usize::try_from(depth).unwrap_or(0)) {
            if self.shared.has(content, next) {
                continue;
            }
            match self.ahead.try_send((Arc::clone(content), next)) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

impl Shared {
    fn has(&self, content: &Content, index: u64) -> bool {
        self.lock().blocks.contains_key(&key(content, index))
    }

    /// A block, from here or from the cloud.
    fn block(&self, content: &Content, index: u64) -> Result<Arc<Vec<u8>>> {
        let key = key(content, index);
        let mut state = self.lock();
        loop {
            state.clock += 1;
            let now = state.clock;
            match state.blocks.get_mut(&key) {
                Some(Slot::Here { bytes, used }) => {
                    *used = now;
                    return Ok(Arc::clone(bytes));
                }
                Some(Slot::Coming) => {
                    state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        state.blocks.insert(key.clone(), Slot::Coming);
        drop(state);
        let offset = index * BLOCK_BYTES;
        let length = BLOCK_BYTES.min(content.entry.bytes.saturating_sub(offset));
        let fetched = content.read(&self.remote, offset, length);
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        let fetched = fetched.map(Arc::new);
        match &fetched {
            Ok(bytes) => {
                let bytes = Arc::clone(bytes);
                state.blocks.insert(key, Slot::Here { bytes, used });
                state.shrink(self.blocks_max);
            }
            Err(_) => {
                state.blocks.remove(&key);
            }
        }
        drop(state);
        self.arrived.notify_all();
        fetched
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops the blocks that were not used for longest.
    fn shrink(&mut self, blocks_max: usize) {
        while self.blocks.len() > blocks_max {
            let here = self.blocks.iter().filter_map(|(key, slot)| match slot {
                Slot::Here { used, .. } => Some((*used, key)),
                Slot::Coming => None,
            });
            let Some((_, oldest)) = here.min_by_key(|(used, _)| *used) else { return };
            let oldest = oldest.clone();
            self.blocks.remove(&oldest);
        }
    }
}

fn key(content: &Content, index: u64) -> Key {
    (content.entry.etag.clone(), content.entry.bytes, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_coming_stays() {
        let mut state = State::default();
        for index in 0..6 {
            let slot = match index {
                0 => Slot::Coming,
                _ => Slot::Here { bytes: Arc::default(), used: 10 - index },
            };
            state.blocks.insert(("e".into(), 1, index), slot);
        }
        state.shrink(3);
        let mut left: Vec<u64> = state.blocks.keys().map(|(_, _, index)| *index).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2]);
    }
}
