//! Operations on the rows of sequences, which lie one after the other and are told apart by
//! offsets. A sequence without rows gives zeros.

use crate::argument::{Offsets, numbers};
use crate::row_sums::{RowLists, row_sums};
use burn::tensor::{Int, Tensor, TensorData};
use contract::Result;
use serde::{Deserialize, Serialize};

/// How the rows of a sequence become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pooling {
    Max,
    Average,
    Sum,
    /// The sum divided by the square root of the number of rows.
    SqrtN,
}

/// Which row of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    First,
    Last,
}

/// One row for each sequence.
pub(crate) fn pool(x: Tensor<2>, offsets: &Offsets, pooling: Pooling) -> Tensor<2> {
    let weigh = |weight: fn(f32) -> f32| -> Vec<f32> {
        let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
        lengths.flat_map(|rows| std::iter::repeat_n(weight(rows as f32), rows)).collect()
    };
    let weights = match pooling {
        Pooling::Max => return max(x, offsets),
        Pooling::Sum => None,
        Pooling::Average => Some(weigh(|rows| 1.0 / rows)),
        Pooling::SqrtN => Some(weigh(|rows| 1.0 / rows.sqrt())),
    };
    row_sums(x, RowLists { offsets: offsets.to_vec(), rows: all_rows(offsets), weights })
}

/// The first or the last row of each sequence.
pub(crate) fn end(x: Tensor<2>, offsets: &Offsets, end: End) -> Tensor<2> {
    let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
    for pair in offsets.windows(2) {
        if pair[0] < pair[1] {
            lists.rows.push(match end {
                End::First => pair[0] as u32,
                End::Last => pair[1] as u32 - 1,
            });
        }
        lists.offsets.push(lists.rows.len());
    }
    row_sums(x, lists)
}

/// The row of each sequence, once for each row of the sequence.
pub(crate) fn expand(x: Tensor<2>, offsets: &Offsets) -> Tensor<2> {
    let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let rows = (0..).zip(lengths).flat_map(|(row, length)| std::iter::repeat_n(row, length));
    row_sums(x, RowLists::one_each(rows.collect()))
}

/// The softmax over the rows of each sequence.
pub(crate) fn softmax(x: Tensor<2>, offsets: &Offsets) -> Result<Tensor<2>> {
    let highest = max(x.clone().detach(), offsets);
    let powers = (x - expand(highest, offsets)).exp();
    let sums = pool(powers.clone(), offsets, Pooling::Sum);
    Ok(powers / expand(sums, offsets))
}

fn max(x: Tensor<2>, offsets: &Offsets) -> Tensor<2> {
    let [_, width] = x.dims();
    let device = x.device();
    let values = numbers(x.clone());
    let sequences = offsets.len() - 1;
    let mut chosen = vec![0_i32; sequences * width];
    let mut is_there = vec![0.0_f32; sequences];
    for (sequence, pair) in offsets.windows(2).enumerate() {
        is_there[sequence] = f32::from(u8::from(pair[0] < pair[1]));
        let chosen = &mut chosen[sequence * width..][..width];
        chosen.fill(pair[0] as i32);
        for row in pair[0] + 1..pair[1] {
            for (column, best) in chosen.iter_mut().enumerate() {
                if values[row * width + column] > values[*best as usize * width + column] {
                    *best = row as i32;
                }
            }
        }
        if pair[0] == pair[1] {
            chosen.fill(0);
        }
    }
    if values.is_empty() {
        return Tensor::zeros([sequences, width], &device);
    }
    let chosen = Tensor::<2, Int>::from_data(TensorData::new(chosen, [sequences, width]), &device);
    let picked = x.gather(0, chosen);
    if is_there.iter().all(|there| *there == 1.0) {
        return picked;
    }
    picked * Tensor::<2>::from_data(TensorData::new(is_there, [sequences, 1]), &device)
}

fn all_rows(offsets: &Offsets) -> Vec<u32> {
    (0..offsets.last().map_or(0, |end| *end as u32)).collect()
}
