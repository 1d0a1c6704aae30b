//! Each column of the output as a weighted sum of columns of the input. Which columns and weights
//! is the same for every row, so layers that move, leave out or blend the pixels of pictures are
//! all this one operation.

use crate::fused::{self, Fused};
use crate::row_sums::RowLists;
use burn::tensor::Tensor;
use rayon::prelude::*;
use std::sync::Arc;

/// For each column of the output, `lists` names the columns of `x` that are added up to it.
pub(crate) fn column_sums(x: Tensor<2>, lists: RowLists) -> Tensor<2> {
    let width = x.dims()[1];
    fused::apply(Arc::new(ColumnSums { lists, width }), vec![x])
}

/// One column of the input for each column of the output, or zeros.
pub(crate) fn pick_columns(
    x: Tensor<2>,
    columns: impl Iterator<Item = Option<usize>>,
) -> Tensor<2> {
    let mut lists = RowLists { offsets: vec![0], ..RowLists::default() };
    for column in columns {
        lists.rows.extend(column.map(|column| column as u32));
        lists.offsets.push(lists.rows.len());
    }
    column_sums(x, lists)
}

#[derive(Debug)]
struct ColumnSums {
    lists: RowLists,
    /// Columns of the input.
    width: usize,
}

impl ColumnSums {
    /// Calls `visit` with the column of the output, that of the input, and the weight.
    #[inline]
    fn for_each(&self, mut visit: impl FnMut(usize, usize, f32)) {
        for (to, pair) in self.lists.offsets.windows(2).enumerate() {
            for entry in pair[0]..pair[1] {
                visit(to, self.lists.rows[entry] as usize, self.lists.weight(entry));
            }
        }
    }
}

impl Fused for ColumnSums {
    fn width(&self) -> usize {
        self.lists.len()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let rows = inputs[0].len() / self.width;
        let mut output = vec![0.0; rows * self.width()];
        let pairs = output.par_chunks_mut(self.width()).zip(inputs[0].par_chunks(self.width));
        pairs.for_each(|(output, x)| {
            self.for_each(|to, from, weight| output[to] += weight * x[from]);
        });
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], _wanted: &[bool]) -> Vec<Vec<f32>> {
        let mut found = vec![0.0; inputs[0].len()];
        let pairs = found.par_chunks_mut(self.width).zip(gradient.par_chunks(self.width()));
        pairs.for_each(|(found, gradient)| {
            self.for_each(|to, from, weight| found[from] += weight * gradient[to]);
        });
        vec![found]
    }
}
