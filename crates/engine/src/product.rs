//! Products of matrices that lie in slices, for operations written by hand: Burn's own make a new
//! tensor of each result, where here one piece of memory is written again and again.

use std::ops::Range;

/// A matrix in a slice, or the transposed one of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Row after row.
    pub(crate) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} x {columns}");
        Matrix { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Rows of `width` numbers, as many as there are.
    pub(crate) fn of_width(values: &'a [f32], width: usize) -> Self {
        Matrix::new(values, values.len() / width, width)
    }

    /// `count` columns, from column `from` on, of rows of `width` numbers.
    pub(crate) fn columns_of(values: &'a [f32], width: usize, from: usize, count: usize) -> Self {
        assert!(from + count <= width, "columns {from} and {count} more of {width}");
        let rows = values.len() / width;
        let values = values.get(from..).unwrap_or(&[]);
        Matrix { values, rows, columns: count, row_stride: width, column_stride: 1 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Appends these columns of a row to `out`.
    pub(crate) fn append_row(&self, row: usize, columns: Range<usize>, out: &mut Vec<f32>) {
        let row = &self.values[row * self.row_stride..];
        match self.column_stride {
            1 => out.extend_from_slice(&row[columns]),
            stride => out.extend(columns.map(|column| row[column * stride])),
        }
    }

    /// The same numbers with rows for columns.
    pub(crate) fn transposed(self) -> Self {
        Matrix {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// Writes `a·b` to `out`, row after row.
pub(crate) fn multiply(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32]) {
    compute(a, b, out, false);
}

/// `a·b`, row after row. Large products are shared by the threads of the pool that it runs in.
#[expect(unsafe_code, reason = "the kernels take pointers; clearing the memory first costs more")]
pub(crate) fn product(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    const SHARED_WORK: usize = 192 * 192 * 192;
    assert_eq!(a.columns, b.rows, "the inner sizes of a product");
    let elements = a.rows * b.columns;
    if elements == 0 || a.columns == 0 {
        return vec![0.0; elements];
    }
    let is_shared = elements * a.columns >= SHARED_WORK && rayon::current_num_threads() > 1;
    let parallelism = match is_shared {
        true => gemm::Parallelism::Rayon(0),
        false => gemm::Parallelism::None,
    };
    let mut out = Vec::with_capacity(elements);
    // SAFETY: as in `compute` for the inputs. `out` has room for a whole product, which the kernel
    // writes without reading what was there; only then is it as long.
    unsafe {
        call(a, b, out.as_mut_ptr(), false, parallelism);
        out.set_len(elements);
    }
    out
}

/// Adds `a·b` to `out`.
pub(crate) fn add_product(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32]) {
    compute(a, b, out, true);
}

#[expect(unsafe_code, reason = "the kernels take pointers; a tensor for each product costs more")]
fn compute(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], is_sum: bool) {
    assert_eq!(a.columns, b.rows, "the inner sizes of a product");
    assert_eq!(out.len(), a.rows * b.columns, "the size of a product");
    if out.is_empty() || (a.columns == 0 && is_sum) {
        return;
    }
    // SAFETY: the constructors checked that rows of a matrix are whole and its columns inside
    // them, so every element lies in its slice by its strides; and the assertions above the same of
    // `out`. It is borrowed exclusively, so it overlaps neither; the kernels read and write at
    // these indices only.
    unsafe { call(a, b, out.as_mut_ptr(), is_sum, gemm::Parallelism::None) }
}

/// Writes `a·b` to `out`, or adds it there.
///
/// # Safety
/// Elements of the matrices must lie in their slices by their strides. `out` must point to room for
/// the product that nobody else uses; if it is added there, to numbers.
#[expect(unsafe_code, reason = "the kernels take pointers")]
unsafe fn call(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: *mut f32,
    is_sum: bool,
    parallelism: gemm::Parallelism,
) {
    // SAFETY: what the caller promises is what the kernels need.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out,
            1,
            b.columns as isize,
            is_sum,
            a.values.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.values.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            f32::from(u8::from(is_sum)),
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const B: [f32; 6] = [1.0, 0.0, -1.0, 2.0, 1.0, 0.5];

    type Product = fn(Matrix<'_>, Matrix<'_>, &mut [f32]);

    fn check(a: Matrix<'_>, b: Matrix<'_>, product: Product, expect: [f32; 4]) {
        let mut out = [10.0; 4];
        product(a, b, &mut out);
        assert_eq!(out, expect);
    }

    #[test]
    fn a_product_replaces_what_was_there_or_is_added_to_it() {
        let (a, b) = (Matrix::new(&A, 2, 3), Matrix::new(&B, 3, 2));
        check(a, b, multiply, [2.0, 5.5, 5.0, 13.0]);
        check(a, b, add_product, [12.0, 15.5, 15.0, 23.0]);
    }

    #[test]
    fn a_transposed_matrix_is_read_by_columns() {
        let (a, b) = (Matrix::new(&A, 3, 2), Matrix::new(&B, 2, 3));
        check(a.transposed(), b.transposed(), multiply, [-4.0, 7.5, -4.0, 11.0]);
    }

    #[test]
    fn a_product_over_nothing_is_zero() {
        let nothing = Matrix::new(&[], 2, 0);
        check(nothing, nothing.transposed(), multiply, [0.0; 4]);
        check(nothing, nothing.transposed(), add_product, [10.0; 4]);
    }

    #[test]
    fn some_columns_are_read_and_no_others() {
        // The second and third column of two rows of three.
        let a = Matrix::columns_of(&A, 3, 1, 2);
        check(a, Matrix::new(&B[..4], 2, 2), multiply, [-1.0, 6.0, -1.0, 12.0]);
        check(a.transposed(), a, add_product, [39.0, 46.0, 46.0, 55.0]);
    }

    #[test]
    #[should_panic(expected = "the inner sizes")]
    fn sizes_that_do_not_fit_are_refused() {
        check(Matrix::new(&A, 2, 3), Matrix::new(&B, 2, 3), multiply, [0.0; 4]);
    }
}
