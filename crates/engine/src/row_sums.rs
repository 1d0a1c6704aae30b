//! The operation behind everything that looks rows up or adds rows together: each row of the
//! output is a weighted sum of rows of a table, which rows and weights being known beforehand.
//!
//! An embedding, a fully connected layer over sparse input, the sum of a sequence, its first row,
//! a row repeated for a whole sequence: all are this one, so it is written once by hand, forward
//! and backward, for the CPU. On other devices, and in tests to compare with, it is composed of
//! Burn's operations.

use crate::fused::contiguous;
use crate::vector::widely;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{IndexingUpdateOp, Shape, Tensor, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// Work, in multiply-adds, below which a second thread costs more than it brings: about 0.1 ms.
const PARALLEL_WORK: usize = 1 << 19;

/// For each row of the output, the rows of the table that are added up to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RowLists {
    /// Where each row's list begins, and where the last one's ends.
    pub(crate) offsets: Vec<usize>,
    /// Rows of the table.
    pub(crate) rows: Vec<u32>,
    /// What each is multiplied with; 1 if there are none.
    pub(crate) weights: Option<Vec<f32>>,
}

impl RowLists {
    /// One row of the table for each row of the output.
    pub(crate) fn one_each(rows: Vec<u32>) -> Self {
        RowLists { offsets: (0..=rows.len()).collect(), rows, weights: None }
    }

    /// Drops the entries that `keep` says no to.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut begin = 0;
        let mut kept = 0;
        for offset in self.offsets.iter_mut().skip(1) {
            for entry in (begin..*offset).filter(|entry| keep(*entry)) {
                self.rows[kept] = self.rows[entry];
                if let Some(weights) = &mut self.weights {
                    weights[kept] = weights[entry];
                }
                kept += 1;
            }
            begin = *offset;
            *offset = kept;
        }
        self.rows.truncate(kept);
        if let Some(weights) = &mut self.weights {
            weights.truncate(kept);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    pub(crate) fn weight(&self, entry: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[entry])
    }

    /// Appends the sum of a list to `sums`. A list of one row without a weight is only copied.
    #[inline(always)]
    pub(crate) fn append_sum(&self, list: usize, table: &[f32], width: usize, sums: &mut Vec<f32>) {
        match self.only_row(list) {
            Some(row) => sums.extend_from_slice(&table[row * width..][..width]),
            None => {
                let done = sums.len();
                sums.resize(done + width, 0.0);
                self.add_to(list, table, &mut sums[done..]);
            }
        }
    }

    /// As [`RowLists::append_sum`], to zeros.
    #[inline(always)]
    fn write_sum(&self, list: usize, table: &[f32], sum: &mut [f32]) {
        match self.only_row(list) {
            Some(row) => sum.copy_from_slice(&table[row * sum.len()..][..sum.len()]),
            None => self.add_to(list, table, sum),
        }
    }

    #[inline(always)]
    fn add_to(&self, list: usize, table: &[f32], sum: &mut [f32]) {
        for entry in self.offsets[list]..self.offsets[list + 1] {
            let row = &table[self.rows[entry] as usize * sum.len()..][..sum.len()];
            add_scaled(sum, self.weight(entry), row);
        }
    }

    /// The row that is all of a list's sum, if it is.
    #[inline(always)]
    fn only_row(&self, list: usize) -> Option<usize> {
        let entries = self.offsets[list]..self.offsets[list + 1];
        let is_only = entries.len() == 1 && self.weights.is_none();
        is_only.then(|| self.rows[entries.start] as usize)
    }
}

/// `lists` applied to `table`: a row of sums for each list.
pub(crate) fn row_sums(table: Tensor<2>, lists: RowLists) -> Tensor<2> {
    let sums = Dispatch::row_sums(table.into_dispatch(), Arc::new(lists));
    Tensor::from_dispatch(sums)
}

#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
pub(crate) trait RowSums: Backend {
    /// The sums.
    fn row_sums(table: FloatTensor<Self>, lists: Arc<RowLists>) -> FloatTensor<Self> {
        composed::<Self>(table, &lists)
    }

    /// The gradient of a table of `rows` rows, from that of the sums.
    fn row_sums_backward(
        gradient: FloatTensor<Self>,
        lists: Arc<RowLists>,
        rows: usize,
    ) -> FloatTensor<Self> {
        composed_backward::<Self>(gradient, &lists, rows)
    }
}

fn composed<B: Backend>(table: FloatTensor<B>, lists: &RowLists) -> FloatTensor<B> {
    let (rows, owners, weights) = entries::<B>(lists, &table.device());
    add_rows::<B>(table, rows, owners, weights, lists.len())
}

fn composed_backward<B: Backend>(
    gradient: FloatTensor<B>,
    lists: &RowLists,
    rows: usize,
) -> FloatTensor<B> {
    let (places, owners, weights) = entries::<B>(lists, &gradient.device());
    add_rows::<B>(gradient, owners, places, weights, rows)
}

/// The rows `from` of a matrix, weighted and added to the rows `to` of one of `rows` rows.
fn add_rows<B: Backend>(
    matrix: FloatTensor<B>,
    from: IntTensor<B>,
    to: IntTensor<B>,
    weights: FloatTensor<B>,
    rows: usize,
) -> FloatTensor<B> {
    let [_, width] = matrix.shape().dims();
    let zeros = B::float_zeros(Shape::from([rows, width]), &matrix.device(), matrix.dtype().into());
    if weights.shape().num_elements() == 0 {
        return zeros;
    }
    let picked = B::float_mul(B::float_select(matrix, 0, from), weights);
    B::float_select_assign(zeros, 0, to, picked, IndexingUpdateOp::Add)
}

/// For each entry of the lists: its row of the table, its row of the output, its weight.
fn entries<B: Backend>(
    lists: &RowLists,
    device: &B::Device,
) -> (IntTensor<B>, IntTensor<B>, FloatTensor<B>) {
    let count = lists.rows.len();
    let rows: Vec<i32> = lists.rows.iter().map(|row| *row as i32).collect();
    let lengths = lists.offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let owners: Vec<i32> =
        (0..).zip(lengths).flat_map(|(list, length)| std::iter::repeat_n(list, length)).collect();
    let weights: Vec<f32> = (0..count).map(|entry| lists.weight(entry)).collect();
    (
        B::int_from_data(TensorData::new(rows, [count]), device),
        B::int_from_data(TensorData::new(owners, [count]), device),
        B::float_from_data(TensorData::new(weights, [count, 1]), device),
    )
}

#[cfg(feature = "gpu")]
impl RowSums for burn::backend::Cube {}

impl RowSums for Flex {
    fn row_sums(table: FlexTensor, lists: Arc<RowLists>) -> FlexTensor {
        let [_, width] = table.shape().dims();
        let table = table.to_contiguous();
        let from = contiguous(&table);
        let mut sums;
        if is_worth_sharing(lists.rows.len() * width) {
            sums = vec![0.0_f32; lists.len() * width];
            let rows = sums.par_chunks_mut(width).enumerate().with_min_len(64);
            rows.for_each(|(list, sum)| {
                widely(
                    #[inline(always)]
                    || lists.write_sum(list, from, sum),
                );
            });
        } else {
            sums = Vec::with_capacity(lists.len() * width);
            widely(
                #[inline(always)]
                || (0..lists.len()).for_each(|list| lists.append_sum(list, from, width, &mut sums)),
            );
        }
        FlexTensor::from_data(TensorData::new(sums, [lists.len(), width]))
    }

    fn row_sums_backward(gradient: FlexTensor, lists: Arc<RowLists>, rows: usize) -> FlexTensor {
        let [_, width] = gradient.shape().dims();
        let gradient = gradient.to_contiguous();
        let from = contiguous(&gradient);
        let mut table = vec![0.0_f32; rows * width];
        // Every thread walks all lists and adds what falls into its part of the table, so that
        // sums are made in one order whatever the number of threads.
        let add = |first: usize, part: &mut [f32]| {
            let end = first + part.len() / width;
            widely(
                #[inline(always)]
                || {
                    for list in 0..lists.len() {
                        let change = &from[list * width..][..width];
                        for entry in lists.offsets[list]..lists.offsets[list + 1] {
                            let row = lists.rows[entry] as usize;
                            if (first..end).contains(&row) {
                                let place = &mut part[(row - first) * width..][..width];
                                add_scaled(place, lists.weight(entry), change);
                            }
                        }
                    }
                },
            );
        };
        if width > 0 && rows > 0 {
            let threads = rayon::current_num_threads();
            if threads > 1 && is_worth_sharing(lists.rows.len() * width) {
                let rows_each = rows.div_ceil(threads);
                table
                    .par_chunks_mut(rows_each * width)
                    .enumerate()
                    .for_each(|(part, values)| add(part * rows_each, values));
            } else {
                add(0, &mut table);
            }
        }
        FlexTensor::from_data(TensorData::new(table, [rows, width]))
    }
}

fn is_worth_sharing(work: usize) -> bool {
    work >= PARALLEL_WORK && rayon::current_num_threads() > 1
}

#[inline(always)]
pub(crate) fn add_scaled(sums: &mut [f32], weight: f32, row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += weight * number);
}

impl<B: Backend + RowSums, C: CheckpointStrategy> RowSums for Autodiff<B, C> {
    fn row_sums(table: FloatTensor<Self>, lists: Arc<RowLists>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Step;

        impl<B: Backend + RowSums> Backward<B, 1> for Step {
            type State = (Arc<RowLists>, usize);

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let (lists, rows) = ops.state;
                unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
                    B::row_sums_backward(gradient, lists, rows)
                });
            }
        }

        let (table, node) = table.into_parts();
        let [rows, _] = table.shape().dims();
        match Step.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let sums = B::row_sums(table, Arc::clone(&lists));
                prep.finish((lists, rows), sums)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::row_sums(table, lists)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(values: Vec<f32>, rows: usize) -> FlexTensor {
        let width = values.len() / rows.max(1);
        FlexTensor::from_data(TensorData::new(values, [rows, width]))
    }

    fn numbers(tensor: &FlexTensor) -> Vec<f32> {
        contiguous(&tensor.to_contiguous()).to_vec()
    }

    /// Lists over a table of `rows` rows, and the numbers of the table and of a gradient.
    fn case(
        rows: usize,
        lists: usize,
        width: usize,
    ) -> impl Strategy<Value = (RowLists, Vec<f32>, Vec<f32>)> {
        let list = prop::collection::vec((0..rows as u32, -2.0..2.0_f32), 0..6);
        let matrix = move |rows: usize| prop::collection::vec(-2.0..2.0_f32, rows * width);
        let lists = (prop::collection::vec(list, lists), any::<bool>());
        (lists, matrix(rows)).prop_flat_map(move |((lists, is_weighted), table)| {
            let ends = lists.iter().scan(0, |end, list| {
                *end += list.len();
                Some(*end)
            });
            let offsets = std::iter::once(0).chain(ends).collect();
            let (rows, weights): (Vec<u32>, Vec<f32>) = lists.concat().into_iter().unzip();
            let weights = is_weighted.then_some(weights);
            let made = RowLists { offsets, rows, weights };
            (Just(made), Just(table), matrix(lists.len()))
        })
    }

    /// Compares the two ways on `threads` threads.
    fn check(
        (lists, table, gradient): (RowLists, Vec<f32>, Vec<f32>),
        rows: usize,
        threads: usize,
    ) {
        let near = |found: &FlexTensor, expected: &FlexTensor| {
            let (found, expected) = (numbers(found), numbers(expected));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-4, "{found} instead of {expected}");
            }
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let sums = Flex::row_sums(tensor(table.clone(), rows), Arc::new(lists.clone()));
            near(&sums, &composed::<Flex>(tensor(table, rows), &lists));
            let gradient = tensor(gradient, lists.len());
            let back = Flex::row_sums_backward(gradient.clone(), Arc::new(lists.clone()), rows);
            near(&back, &composed_backward::<Flex>(gradient, &lists, rows));
        });
    }

    proptest! {
        #[test]
        fn both_ways_agree(case in (1..20_usize, 1..9_usize, 1..5_usize)
            .prop_flat_map(|(rows, lists, width)| (case(rows, lists, width), Just(rows)))) {
            let (case, rows) = case;
            check(case, rows, 1);
        }

        #[test]
        fn entries_that_are_dropped_count_nothing(
            (lists, table, _) in case(7, 5, 3),
            is_kept in prop::collection::vec(any::<bool>(), 30),
        ) {
            let mut short = lists.clone();
            short.retain(|entry| is_kept[entry]);
            let mut zeroed = lists;
            let weights = (0..zeroed.rows.len()).map(|entry| match is_kept[entry] {
                true => zeroed.weight(entry),
                false => 0.0,
            });
            zeroed.weights = Some(weights.collect());
            let [short, zeroed] = [short, zeroed]
                .map(|lists| numbers(&Flex::row_sums(tensor(table.clone(), 7), Arc::new(lists))));
            prop_assert_eq!(short, zeroed);
        }
    }

    proptest! {
        // Large enough that work is shared: 4000 lists of 2.5 entries on the average, 64 wide.
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn both_ways_agree_on_several_threads(case in case(501, 4000, 64)) {
            prop_assert!(case.0.rows.len() * 64 >= PARALLEL_WORK);
            for threads in [1, 2, 3] {
                check(case.clone(), 501, threads);
            }
        }
    }

    #[test]
    fn a_transposed_table_is_read_in_its_own_order() {
        let table = tensor(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2).transpose(0, 1);
        let lists = RowLists { offsets: vec![0, 2, 3], rows: vec![0, 2, 1], weights: None };
        assert_eq!(numbers(&Flex::row_sums(table, Arc::new(lists))), [4.0, 10.0, 2.0, 5.0]);
    }

    #[test]
    fn a_table_without_rows_is_not_read() {
        let lists = RowLists { offsets: vec![0, 0, 0], rows: vec![], weights: None };
        let table = FlexTensor::from_data(TensorData::new(Vec::<f32>::new(), [0, 2]));
        assert_eq!(numbers(&Flex::row_sums(table, Arc::new(lists))), [0.0; 4]);
    }
}
