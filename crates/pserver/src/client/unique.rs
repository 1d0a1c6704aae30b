//! Keys that occur twice. A push must not contain any: a server would update such a row twice.

use contract::{Error, Result};

/// Finds out whether keys repeat, in a table that is kept for the next time.
#[derive(Debug, Default)]
pub(super) struct Uniqueness {
    /// Positions of keys plus 1, open addressing; 0 is free.
    slots: Vec<u32>,
}

impl Uniqueness {
    /// Whether no key occurs twice. At most `u32::MAX` keys.
    pub(super) fn holds(&mut self, keys: &[u64]) -> bool {
        self.first_of_each(keys, |_, _| false)
    }

    /// Calls `repeated(position, first position)` for every key that occurred before, and stops if
    /// it returns false.
    fn first_of_each(
        &mut self,
        keys: &[u64],
        mut repeated: impl FnMut(usize, usize) -> bool,
    ) -> bool {
        // At most half full, so that a search ends soon.
        let slots = (keys.len() * 2).next_power_of_two().max(2);
        let shift = 64 - slots.trailing_zeros();
        self.slots.clear();
        self.slots.resize(slots, 0);
        for (position, key) in keys.iter().enumerate() {
            let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize;
            loop {
                match self.slots[slot] {
                    0 => {
                        self.slots[slot] = position as u32 + 1;
                        break;
                    }
                    known if keys[known as usize - 1] == *key => {
                        if !repeated(position, known as usize - 1) {
                            return false;
                        }
                        break;
                    }
                    _ => slot = (slot + 1) & (slots - 1),
                }
            }
        }
        true
    }
}

/// Merges rows of the same key by summing them: unique keys in the order of their first occurrence,
/// and their sums, in the order of occurrence, so that equal calls give equal bits.
///
/// # Errors
/// If there are not `width` values for every key.
pub fn deduplicate(keys: &[u64], values: &[f32], width: usize) -> Result<(Vec<u64>, Vec<f32>)> {
    if width == 0 || Some(values.len()) != keys.len().checked_mul(width) {
        return Err(Error::invalid("values do not fit the keys")
            .with("keys", keys.len())
            .with("width", width)
            .with("values", values.len()));
    }
    if u32::try_from(keys.len()).is_err() {
        return Err(Error::new(contract::Kind::LimitExceeded, "too many keys in one call")
            .with("keys", keys.len()));
    }
    let mut owners: Vec<usize> = (0..keys.len()).collect();
    Uniqueness::default().first_of_each(keys, |position, first| {
        owners[position] = first;
        true
    });
    let mut merged = (Vec::with_capacity(keys.len()), Vec::with_capacity(values.len()));
    // Where the row of a first occurrence went.
    let mut places = vec![0; keys.len()];
    for (position, owner) in owners.into_iter().enumerate() {
        let row = &values[position * width..][..width];
        if owner == position {
            places[position] = merged.0.len();
            merged.0.push(keys[position]);
            merged.1.extend_from_slice(row);
        } else {
            let sum = &mut merged.1[places[owner] * width..][..width];
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_key_is_there_once_with_the_sum_of_its_rows(
            keys in proptest::collection::vec(0..40u64, 0..100), width in 1..4usize,
        ) {
            let values: Vec<f32> = (0..keys.len() * width).map(|i| i as f32).collect();
            let (unique, sums) = deduplicate(&keys, &values, width).unwrap();
            let mut expected = BTreeMap::<u64, Vec<f32>>::new();
            for (key, row) in keys.iter().zip(values.chunks(width)) {
                let sum = expected.entry(*key).or_insert_with(|| vec![0.0; width]);
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            prop_assert_eq!(unique.len(), expected.len());
            for (key, sum) in unique.iter().zip(sums.chunks(width)) {
                prop_assert_eq!(sum, expected[key].as_slice());
            }
            prop_assert!(Uniqueness::default().holds(&unique));
            let is_unique = keys.iter().collect::<HashSet<_>>().len() == keys.len();
            prop_assert_eq!(Uniqueness::default().holds(&keys), is_unique);
        }
    }

    #[test]
    fn a_table_serves_calls_of_all_sizes() {
        let mut uniqueness = Uniqueness::default();
        let many: Vec<u64> = (0..1000).map(|key| key << 40).collect();
        assert!(uniqueness.holds(&many));
        assert!(uniqueness.holds(&[]));
        assert!(uniqueness.holds(&[u64::MAX]));
        assert!(!uniqueness.holds(&[3, 1, 3]));
        assert!(deduplicate(&[1, 2], &[0.0; 3], 2).is_err());
        assert!(deduplicate(&[1], &[], 0).is_err());
    }
}
