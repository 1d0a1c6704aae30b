//! Samples kept in memory, to be given out in an order that follows from a seed and the pass.

use crate::columns::Columns;
use crate::plan::Plan;
use contract::{Error, Kind, Result};
use std::sync::Arc;

/// All samples, as they were parsed.
pub(crate) struct Kept {
    blocks: Vec<Columns>,
    /// Where the samples of each block begin among all, and where the last one's end.
    starts: Vec<usize>,
}

impl Kept {
    /// Collects blocks until there are no more.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] if they take more than `bytes_max` of memory.
    pub(crate) fn collect(
        mut next: impl FnMut() -> Result<Option<Columns>>,
        bytes_max: u64,
    ) -> Result<Kept> {
        let mut kept = Kept { blocks: Vec::new(), starts: vec![0] };
        let mut bytes = 0u64;
        while let Some(block) = next()? {
            bytes += block.bytes() as u64;
            if bytes > bytes_max {
                return Err(Error::new(
                    Kind::LimitExceeded,
                    "the samples take more memory than memory_bytes_max; raise it, read fewer \
                     files in each trainer, or stream them",
                )
                .with("memory_bytes_max", bytes_max));
            }
            kept.starts.push(kept.samples() + block.samples);
            kept.blocks.push(block);
        }
        Ok(kept)
    }

    pub(crate) fn samples(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The order of a pass: a permutation that follows from `seed` and `pass`.
    pub(crate) fn order(&self, seed: u64, pass: u64) -> Arc<[u32]> {
        // `Feed` refuses more samples than a u32 counts.
        let mut order: Vec<u32> = (0..self.samples() as u32).collect();
        let mut chance = Chance::new(seed, pass);
        for place in (1..order.len()).rev() {
            order.swap(place, chance.below(place as u64 + 1) as usize);
        }
        order.into()
    }

    /// The samples of these numbers, in this order.
    pub(crate) fn gather(&self, plan: &Plan, numbers: &[u32]) -> Columns {
        let mut columns = Columns::new(plan, numbers.len());
        for number in numbers {
            let number = *number as usize;
            let block = self.starts.partition_point(|start| *start <= number) - 1;
            let place = number - self.starts[block];
            columns.append(plan, &self.blocks[block], place..place + 1);
        }
        columns
    }
}

/// Whether a line is one of a trainer's, if `trainers` share all lines: of as many lines that follow
/// one another each gets one, which one is left to chance. No seed takes part: trainers with
/// different ones would lose lines, and train others twice.
pub(crate) fn is_own(line: u64, rank: u64, trainers: u64) -> bool {
    let turn = mix(line / trainers) % trainers;
    (line % trainers + turn) % trainers == rank
}

/// A row of random numbers: splitmix64.
struct Chance(u64);

impl Chance {
    fn new(seed: u64, pass: u64) -> Chance {
        Chance(mix(seed).wrapping_add(mix(pass ^ 0x5eed)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, all equally likely but for one part in 2^64 of `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(samples: usize) -> Kept {
        Kept { blocks: Vec::new(), starts: vec![0, samples] }
    }

    #[test]
    fn an_order_has_every_sample_once_and_follows_from_seed_and_pass() {
        let kept = kept(1000);
        let order = kept.order(7, 0);
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000));
        assert_eq!(order, kept.order(7, 0));
        assert_ne!(order, kept.order(7, 1));
        assert_ne!(order, kept.order(8, 0));
        let in_place = order.iter().enumerate().filter(|(place, one)| *place == **one as usize);
        assert!(in_place.count() < 10);
    }

    #[test]
    fn trainers_share_all_lines_evenly_and_not_in_turn() {
        for trainers in [1, 2, 3, 7] {
            let mut counts = vec![0; trainers as usize];
            let mut turns = 0;
            for line in 0..trainers * 1000 {
                let owners: Vec<u64> =
                    (0..trainers).filter(|rank| is_own(line, *rank, trainers)).collect();
                assert_eq!(owners.len(), 1);
                counts[owners[0] as usize] += 1;
                turns += u64::from(owners[0] == line % trainers);
            }
            assert!(counts.iter().all(|count| *count == 1000), "{counts:?}");
            assert!(trainers == 1 || turns < trainers * 700, "{turns}");
        }
    }
}
