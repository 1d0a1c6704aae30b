//! Products in which one of the sizes is a handful: the last layer of a classifier, both ways. The
//! kernels for matrices leave most of a register empty there; loops along the long sizes do not.

use super::Matrix;
use crate::vector::widely;

/// The largest size that counts as narrow.
const NARROW: usize = 4;
const LANES: usize = 16;

/// `a·b`, row after row, if it is narrow in a way that is written here.
pub(super) fn product(a: Matrix<'_>, b: Matrix<'_>) -> Option<Vec<f32>> {
    let product = match (a.columns, b.columns) {
        (1..=NARROW, _) => sums_of_rows,
        (_, 1..=NARROW) if a.column_stride == 1 => dots,
        (_, 1..=NARROW) if a.row_stride == 1 => sums_of_columns,
        _ => return None,
    };
    Some(product(a, b))
}

/// Each row of the product is a sum of the few rows of `b`.
fn sums_of_rows(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let rows: Vec<Vec<f32>> =
        (0..b.rows).map(|row| (0..b.columns).map(|column| b.at(row, column)).collect()).collect();
    let mut product = Vec::with_capacity(a.rows * b.columns);
    widely(
        #[inline(always)]
        || {
            for number in 0..a.rows {
                let (done, factor) = (product.len(), a.at(number, 0));
                product.extend(rows[0].iter().map(|number| factor * number));
                for (inner, row) in rows.iter().enumerate().skip(1) {
                    let factor = a.at(number, inner);
                    let pairs = product[done..].iter_mut().zip(row);
                    pairs.for_each(|(sum, number)| *sum += factor * number);
                }
            }
        },
    );
    product
}

/// Rows of `a` lie in one piece: each number is the product of a row with one of few columns.
fn dots(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let columns: Vec<Vec<f32>> =
        (0..b.columns).map(|column| (0..b.rows).map(|row| b.at(row, column)).collect()).collect();
    let mut product = Vec::with_capacity(a.rows * b.columns);
    widely(
        #[inline(always)]
        || {
            for row in 0..a.rows {
                let row = &a.values[row * a.row_stride..][..a.columns];
                for column in &columns {
                    product.push(dot(row, column));
                }
            }
        },
    );
    product
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.into_iter().sum::<f32>() + rest
}

/// Columns of `a` lie in one piece: each column of the product is a sum of them.
fn sums_of_columns(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let mut columns = vec![vec![0.0; a.rows]; b.columns];
    widely(
        #[inline(always)]
        || {
            for inner in 0..a.columns {
                let from = &a.values[inner * a.column_stride..][..a.rows];
                for (number, column) in columns.iter_mut().enumerate() {
                    let factor = b.at(inner, number);
                    column.iter_mut().zip(from).for_each(|(sum, number)| *sum += factor * number);
                }
            }
        },
    );
    (0..a.rows * b.columns).map(|place| columns[place % b.columns][place / b.columns]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn narrow_products_are_those_of_any_matrices(
            (rows, inner, columns) in (1..40usize, 1..40usize, 1..40usize),
            (narrow, narrow_size) in (0..2usize, 1..=NARROW),
            is_a_transposed: bool, is_b_transposed: bool,
        ) {
            let [inner, columns] = match narrow {
                0 => [narrow_size, columns],
                _ => [inner, narrow_size],
            };
            let numbers = |count: usize, salt: usize| -> Vec<f32> {
                (0..count).map(|at| ((at * 31 + salt) % 17) as f32 - 8.0).collect()
            };
            let (a, b) = (numbers(rows * inner, 1), numbers(inner * columns, 5));
            let matrix = |values, rows, columns, is_transposed| match is_transposed {
                false => Matrix::new(values, rows, columns),
                true => Matrix::new(values, columns, rows).transposed(),
            };
            let a = matrix(&a, rows, inner, is_a_transposed);
            let b = matrix(&b, inner, columns, is_b_transposed);
            let found = product(a, b).expect("it is narrow");
            // Whole numbers, so that no order of sums rounds.
            let mut expected = vec![0.0; rows * columns];
            super::super::multiply(a, b, &mut expected);
            prop_assert_eq!(found, expected);
        }
    }
}
