//! A number by which a batch that comes again is known.
//!
//! A trainer that is started again skips the batches that its predecessor has trained. It can only
//! do so if they are the same ones, and that is what this is compared for. It says nothing of who
//! made the batch: it is no protection against people.

use engine::batch::{Batch, Input, Rows};

/// The CRC-32 of everything in a batch.
pub fn fingerprint(batch: &Batch) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(batch.samples as u64).to_le_bytes());
    for Input { rows, sequences, nests } in &batch.inputs {
        match rows {
            Rows::Dense(values) => part(&mut hasher, 0, values),
            Rows::Integer(ids) => part(&mut hasher, 1, ids),
            Rows::Sparse(lists) => {
                part(&mut hasher, 2, &lists.offsets);
                part(&mut hasher, 3, &lists.ids);
                if let Some(values) = &lists.values {
                    part(&mut hasher, 4, values);
                }
            }
        }
        for (kind, offsets) in [(5, sequences), (6, nests)] {
            if let Some(offsets) = offsets {
                part(&mut hasher, kind, offsets);
            }
        }
    }
    hasher.finalize()
}

fn part<T: bytemuck::NoUninit>(hasher: &mut crc32fast::Hasher, kind: u8, items: &[T]) {
    hasher.update(&[kind]);
    hasher.update(&(items.len() as u64).to_le_bytes());
    hasher.update(bytemuck::cast_slice(items));
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::batch::Lists;

    #[test]
    fn everything_in_a_batch_counts() {
        let dense = |values: &[f32]| Input::single(Rows::Dense(values.to_vec()));
        let ids = |ids: &[u64]| Input::single(Rows::Integer(ids.to_vec()));
        let lists = |values| {
            let lists = Lists { offsets: vec![0, 1, 2], ids: vec![3, 4], values };
            Input::single(Rows::Sparse(lists))
        };
        let inputs = [
            vec![dense(&[1.0, 2.0])],
            vec![dense(&[2.0, 1.0])],
            vec![dense(&[1.0]), dense(&[2.0])],
            vec![ids(&[1, 2])],
            vec![ids(&[2, 1])],
            vec![lists(None)],
            vec![lists(Some(vec![1.0, 1.0]))],
            vec![Input::sequence(Rows::Integer(vec![1, 2]), vec![0, 1, 2])],
            vec![Input::sequence(Rows::Integer(vec![1, 2]), vec![0, 2, 2])],
        ];
        let of = |inputs: &Vec<Input>| fingerprint(&Batch { samples: 2, inputs: inputs.clone() });
        let mut all: Vec<u32> = inputs.iter().map(of).collect();
        assert_eq!(all, inputs.iter().map(of).collect::<Vec<_>>());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), inputs.len());
    }
}
