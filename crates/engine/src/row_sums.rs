//! The operation behind everything that looks rows up or adds rows together: each row of the
//! output is a weighted sum of rows of a table, which rows and weights being known beforehand.
//!
//! An embedding, a fully connected layer over sparse input, the sum of a sequence, its first row,
//! a row repeated for a whole sequence: all are this one, so it is written once by hand, forward
//! and backward, for the CPU. On other devices, and in tests to compare with, it is composed of
//! Burn's operations.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, IndexingUpdateOp, Shape, Tensor, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// Work, in multiply-adds, below which a second thread costs more than it brings.
const PARALLEL_WORK: usize = 1 << 16;

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

    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn weight(&self, entry: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[entry])
    }
}

/// `lists` applied to `table`: a row of sums for each list.
pub(crate) fn row_sums(table: Tensor<2>, lists: RowLists) -> Tensor<2> {
    let sums = Dispatch::row_sums(table.into_dispatch(), Arc::new(lists));
    Tensor::from_dispatch(sums)
}

#[cfg_attr(
    any(feature = "cuda", feature = "vulkan"),
    backend_extension(Flex, Cube, Autodiff)
)]
#[cfg_attr(not(any(feature = "cuda", feature = "vulkan")), backend_extension(Flex, Autodiff))]
pub(crate) trait RowSums: Backend {
    /// The sums.
    fn row_sums(table: FloatTensor<Self>, lists: Arc<RowLists>) -> FloatTensor<Self> {
        let [_, width] = table.shape().dims();
        let (rows, owners, weights) = entries::<Self>(&lists, &table.device());
        let picked = Self::float_mul(Self::float_select(table.clone(), 0, rows), weights);
        let shape = Shape::from([lists.len(), width]);
        let zeros = Self::float_zeros(shape, &table.device(), table.dtype().into());
        Self::float_select_assign(zeros, 0, owners, picked, IndexingUpdateOp::Add)
    }

    /// The gradient of a table of `rows` rows, from that of the sums.
    fn row_sums_backward(
        gradient: FloatTensor<Self>,
        lists: Arc<RowLists>,
        rows: usize,
    ) -> FloatTensor<Self> {
        let [_, width] = gradient.shape().dims();
        let (places, owners, weights) = entries::<Self>(&lists, &gradient.device());
        let spread = Self::float_mul(Self::float_select(gradient.clone(), 0, owners), weights);
        let shape = Shape::from([rows, width]);
        let device = gradient.device();
        let zeros = Self::float_zeros(shape, &device, gradient.dtype().into());
        Self::float_select_assign(zeros, 0, places, spread, IndexingUpdateOp::Add)
    }
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

#[cfg(any(feature = "cuda", feature = "vulkan"))]
impl RowSums for burn::backend::Cube {}

impl RowSums for Flex {
    fn row_sums(table: FlexTensor, lists: Arc<RowLists>) -> FlexTensor {
        let [_, width] = table.shape().dims();
        let table = table.to_contiguous();
        let from = contiguous(&table);
        let mut sums = vec![0.0_f32; lists.len() * width];
        let add = |(list, sum): (usize, &mut [f32])| {
            for entry in lists.offsets[list]..lists.offsets[list + 1] {
                let row = &from[lists.rows[entry] as usize * width..][..width];
                add_scaled(sum, lists.weight(entry), row);
            }
        };
        if width > 0 {
            if is_worth_sharing(lists.rows.len() * width) {
                sums.par_chunks_mut(width).enumerate().with_min_len(64).for_each(add);
            } else {
                sums.chunks_mut(width).enumerate().for_each(add);
            }
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

fn add_scaled(sum: &mut [f32], weight: f32, row: &[f32]) {
    for (sum, number) in sum.iter_mut().zip(row) {
        *sum += weight * number;
    }
}

fn contiguous(tensor: &FlexTensor) -> &[f32] {
    debug_assert_eq!(tensor.dtype(), DType::F32);
    let start = tensor.layout().start_offset();
    &tensor.storage::<f32>()[start..start + tensor.layout().num_elements()]
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
