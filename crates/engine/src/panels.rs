//! Products with a matrix that is arranged for them once.
//!
//! A product of matrices begins by copying the right one into panels, a few columns wide, so that
//! the innermost loop reads memory from one end to the other. A recurrent layer multiplies the
//! same weight with a few rows at every step, and to copy it each time took a fifth of the time.
//! The `gemm` crate takes no panels, so the loop over them is here too; it is as fast as its own.

use crate::product::Matrix;
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Vectors across a panel, and the most rows that are computed at a time. Their sums are 12
/// vectors, which, with a line of the panel and one number, 16 registers hold.
const VECTORS: usize = 2;
const ROWS: usize = 6;

/// Lines of a panel that are computed at a time. With vectors of 8 numbers they take half of a
/// first-level cache of 32 KiB.
const LINES: usize = 256;

/// Lines after which the innermost loop looks again whether the rows are that long.
const UNROLLED: usize = 4;

/// A matrix for the right side of products.
#[derive(Debug)]
pub(crate) struct Panels {
    /// For every `LINES` rows of the matrix, for every `width` columns: these, row after row. The
    /// last columns are filled up with zeros.
    values: Vec<f32>,
    rows: usize,
    columns: usize,
    width: usize,
}

impl Panels {
    pub(crate) fn new(matrix: Matrix<'_>) -> Panels {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let width = VECTORS * Arch::new().dispatch(Lanes);
        let mut values = Vec::with_capacity(rows * columns.next_multiple_of(width));
        for first in (0..rows).step_by(LINES) {
            for from in (0..columns).step_by(width) {
                let own = from..columns.min(from + width);
                let missing = width - own.len();
                for row in first..rows.min(first + LINES) {
                    matrix.append_row(row, own.clone(), &mut values);
                    values.resize(values.len() + missing, 0.0);
                }
            }
        }
        Panels { values, rows, columns, width }
    }

    /// Adds rows times this matrix to as many columns as it has.
    pub(crate) fn add_product<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a [f32]>,
        out: Columns<'_>,
    ) {
        let rows: Vec<_> = rows.into_iter().collect();
        assert!(rows.iter().all(|row| row.len() == self.rows), "the inner sizes of a product");
        assert_eq!(out.values.len(), rows.len() * out.width, "the size of a product");
        assert!(out.from + self.columns <= out.width, "the columns of a product");
        Arch::new().dispatch(Product { rows: &rows, panels: self, out });
    }
}

/// Columns, from column `from` on, of rows of `width` numbers, to be written.
pub(crate) struct Columns<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) width: usize,
    pub(crate) from: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn all(values: &'a mut [f32], width: usize) -> Self {
        Columns { values, width, from: 0 }
    }
}

/// How many numbers a vector has.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> usize {
        S::F32_LANES
    }
}

struct Product<'a> {
    rows: &'a [&'a [f32]],
    panels: &'a Panels,
    out: Columns<'a>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Panels { values, rows, columns, width } = self.panels;
        let mut rest = &values[..];
        for first in (0..*rows).step_by(LINES) {
            let lines = LINES.min(rows - first);
            let parts: Vec<_> = self.rows.iter().map(|row| &row[first..first + lines]).collect();
            for from in (0..*columns).step_by(*width) {
                let (panel, after) = rest.split_at(lines * width);
                rest = after;
                let panel = S::as_simd_f32s(panel).0.as_chunks().0;
                add_panel(simd, &parts, panel, &mut self.out, from..(*columns).min(from + width));
            }
        }
    }
}

/// Adds the products of rows with a panel to some of the columns, counted from the first that the
/// whole product has.
#[inline(always)]
fn add_panel<S: Simd>(
    simd: S,
    rows: &[&[f32]],
    panel: &[[S::f32s; VECTORS]],
    out: &mut Columns<'_>,
    columns: Range<usize>,
) {
    let columns = out.from + columns.start..out.from + columns.end;
    // Tiles of nearly the same height: in one of a row or two the sums would wait for one another.
    let tiles = rows.len().div_ceil(ROWS);
    for tile in 0..tiles {
        let own = rows.len() * tile / tiles..rows.len() * (tile + 1) / tiles;
        let lines = out.values[own.start * out.width..].chunks_exact_mut(out.width);
        let lines = lines.map(|line| &mut line[columns.clone()]);
        match rows[own] {
            [a, b, c, d, e, f] => add(simd, sums(simd, panel, [a, b, c, d, e, f]), lines),
            [a, b, c, d, e] => add(simd, sums(simd, panel, [a, b, c, d, e]), lines),
            [a, b, c, d] => add(simd, sums(simd, panel, [a, b, c, d]), lines),
            [a, b, c] => add(simd, sums(simd, panel, [a, b, c]), lines),
            [a, b] => add(simd, sums(simd, panel, [a, b]), lines),
            [a] => add(simd, sums(simd, panel, [a]), lines),
            _ => unreachable!("a tile has 1 to {ROWS} rows"),
        }
    }
}

/// The products of some rows with a panel.
#[inline(always)]
fn sums<S: Simd, const N: usize>(
    simd: S,
    panel: &[[S::f32s; VECTORS]],
    rows: [&[f32]; N],
) -> [[S::f32s; VECTORS]; N] {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; N];
    let (blocks, rest) = panel.as_chunks::<UNROLLED>();
    for (place, lines) in blocks.iter().enumerate() {
        for (at, line) in lines.iter().enumerate() {
            for (row, sums) in rows.iter().zip(&mut sums) {
                add_line(simd, sums, line, row.as_chunks::<UNROLLED>().0[place][at]);
            }
        }
    }
    for (place, line) in rest.iter().enumerate() {
        for (row, sums) in rows.iter().zip(&mut sums) {
            add_line(simd, sums, line, row[blocks.len() * UNROLLED + place]);
        }
    }
    sums
}

#[inline(always)]
fn add_line<S: Simd>(simd: S, sums: &mut [S::f32s], line: &[S::f32s], number: f32) {
    let number = simd.splat_f32s(number);
    for (sum, vector) in sums.iter_mut().zip(line) {
        *sum = simd.mul_add_e_f32s(number, *vector, *sum);
    }
}

/// Adds sums to lines, which may be shorter than a panel is wide.
#[inline(always)]
fn add<'a, S: Simd, const N: usize>(
    simd: S,
    sums: [[S::f32s; VECTORS]; N],
    lines: impl Iterator<Item = &'a mut [f32]>,
) {
    for (line, sums) in lines.zip(&sums) {
        let (whole, part) = S::as_mut_simd_f32s(line);
        whole.iter_mut().zip(sums).for_each(|(out, sum)| *out = simd.add_f32s(*out, *sum));
        let rest: &[f32] = pulp::bytemuck::cast_slice(&sums[whole.len()..]);
        part.iter_mut().zip(rest).for_each(|(out, sum)| *out += sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::multiply;
    use proptest::prelude::*;

    #[test]
    #[should_panic(expected = "the columns of a product")]
    fn columns_that_are_not_there_are_not_written() {
        let panels = Panels::new(Matrix::new(&[1.0, 2.0], 1, 2));
        let target = Columns { values: &mut [0.0; 2], width: 2, from: 1 };
        panels.add_product([&[1.0_f32][..]], target);
    }

    #[test]
    #[should_panic(expected = "the inner sizes")]
    fn rows_that_do_not_fit_are_refused() {
        let panels = Panels::new(Matrix::new(&[1.0, 2.0], 1, 2));
        panels.add_product([&[1.0_f32, 1.0][..]], Columns::all(&mut [0.0; 2], 2));
    }

    proptest! {
        #[test]
        fn a_product_is_that_without_panels(
            rows in 0..20_usize,
            inner in prop_oneof![0..20_usize, 250..270_usize],
            columns in 1..40_usize,
            is_transposed: bool,
            seed in prop::collection::vec(-8..8_i8, 1009),
        ) {
            // Whole numbers, so that sums are the same in any order.
            let mut numbers = seed.iter().map(|number| f32::from(*number)).cycle();
            let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<_>>();
            let (from, width) = (7, columns + 9);
            let (a, b, before) = (take(rows * inner), take(inner * columns), take(rows * width));
            let right = match is_transposed {
                true => Matrix::new(&b, columns, inner).transposed(),
                false => Matrix::new(&b, inner, columns),
            };
            let mut product = vec![0.0; rows * columns];
            multiply(Matrix::new(&a, rows, inner), right, &mut product);
            let mut expected = before.clone();
            for (row, product) in product.chunks_exact(columns).enumerate() {
                let row = &mut expected[row * width + from..][..columns];
                row.iter_mut().zip(product).for_each(|(sum, number)| *sum += number);
            }

            let mut found = before;
            let left = (0..rows).map(|row| &a[row * inner..][..inner]);
            let target = Columns { values: &mut found, width, from };
            Panels::new(right).add_product(left, target);
            prop_assert_eq!(found, expected);
        }
    }
}
