//! Results of operations written to memory that was not cleared before: for what is computed number
//! by number, clearing takes as long as computing.

use crate::vector::widely;
use rayon::prelude::*;

/// Numbers that threads write at a time, at least.
const PIECE: usize = 1 << 14;

/// A vector of pieces of `piece` numbers: what `numbers` gives for the place of each.
///
/// # Panics
/// If it gives fewer than a piece has.
#[expect(unsafe_code, reason = "there is no other way to memory that is not cleared")]
pub(crate) fn pieces<I: Iterator<Item = f32>>(
    length: usize,
    piece: usize,
    numbers: impl Fn(usize) -> I + Sync,
) -> Vec<f32> {
    assert!(piece > 0 && length.is_multiple_of(piece), "{length} numbers in pieces of {piece}");
    let mut vector = Vec::with_capacity(length);
    let together = PIECE.div_ceil(piece);
    let groups = vector.spare_capacity_mut()[..length].par_chunks_mut(piece * together);
    groups.enumerate().for_each(|(group, slots)| {
        for (place, slots) in slots.chunks_exact_mut(piece).enumerate() {
            let numbers = numbers(group * together + place);
            widely(
                #[inline(always)]
                || {
                    let mut count = 0;
                    for (slot, number) in slots.iter_mut().zip(numbers) {
                        slot.write(number);
                        count += 1;
                    }
                    assert_eq!(count, slots.len(), "the numbers of a piece");
                },
            );
        }
    });
    // SAFETY: there is room for `length` numbers, and the pieces are all of it, because they divide
    // the length. Each of their numbers was written, or the assertion would have panicked.
    unsafe { vector.set_len(length) };
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_in_their_order() {
        let found = pieces(3 * PIECE, 3, |place| (0..3).map(move |at| (place * 3 + at) as f32));
        assert!(found.iter().enumerate().all(|(place, number)| *number == place as f32));
        assert!(pieces(0, 3, |_| std::iter::repeat(1.0)).is_empty());
    }

    #[test]
    #[should_panic(expected = "the numbers of a piece")]
    fn a_piece_that_is_too_short_is_refused() {
        pieces(6, 3, |_| [1.0, 2.0].into_iter());
    }
}
