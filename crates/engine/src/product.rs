//! Products of matrices that lie in slices, for operations written by hand.

/// Multiply-adds from which on the threads of the pool share a product, as in Burn's own.
const PARALLEL_WORK: usize = 192 * 192 * 192;

/// A matrix in a slice: element (i, j) is at `i·row_stride + j·column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    values: &'a [f32],
    dims: [usize; 2],
    strides: [usize; 2],
}

impl<'a> View<'a> {
    /// Rows of `columns` numbers that follow one another.
    pub(crate) fn rows(values: &'a [f32], columns: usize) -> Self {
        View::columns_of(values, columns, 0, columns)
    }

    /// Some columns of rows of `width` numbers.
    pub(crate) fn columns_of(values: &'a [f32], width: usize, from: usize, count: usize) -> Self {
        let rows = values.len() / width;
        View { values: values.get(from..).unwrap_or(&[]), dims: [rows, count], strides: [width, 1] }
    }

    /// Its columns as rows.
    pub(crate) fn transposed(self) -> Self {
        let swap = |[a, b]: [usize; 2]| [b, a];
        View { values: self.values, dims: swap(self.dims), strides: swap(self.strides) }
    }

    /// Whether every element is in the slice.
    fn is_within(&self) -> bool {
        let last = |axis: usize| (self.dims[axis] - 1) * self.strides[axis];
        self.dims.contains(&0) || last(0) + last(1) < self.values.len()
    }
}

/// Where a product goes: some columns of rows of `width` numbers.
pub(crate) struct Target<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) width: usize,
    pub(crate) from: usize,
}

impl<'a> Target<'a> {
    pub(crate) fn rows(values: &'a mut [f32], width: usize) -> Self {
        Target { values, width, from: 0 }
    }
}

/// Adds `a·b` to the target.
///
/// # Panics
/// If the sizes do not fit: a mistake of the caller.
pub(crate) fn add_product(target: Target<'_>, a: View<'_>, b: View<'_>) {
    let Target { values, width, from } = target;
    let ([rows, depth], [other, columns]) = (a.dims, b.dims);
    assert_eq!(depth, other, "columns of one are rows of the other");
    if rows == 0 || columns == 0 || depth == 0 {
        return;
    }
    assert!(from + columns <= width && rows * width <= values.len(), "the target has room");
    assert!(a.is_within() && b.is_within(), "matrices lie in their slices");
    let is_large = rows.saturating_mul(columns).saturating_mul(depth) >= PARALLEL_WORK;
    let parallelism = match is_large && rayon::current_num_threads() > 1 {
        true => gemm::Parallelism::Rayon(0),
        false => gemm::Parallelism::None,
    };
    let stride = |stride: usize| stride as isize;
    #[expect(unsafe_code, reason = "the product takes pointers")]
    // SAFETY: gemm reads rows·depth and depth·columns elements by the strides of `a` and `b`, and
    // reads and writes rows·columns elements of the target from `from` on, rows being `width`
    // apart. The assertions above put the last of each inside its slice, none of the strides is
    // negative, and `values` is borrowed for writing, so it overlaps neither `a` nor `b`.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            values.as_mut_ptr().add(from),
            1,
            stride(width),
            true,
            a.values.as_ptr(),
            stride(a.strides[1]),
            stride(a.strides[0]),
            b.values.as_ptr(),
            stride(b.strides[1]),
            stride(b.strides[0]),
            1.0,
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
    use proptest::prelude::*;

    fn element(view: &View<'_>, row: usize, column: usize) -> f32 {
        view.values[row * view.strides[0] + column * view.strides[1]]
    }

    fn check(target: &mut [f32], width: usize, from: usize, [a, b]: [View<'_>; 2]) {
        let mut expected = target.to_vec();
        for row in 0..a.dims[0] {
            for column in 0..b.dims[1] {
                let terms = (0..a.dims[1]).map(|at| element(&a, row, at) * element(&b, at, column));
                expected[row * width + from + column] += terms.sum::<f32>();
            }
        }
        add_product(Target { values: target, width, from }, a, b);
        for (found, expected) in target.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4, "{found} instead of {expected}");
        }
    }

    proptest! {
        #[test]
        fn a_product_is_added_to_its_columns_and_to_no_others(
            [rows, depth, columns, left, right] in [0..9_usize, 0..9, 0..9, 0..3, 0..3],
            numbers in prop::collection::vec(-2.0..2.0_f32, 500),
        ) {
            let wide = left + depth + right;
            let a = View::columns_of(&numbers[..rows * wide.max(1)], wide.max(1), left, depth);
            let b = View::rows(&numbers[100..100 + columns * depth], depth.max(1)).transposed();
            let b = View { dims: [depth, columns], ..b };
            let width = left + columns + right;
            let mut target = numbers[200..200 + rows * width].to_vec();
            if width > 0 && depth > 0 {
                check(&mut target, width, left, [a, b]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "columns of one are rows of the other")]
    fn matrices_that_do_not_fit_are_refused() {
        let numbers = [0.0; 6];
        add_product(
            Target::rows(&mut [0.0; 9], 3),
            View::rows(&numbers, 2),
            View::rows(&numbers, 2),
        );
    }

    #[test]
    #[should_panic(expected = "the target has room")]
    fn a_target_that_is_too_small_is_refused() {
        let numbers = [0.0; 6];
        add_product(
            Target::rows(&mut [0.0; 8], 3),
            View::rows(&numbers, 2),
            View::rows(&numbers, 3),
        );
    }
}
