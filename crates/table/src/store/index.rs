//! From the hash of a key to the number of its row: the compact part of a sparse table.
//!
//! A slot is one word: 32 bits of the hash (the tag) above the row's number plus one; 0 is an empty
//! slot. The home of a tag in an array of c slots is `tag * c >> 32`, so homes rise with tags, and
//! every run of filled slots is kept sorted by tag. Three things follow. A search ends at the first
//! slot that is empty or has a greater tag, so that a missing key costs no more than a present one
//! even when the array is nearly full. The capacity can be any number, so that growing by a quarter
//! at 85 % load leaves at least 68 %: at most 11.8 bytes per row, 10.5 on average. And growing is
//! one sequential pass that needs neither the keys nor the rows.
//!
//! Growing the whole index at once would stall a shard for as long as it takes to write a hundred
//! megabytes. Hence 256 parts by eight other bits of the hash, which grow one by one, and, because
//! their first capacities differ, not all in the same second.
//!
//! The index does not know keys: equal tags are frequent among billions of rows, so a search yields
//! candidates and the caller compares keys. Hostile keys with equal hashes make searches slow, not
//! wrong; they can only come from authenticated peers of the job, who can do worse.

use super::prefetch::prefetch;
use crate::placement::mix64;

/// Says that there is no such row.
pub(super) const NONE: u32 = u32::MAX;

const PARTS: usize = 256;
const SLOT_BYTES: usize = size_of::<u64>();
/// Slots behind the last home, for runs that reach over the end. More are added when needed.
const SPILL: usize = 16;
/// Slots that a search looks at before it goes from one to the next.
const TOGETHER: usize = 4;
/// Slots of a part that has its first row.
const FIRST_CAPACITY: usize = 16;
/// From here on capacities grow by a quarter.
const SMALL_CAPACITY: usize = 64;

/// What the index knows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash(u64);

impl Hash {
    /// The keys of a shard have been chosen by `mix64` of the key (see [`crate::placement`]), so
    /// another function is needed here: the addition makes it one.
    #[inline(always)]
    pub(super) fn of(key: u64) -> Hash {
        Hash(mix64(key.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    #[inline(always)]
    fn part(self) -> usize {
        (self.0 >> 56) as usize
    }

    #[inline(always)]
    fn tag(self) -> u32 {
        (self.0 >> 24) as u32
    }
}

/// Row numbers by hash.
#[derive(Debug)]
pub(super) struct Index {
    parts: Vec<Part>,
    bytes: usize,
}

/// A sorted array with gaps. Its last slot, if it has any, is empty.
#[derive(Debug, Default)]
struct Part {
    slots: Vec<u64>,
    /// Number of homes.
    capacity: usize,
    len: usize,
}

impl Index {
    pub(super) fn new() -> Index {
        let parts: Vec<Part> = (0..PARTS).map(|_| Part::default()).collect();
        let bytes = parts.len() * size_of::<Part>();
        Index { parts, bytes }
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks for the memory that a search will read first.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: Hash) {
        let part = &self.parts[hash.part()];
        let home = part.home(hash.tag());
        if let Some(slots) = part.slots.get(home..home + TOGETHER) {
            prefetch(slots);
        }
    }

    /// The first row whose tag is that of `hash`: most probably the right one. Else [`NONE`].
    #[inline(always)]
    pub(super) fn candidate(&self, hash: Hash) -> u32 {
        let part = &self.parts[hash.part()];
        let tag = hash.tag();
        let slots = &part.slots[part.home(tag)..];
        // What is before a tag lies before what is not, so it can be counted. That takes a few
        // instructions for all slots together, where the end of a search cannot be foretold.
        let before = slots.first_chunk::<TOGETHER>().map_or(TOGETHER, |slots| {
            slots.iter().map(|slot| usize::from(is_before(*slot, tag))).sum()
        });
        let behind = match before {
            TOGETHER => slots.iter().find(|slot| !is_before(**slot, tag)),
            before => slots.get(before),
        };
        match behind {
            Some(&slot) if slot != 0 && tag_of(slot) == tag => row_of(slot),
            _ => NONE,
        }
    }

    /// The row with the tag of `hash` for which `is_it` says yes.
    pub(super) fn find(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let part = &self.parts[hash.part()];
        let tag = hash.tag();
        part.slots[part.home(tag)..]
            .iter()
            .skip_while(|&&slot| is_before(slot, tag))
            .take_while(|&&slot| slot != 0 && tag_of(slot) == tag)
            .map(|&slot| row_of(slot))
            .find(|&row| is_it(row))
    }

    /// Bytes that the next [`Index::insert`] of `hash` will add to those held.
    pub(super) fn growth_bytes(&self, hash: Hash) -> usize {
        let part = &self.parts[hash.part()];
        if !part.is_full() {
            return 0;
        }
        let slots = part.next_capacity(hash.part()) + SPILL;
        slots.saturating_sub(part.slots.len()) * SLOT_BYTES
    }

    /// Adds a row that is not there yet.
    pub(super) fn insert(&mut self, hash: Hash, row: u32) {
        let part = &mut self.parts[hash.part()];
        let slots_before = part.slots.capacity();
        if part.is_full() {
            part.grow(part.next_capacity(hash.part()));
        }
        part.insert(hash.tag(), row);
        self.bytes = self.bytes + part.slots.capacity() * SLOT_BYTES - slots_before * SLOT_BYTES;
    }
}

impl Part {
    /// Where a search for a tag begins.
    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.capacity as u64) >> 32) as usize
    }

    fn is_full(&self) -> bool {
        self.len * 20 >= self.capacity * 17
    }

    fn next_capacity(&self, part: usize) -> usize {
        match self.capacity {
            0 => FIRST_CAPACITY,
            // 64 to 79: a quarter apart, so that the parts stay out of step for ever.
            FIRST_CAPACITY => SMALL_CAPACITY + part * SMALL_CAPACITY / 4 / PARTS,
            capacity => capacity + capacity / 4,
        }
    }

    fn grow(&mut self, capacity: usize) {
        let mut slots = Vec::with_capacity(capacity + SPILL);
        self.capacity = capacity;
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            // Homes rise with tags, so the next free slot from home on is never behind us.
            let home = self.home(tag_of(*slot)).max(slots.len());
            slots.resize(home, 0);
            slots.push(*slot);
        }
        let slots_min = (capacity + SPILL).max(slots.len() + 1);
        slots.resize(slots_min, 0);
        self.slots = slots;
    }

    fn insert(&mut self, tag: u32, row: u32) {
        let place = self.seek(self.home(tag), |slot| slot == 0 || tag_of(slot) > tag);
        let empty = self.seek(place, |slot| slot == 0);
        if empty + 1 >= self.slots.len() {
            self.slots.reserve_exact(SPILL);
            self.slots.resize(self.slots.len() + SPILL, 0);
        }
        self.slots.copy_within(place..empty, place + 1);
        self.slots[place] = slot_of(tag, row);
        self.len += 1;
    }

    /// The first slot from `from` on for which `is_it` says yes.
    fn seek(&self, from: usize, is_it: impl Fn(u64) -> bool) -> usize {
        let found = self.slots[from..].iter().position(|&slot| is_it(slot));
        found.map_or(self.slots.len(), |offset| from + offset)
    }
}

#[inline(always)]
fn slot_of(tag: u32, row: u32) -> u64 {
    (u64::from(tag) << 32) | (u64::from(row) + 1)
}

#[inline(always)]
fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

#[inline(always)]
fn row_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

/// Whether a slot is filled with a smaller tag. An empty slot, less one, is the greatest word, and
/// a filled one has at least 1 in its low half: one comparison decides both.
#[inline(always)]
fn is_before(slot: u64, tag: u32) -> bool {
    slot.wrapping_sub(1) < u64::from(tag) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{ShardPlace, bucket_of};
    use proptest::collection::vec;
    use proptest::prelude::*;

    impl Hash {
        /// The key that has this hash: the steps of [`Hash::of`] undone, last one first.
        pub(in super::super) fn key_with(hash: u64) -> u64 {
            let word = hash ^ (hash >> 31) ^ (hash >> 62);
            let word = word.wrapping_mul(0x3196_42b2_d24d_8ec3);
            let word = word ^ (word >> 27) ^ (word >> 54);
            let word = word.wrapping_mul(0x96de_1b17_3f11_9089);
            let word = word ^ (word >> 30) ^ (word >> 60);
            word.wrapping_sub(0x9e37_79b9_7f4a_7c15)
        }
    }

    fn check_order(index: &Index) {
        for part in &index.parts {
            let mut before = 0;
            for (place, &slot) in part.slots.iter().enumerate() {
                if slot == 0 {
                    before = 0;
                    continue;
                }
                assert!(tag_of(slot) >= before, "a run is sorted");
                assert!(part.home(tag_of(slot)) <= place, "a slot is not in front of its home");
                before = tag_of(slot);
            }
            assert!(part.slots.last().is_none_or(|slot| *slot == 0), "the last slot is empty");
        }
        let held: usize = index.parts.iter().map(|part| part.slots.capacity() * SLOT_BYTES).sum();
        assert_eq!(index.bytes(), held + PARTS * size_of::<Part>());
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found_and_nothing_else(
            // Few parts and few tags, at both ends, so that runs meet and reach over the end.
            picks in vec((0..2u64, prop_oneof![0..40u64, (u64::from(u32::MAX) - 40)..1 << 32]), 1..400),
        ) {
            let hashes: Vec<Hash> =
                picks.iter().map(|(part, tag)| Hash((part * 255) << 56 | tag << 24)).collect();
            let mut index = Index::new();
            for (row, &hash) in hashes.iter().enumerate() {
                prop_assert_eq!(index.find(hash, |other| other == row as u32), None);
                let growth = index.growth_bytes(hash);
                let before = index.bytes();
                index.insert(hash, row as u32);
                prop_assert!(growth == 0 || index.bytes() >= before + growth);
            }
            check_order(&index);
            for (row, &hash) in hashes.iter().enumerate() {
                prop_assert_eq!(index.find(hash, |other| other == row as u32), Some(row as u32));
                prop_assert_eq!(hashes[index.candidate(hash) as usize], hash);
            }
        }
    }

    #[test]
    fn a_large_index_stays_sorted_and_within_twelve_bytes_per_row() {
        let mut index = Index::new();
        for row in 0..300_000 {
            index.insert(Hash::of(u64::from(row)), row);
        }
        check_order(&index);
        assert!(index.bytes() < 12 * 300_000, "{} bytes", index.bytes());
        for row in 0..300_000 {
            assert_eq!(index.find(Hash::of(u64::from(row)), |other| other == row), Some(row));
        }
    }

    #[test]
    fn a_hash_can_be_undone() {
        for hash in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(Hash::of(Hash::key_with(hash)), Hash(hash));
        }
    }

    #[test]
    fn the_keys_of_one_shard_spread_over_all_parts_and_tags() {
        let place = ShardPlace::new(3, 64, 0, 1).unwrap();
        let (mut parts, mut halves, mut keys) = ([0_u32; PARTS], [0_u32; 2], 0);
        for key in (0..4_000_000).filter(|&key| place.owns(bucket_of(0, key))) {
            let hash = Hash::of(key);
            parts[hash.part()] += 1;
            halves[(hash.tag() >> 31) as usize] += 1;
            keys += 1;
        }
        let mean = keys / PARTS as u32;
        assert!(parts.iter().all(|&part| part > mean / 2 && part < mean * 2), "{parts:?}");
        assert!(halves[0].abs_diff(halves[1]) < keys / 50, "{halves:?}");
    }
}
