//! In which order the tasks of a pass are dealt out. A preference and not a promise: tasks that fail
//! or are given back change it.

use sha2::{Digest, Sha256};
use std::collections::VecDeque;

/// The tasks `0..tasks` in the order of a pass: as they are without a seed; with one in an order
/// that depends on seed and pass alone, so that a run can be repeated.
pub(super) fn order(seed: Option<u64>, pass: u64, tasks: u64) -> VecDeque<u64> {
    let mut order: Vec<u64> = (0..tasks).collect();
    if let Some(seed) = seed {
        order.sort_by_cached_key(|task| {
            let key = [seed, pass, *task].map(u64::to_le_bytes).concat();
            let place: [u8; 32] = Sha256::digest(key).into();
            place
        });
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_shuffles_every_pass_in_its_own_way_and_repeatably() {
        let first = order(Some(7), 0, 100);
        assert_eq!(first, order(Some(7), 0, 100));
        assert_ne!(first, order(Some(7), 1, 100));
        assert_ne!(first, order(Some(8), 0, 100));
        let mut sorted: Vec<u64> = first.into();
        sorted.sort_unstable();
        assert_eq!(VecDeque::from(sorted), order(None, 3, 100));
    }

    #[test]
    fn the_order_of_a_seed_is_the_same_in_every_release() {
        // Sorted by the SHA-256 of seed, pass and task, as `hashlib` says.
        assert_eq!(order(Some(1), 0, 8), [4, 6, 2, 0, 3, 7, 5, 1]);
    }
}
