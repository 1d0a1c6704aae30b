//! Which node gets which file: as many bytes for each as can be, and the same for the same files
//! whatever order they are listed in. Pure.

/// The node of each file, in the order of `files` (name and length).
///
/// The largest file goes first, each to the node that has the fewest bytes so far; of nodes with as
/// many bytes, to the one with the fewest files, then the first. So no two nodes differ by more than
/// one file's length, and every node has a file if there are enough.
pub(crate) fn deal(files: &[(&str, u64)], nodes: u32) -> Vec<u32> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|index| {
        let (name, bytes) = files[*index];
        (std::cmp::Reverse(bytes), name)
    });
    let mut dealt = vec![0; files.len()];
    let mut heap: std::collections::BTreeSet<(u64, u32, u32)> =
        (0..nodes).map(|node| (0, 0, node)).collect();
    for index in order {
        let Some((bytes, count, node)) = heap.pop_first() else { break };
        dealt[index] = node;
        heap.insert((bytes.saturating_add(files[index].1), count + 1, node));
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_of_one_size_are_dealt_in_turn() {
        let names: Vec<String> = (0..7).map(|number| format!("train_batch_{number:03}")).collect();
        let files: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 10)).collect();
        assert_eq!(deal(&files, 3), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_large_file_is_alone() {
        assert_eq!(deal(&[("a", 1), ("b", 100), ("c", 1), ("d", 0)], 2), [1, 0, 1, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn nodes_are_even_to_one_file_and_none_is_empty(
            sizes in prop::collection::vec(0..1000_u64, 1..60),
            nodes in 1..12_u32,
            turn in 0..60_usize,
        ) {
            let names: Vec<String> = (0..sizes.len()).map(|index| format!("f{index:03}")).collect();
            let files: Vec<(&str, u64)> =
                names.iter().map(String::as_str).zip(sizes.iter().copied()).collect();
            let dealt = deal(&files, nodes);
            let of = |node: u32| files.iter().zip(&dealt).filter(move |(_, own)| **own == node);
            let bytes: Vec<u64> =
                (0..nodes).map(|node| of(node).map(|((_, bytes), _)| bytes).sum()).collect();
            let largest = sizes.iter().max().unwrap();
            prop_assert!(bytes.iter().max().unwrap() - bytes.iter().min().unwrap() <= *largest);
            if files.len() >= nodes as usize {
                prop_assert!((0..nodes).all(|node| of(node).count() > 0));
            }
            // Another order of the list, the same node for each name.
            let mut turned = files.clone();
            turned.rotate_left(turn % files.len());
            let again = deal(&turned, nodes);
            for (file, node) in turned.iter().zip(&again) {
                let index = files.iter().position(|other| other == file).unwrap();
                prop_assert_eq!(dealt[index], *node);
            }
        }
    }
}
