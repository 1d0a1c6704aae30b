//! Which rows a trainer has pulled for its next steps: their gradients are likely to come next, for
//! the same keys in the same order, and finding rows is half of what a push costs.
//!
//! A trainer that overlaps its steps has pulled the rows of two when the gradients of the first come.
//! Only numbers of rows are remembered, which stay what they are as long as the table lives. Whoever
//! pushes other keys is served the long way.

use std::collections::BTreeMap;

/// Rows that are remembered of a trainer, and of how many trainers: 100 MB at most.
const ROWS_MAX: usize = 1 << 16;
const RANKS_MAX: usize = 128;

/// What the trainers of a table have pulled.
#[derive(Debug, Default)]
pub(super) struct Pulled(BTreeMap<u32, Rows>);

#[derive(Debug, Default)]
struct Rows {
    keys: Vec<u64>,
    /// Their numbers in the table.
    numbers: Vec<u32>,
    /// How many of them, from the first on, have had their gradients.
    pushed: usize,
}

impl Pulled {
    /// Where to note the numbers of further rows that a trainer pulls; `None` if they are too many.
    pub(super) fn note(&mut self, rank: u32, keys: &[u64]) -> Option<&mut Vec<u32>> {
        if self.0.len() >= RANKS_MAX && !self.0.contains_key(&rank) {
            return None;
        }
        let rows = self.0.entry(rank).or_default();
        // A pull that failed halfway has noted too few numbers.
        let is_whole = rows.keys.len() == rows.numbers.len();
        if is_whole {
            rows.forget_pushed();
        }
        if !is_whole || rows.keys.len() + keys.len() > ROWS_MAX {
            rows.clear();
        }
        if keys.len() > ROWS_MAX {
            return None;
        }
        rows.keys.extend_from_slice(keys);
        rows.numbers.reserve(keys.len());
        Some(&mut rows.numbers)
    }

    /// The numbers of the rows of `keys`, if they were pulled one after the other. What was pulled
    /// before them is forgotten: its gradients do not come any more.
    pub(super) fn find(&mut self, rank: u32, keys: &[u64]) -> Option<&[u32]> {
        let rows = self.0.get_mut(&rank)?;
        let first = keys.first()?;
        let is_here = |start: usize| rows.keys.get(start..start + keys.len()) == Some(keys);
        let mut start = rows.pushed;
        while !is_here(start) {
            let rest = rows.keys.get(start + 1..)?;
            start += 1 + rest.iter().position(|key| key == first)?;
        }
        rows.pushed = start + keys.len();
        rows.numbers.get(start..rows.pushed)
    }
}

impl Rows {
    fn forget_pushed(&mut self) {
        self.keys.drain(..self.pushed);
        self.numbers.drain(..self.pushed);
        self.pushed = 0;
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.numbers.clear();
        self.pushed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes keys whose rows have the same numbers.
    fn pull(pulled: &mut Pulled, rank: u32, keys: &[u64]) {
        if let Some(numbers) = pulled.note(rank, keys) {
            numbers.extend(keys.iter().map(|key| *key as u32));
        }
    }

    #[test]
    fn keys_that_were_pulled_are_found_in_pieces_of_any_size() {
        let mut pulled = Pulled::default();
        pull(&mut pulled, 3, &[1, 2]);
        pull(&mut pulled, 3, &[5, 4]);
        pull(&mut pulled, 4, &[9]);
        assert_eq!(pulled.find(3, &[1, 2, 5]), Some(&[1, 2, 5][..]));
        assert_eq!(pulled.find(3, &[4]), Some(&[4][..]));
        assert_eq!(pulled.find(4, &[9]), Some(&[9][..]));
        // What is pulled behind a push is for the next one.
        pull(&mut pulled, 3, &[7]);
        assert_eq!(pulled.find(3, &[7]), Some(&[7][..]));
    }

    #[test]
    fn the_rows_of_two_steps_are_found_one_after_the_other() {
        let mut pulled = Pulled::default();
        pull(&mut pulled, 0, &[1, 2]);
        pull(&mut pulled, 0, &[2, 3]);
        for step in 1..20 {
            let keys = |step: u64| [step, step + 1];
            assert_eq!(pulled.find(0, &keys(step)), Some(&keys(step).map(|key| key as u32)[..]));
            pull(&mut pulled, 0, &keys(step + 2));
            assert!(pulled.0[&0].keys.len() <= 4, "what was pushed is forgotten");
        }
    }

    #[test]
    fn other_keys_are_not_found_and_keys_behind_others_are() {
        let mut pulled = Pulled::default();
        pull(&mut pulled, 0, &[1, 2]);
        for other in [&[2, 1][..], &[1, 2, 3], &[3], &[]] {
            assert_eq!(pulled.find(0, other), None);
        }
        pull(&mut pulled, 0, &[1, 5]);
        assert_eq!(pulled.find(0, &[1, 5]), Some(&[1, 5][..]));
        assert_eq!(pulled.find(0, &[1, 2]), None, "forgotten: others came behind it");
        assert_eq!(pulled.find(1, &[1]), None);
    }

    #[test]
    fn a_pull_that_failed_halfway_is_forgotten() {
        let mut pulled = Pulled::default();
        pulled.note(0, &[1, 2]).unwrap().push(1);
        assert_eq!(pulled.find(0, &[1, 2]), None);
        pull(&mut pulled, 0, &[3]);
        assert_eq!(pulled.find(0, &[1, 2]), None);
        assert_eq!(pulled.find(0, &[3]), Some(&[3][..]));
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let mut pulled = Pulled::default();
        let many: Vec<u64> = (0..ROWS_MAX as u64).collect();
        pull(&mut pulled, 0, &many);
        pull(&mut pulled, 0, &[1]);
        assert_eq!(pulled.find(0, &[1]), Some(&[1][..]));
        pull(&mut pulled, 0, &[many.as_slice(), &[1]].concat());
        assert_eq!(pulled.find(0, &[0]), None);
        for rank in 0..1000 {
            pull(&mut pulled, rank, &[1]);
        }
        assert_eq!(pulled.0.len(), RANKS_MAX);
        assert_eq!(pulled.find(999, &[1]), None);
    }
}
