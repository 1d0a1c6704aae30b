//! Looking ahead in the keys of a request, so that memory is there when it is wanted.
//!
//! A request brings thousands of random keys and the table is far larger than any cache, so a
//! lookup is two waits for memory: one for the slot of the index, one for the row. They would be
//! most of the time there is. Hence a pipeline: while one key is visited, the row of a key some
//! places ahead and the slot of one further ahead are already being fetched.
//!
//! Looking ahead happens before earlier keys of the same request have created their rows. What it
//! finds is therefore only a guess, to be checked by key when its turn comes.

use super::index::{Hash, Index, NONE};
use super::rows::Rows;

/// How many keys lie between the fetch of a slot, the fetch of a row, and its visit. Two or three
/// dozen misses can be under way at once; a row is two or three of them.
pub(super) const DISTANCE: usize = 8;
const RING: usize = 2 * DISTANCE;

/// The keys of a request on their way through the pipeline.
pub(super) struct Lookahead<'a> {
    keys: &'a [u64],
    /// Words of a row that a visit will touch.
    words: usize,
    ring: [Guess; RING],
    position: usize,
}

/// What is known of a key before its turn.
#[derive(Clone, Copy)]
pub(super) struct Guess {
    pub(super) hash: Hash,
    pub(super) row: u32,
}

impl Lookahead<'_> {
    pub(super) fn new(keys: &[u64], words: usize) -> Lookahead<'_> {
        Lookahead { keys, words, ring: [Guess { hash: Hash::of(0), row: NONE }; RING], position: 0 }
    }

    /// The guess for the next key.
    #[inline(always)]
    pub(super) fn next(&mut self, index: &Index, rows: &Rows) -> Guess {
        if self.position == 0 {
            for position in 0..RING {
                self.fetch_slot(position, index);
            }
            for position in 0..DISTANCE {
                self.fetch_row(position, index, rows);
            }
        }
        self.fetch_row(self.position + DISTANCE, index, rows);
        let guess = self.ring[self.position % RING];
        self.fetch_slot(self.position + RING, index);
        self.position += 1;
        guess
    }

    #[inline(always)]
    fn fetch_slot(&mut self, position: usize, index: &Index) {
        if let Some(&key) = self.keys.get(position) {
            let hash = Hash::of(key);
            self.ring[position % RING] = Guess { hash, row: NONE };
            index.prefetch(hash);
        }
    }

    #[inline(always)]
    fn fetch_row(&mut self, position: usize, index: &Index, rows: &Rows) {
        if position < self.keys.len() {
            let guess = &mut self.ring[position % RING];
            guess.row = index.candidate(guess.hash);
            if guess.row != NONE {
                rows.prefetch(guess.row, self.words);
            }
        }
    }
}
