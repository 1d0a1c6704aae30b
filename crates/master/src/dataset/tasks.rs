//! Pieces → tasks: pure, but for halving a piece, which may have to look into its file.
//!
//! **The problem.** Ten chunks a task is right for a terabyte and makes one task of 62 MB, so that
//! one of four trainers has all the work. How far data can be cut is known only by trying: lines and
//! records have any length.
//!
//! **The way.** Choose a size that would make the wanted number of tasks, halve every piece that is
//! clearly larger, and put small neighbours together as long as they stay below it. If large pieces that
//! cannot be halved left too few tasks, halve the size and go on, until there are enough or nothing
//! is left to divide.

use super::{PIECES_PER_TASK, Part};
use contract::Result;

/// Who knows how to halve a piece.
pub(super) trait Divide {
    /// Two pieces that have the records of one; `None` if it is a single record, or cannot be cut.
    fn halve(&mut self, part: &Part) -> Result<Option<(Part, Part)>>;
}

/// A piece on its way to a task.
struct Item {
    part: Part,
    /// Trying again would be in vain.
    is_atom: bool,
}

/// Where tasks of so many pieces end.
pub(super) fn every(pieces: u32, parts: usize) -> Vec<u32> {
    let pieces = pieces as usize;
    (1..=parts.div_ceil(pieces)).map(|task| (task * pieces).min(parts) as u32).collect()
}

/// At least `wanted` tasks if the pieces can be divided so far, of at most [`PIECES_PER_TASK`]
/// pieces: the pieces in their order, and where in them each task ends.
pub(super) fn enough(
    parts: Vec<Part>,
    wanted: u64,
    divide: &mut impl Divide,
) -> Result<(Vec<Part>, Vec<u32>)> {
    let bytes: u128 = parts.iter().map(|part| u128::from(part.bytes)).sum();
    let mut task_bytes = ((bytes / u128::from(wanted.max(1))) as u64).max(1);
    let mut items: Vec<Item> =
        parts.into_iter().map(|part| Item { part, is_atom: false }).collect();
    loop {
        items = divide_larger(items, task_bytes, divide)?;
        let ends = group(&items, task_bytes);
        if ends.len() as u64 >= wanted || task_bytes == 1 {
            return Ok((items.into_iter().map(|item| item.part).collect(), ends));
        }
        task_bytes /= 2;
    }
}

/// Halves what is clearly larger than a task, and the halves, in their order.
fn divide_larger(items: Vec<Item>, task_bytes: u64, divide: &mut impl Divide) -> Result<Vec<Item>> {
    // Halving what is only a little larger would make tasks of very different sizes.
    let bytes_max = task_bytes.saturating_add(task_bytes / 2);
    let mut divided = Vec::with_capacity(items.len());
    let mut waiting = Vec::new();
    for item in items {
        waiting.push(item);
        while let Some(mut item) = waiting.pop() {
            if !item.is_atom && item.part.bytes > bytes_max {
                if let Some((first, second)) = divide.halve(&item.part)? {
                    waiting.push(Item { part: second, is_atom: false });
                    waiting.push(Item { part: first, is_atom: false });
                    continue;
                }
                item.is_atom = true;
            }
            divided.push(item);
        }
    }
    Ok(divided)
}

/// Puts neighbours together as long as they stay within the size of a task.
fn group(items: &[Item], task_bytes: u64) -> Vec<u32> {
    let mut ends = Vec::new();
    let (mut begin, mut bytes) = (0, 0_u64);
    for (at, item) in items.iter().enumerate() {
        // Pieces of no bytes are pieces too: without this they would all be in one task.
        let more = bytes.saturating_add(item.part.bytes.max(1));
        let is_full = at - begin == PIECES_PER_TASK as usize || more > task_bytes;
        if at > begin && is_full {
            ends.push(at as u32);
            (begin, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(item.part.bytes.max(1));
    }
    ends.push(items.len() as u32);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pieces whose bytes can be halved down to `number`: the size of an atom.
    struct Bytes;

    impl Divide for Bytes {
        fn halve(&mut self, part: &Part) -> Result<Option<(Part, Part)>> {
            let first = part.bytes / 2 / part.number * part.number;
            let halves = (
                Part { bytes: first, ..*part },
                Part { bytes: part.bytes - first, offset: part.offset + first, ..*part },
            );
            Ok((first > 0).then_some(halves))
        }
    }

    fn part(bytes: u64, atom: u64) -> Part {
        Part { file: 0, number: atom, offset: 0, bytes, records: None }
    }

    /// The bytes of the tasks that these pieces (bytes, size of an atom) become.
    fn sizes(pieces: &[(u64, u64)], wanted: u64) -> Vec<u64> {
        let parts = pieces.iter().map(|(bytes, atom)| part(*bytes, *atom)).collect();
        let (parts, ends) = enough(parts, wanted, &mut Bytes).unwrap();
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let task = |(begin, end): (u32, &u32)| &parts[begin as usize..*end as usize];
        begins.zip(&ends).map(task).map(|task| task.iter().map(|part| part.bytes).sum()).collect()
    }

    #[test]
    fn large_pieces_are_divided_and_small_ones_put_together() {
        assert_eq!(sizes(&[(31, 1), (31, 1)], 8), [7, 8, 8, 8, 7, 8, 8, 8]);
        assert_eq!(sizes(&[(10, 1); 8], 4), [20; 4]);
        assert_eq!(sizes(&[(10, 1); 9], 8), [10; 9]);
        assert_eq!(sizes(&[(5, 1)], 8), [1; 5], "no further than its atoms");
        let uncut = sizes(&[(100, 100), (10, 1)], 8);
        assert_eq!((uncut[0], uncut.len() >= 8), (100, true), "the rest is divided further");
        assert_eq!(sizes(&[(1, 1); 50], 2), [10; 5], "not too many pieces in one task");
    }

    #[test]
    fn a_number_of_pieces_that_was_asked_for_is_kept() {
        assert_eq!(every(10, 25), [10, 20, 25]);
        assert_eq!(every(1, 2), [1, 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn there_are_enough_tasks_whenever_the_data_allows_it(
            pieces in prop::collection::vec((1..500_u64, 1..40_u64), 1..30),
            wanted in 1..200_u64,
        ) {
            let tasks = sizes(&pieces, wanted);
            let atoms: u64 = pieces.iter().map(|(bytes, atom)| (bytes / atom).max(1)).sum();
            prop_assert_eq!(tasks.iter().sum::<u64>(), pieces.iter().map(|(bytes, _)| *bytes).sum::<u64>());
            prop_assert!(tasks.len() as u64 >= wanted.min(atoms), "{} of {atoms}", tasks.len());
        }
    }
}
