//! A batch as bytes, on its way from one process to another of the same machine: the one that reads
//! samples converts them, and the one that trains has nothing to do but copy arrays. It is no format
//! for files: numbers lie as this machine has them.

use bytemuck::Pod;
use contract::{Error, Kind, Result};
use engine::batch::{Batch, Input, Lists, Rows};

const DENSE: u64 = 0;
const INTEGER: u64 = 1;
const SPARSE_BINARY: u64 = 2;
const SPARSE_FLOAT: u64 = 3;

/// Packs a batch.
pub fn pack(batch: &Batch) -> Vec<u8> {
    let mut packed = Vec::new();
    word(&mut packed, batch.samples as u64);
    word(&mut packed, batch.inputs.len() as u64);
    for Input { rows, sequences, nests } in &batch.inputs {
        match rows {
            Rows::Dense(values) => {
                word(&mut packed, DENSE);
                array(&mut packed, values);
            }
            Rows::Integer(ids) => {
                word(&mut packed, INTEGER);
                array(&mut packed, ids);
            }
            Rows::Sparse(Lists { offsets, ids, values }) => {
                word(&mut packed, if values.is_some() { SPARSE_FLOAT } else { SPARSE_BINARY });
                array(&mut packed, offsets);
                array(&mut packed, ids);
                values.iter().for_each(|values| array(&mut packed, values));
            }
        }
        for offsets in [sequences, nests] {
            word(&mut packed, u64::from(offsets.is_some()));
            offsets.iter().for_each(|offsets| array(&mut packed, offsets));
        }
    }
    packed
}

/// The batch in a parcel.
///
/// # Errors
/// [`Kind::Damaged`] if these are not the bytes of a batch.
pub fn unpack(bytes: &[u8]) -> Result<Batch> {
    let mut left = bytes;
    let batch = read(&mut left).filter(|_| left.is_empty());
    batch.ok_or_else(|| {
        Error::new(Kind::Damaged, "these are not the bytes of a batch").with("bytes", bytes.len())
    })
}

/// The first data layer, by its place, that a batch has a NaN or an infinite number for.
pub fn not_finite(batch: &Batch) -> Option<usize> {
    let are_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
    batch.inputs.iter().position(|input| match &input.rows {
        Rows::Dense(values) => !are_finite(values),
        Rows::Integer(_) => false,
        Rows::Sparse(lists) => lists.values.as_ref().is_some_and(|values| !are_finite(values)),
    })
}

fn word(packed: &mut Vec<u8>, word: u64) {
    packed.extend_from_slice(&word.to_ne_bytes());
}

/// The number of items, and the items.
fn array<T: Pod>(packed: &mut Vec<u8>, items: &[T]) {
    word(packed, items.len() as u64);
    packed.extend_from_slice(bytemuck::cast_slice(items));
}

fn read(left: &mut &[u8]) -> Option<Batch> {
    let samples = usize::try_from(read_word(left)?).ok()?;
    let count = read_word(left)?;
    let mut inputs = Vec::new();
    for _ in 0..count {
        let rows = match read_word(left)? {
            DENSE => Rows::Dense(read_array(left)?),
            INTEGER => Rows::Integer(read_array(left)?),
            kind @ (SPARSE_BINARY | SPARSE_FLOAT) => Rows::Sparse(Lists {
                offsets: read_array(left)?,
                ids: read_array(left)?,
                values: if kind == SPARSE_FLOAT { Some(read_array(left)?) } else { None },
            }),
            _ => return None,
        };
        let mut offsets = [None, None];
        for offsets in &mut offsets {
            *offsets = match read_word(left)? {
                0 => None,
                1 => Some(read_array(left)?),
                _ => return None,
            };
        }
        let [sequences, nests] = offsets;
        inputs.push(Input { rows, sequences, nests });
    }
    Some(Batch { samples, inputs })
}

fn read_word(left: &mut &[u8]) -> Option<u64> {
    let (word, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(u64::from_ne_bytes(*word))
}

fn read_array<T: Pod>(left: &mut &[u8]) -> Option<Vec<T>> {
    let count = usize::try_from(read_word(left)?).ok()?;
    let (items, rest) = left.split_at_checked(count.checked_mul(size_of::<T>())?)?;
    *left = rest;
    let mut array = vec![T::zeroed(); count];
    bytemuck::cast_slice_mut(&mut array).copy_from_slice(items);
    Some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let lists = |values| Lists { offsets: vec![0, 2, 2], ids: vec![5, u64::MAX], values };
        let nested = Input {
            rows: Rows::Integer(vec![1, 2, 3]),
            sequences: Some(vec![0, 1, 3]),
            nests: Some(vec![0, 1, 2]),
        };
        let inputs = vec![
            Input::single(Rows::Dense(vec![0.5, -1.0, 2.0])),
            Input::single(Rows::Sparse(lists(None))),
            Input::sequence(Rows::Sparse(lists(Some(vec![0.25, 4.0]))), vec![0, 1, 2]),
            nested,
        ];
        Batch { samples: 2, inputs }
    }

    #[test]
    fn a_batch_is_the_same_afterwards() {
        assert_eq!(unpack(&pack(&batch())).unwrap(), batch());
        assert_eq!(unpack(&pack(&Batch::default())).unwrap(), Batch::default());
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused() {
        let whole = pack(&batch());
        for length in 0..whole.len() {
            assert_eq!(unpack(&whole[..length]).unwrap_err().kind(), Kind::Damaged, "{length}");
        }
        assert!(unpack(&[whole.clone(), vec![0]].concat()).is_err());
        // Neither 0 nor 1 says whether offsets follow: the last word, of nothing but one dense input.
        let dense = Batch { samples: 1, inputs: vec![Input::single(Rows::Dense(vec![0.5, 1.0]))] };
        let mut unclear = pack(&dense);
        let last = unclear.len() - 8;
        unclear[last] = 2;
        assert_eq!(unpack(&unclear).unwrap_err().kind(), Kind::Damaged);
        // A length that no memory has.
        let mut huge = whole;
        huge[24..32].fill(0xff);
        assert!(unpack(&huge).is_err());
    }

    #[test]
    fn numbers_that_are_none_are_found() {
        let mut odd = batch();
        assert_eq!(not_finite(&odd), None);
        let Rows::Sparse(lists) = &mut odd.inputs[2].rows else { panic!() };
        lists.values = Some(vec![1.0, f32::INFINITY]);
        assert_eq!(not_finite(&odd), Some(2));
        odd.inputs[0].rows = Rows::Dense(vec![0.0, f32::NAN, 0.0]);
        assert_eq!(not_finite(&odd), Some(0));
    }
}
