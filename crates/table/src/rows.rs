//! Rules applied to the rows of a store, all keys of a request in one call.
//!
//! A request has thousands of rows of some dozen numbers. One at a time, each would cost more in
//! calls and checks than in arithmetic; here the whole walk is compiled for the instructions that
//! the processor has. The bits are those of [`Update::apply`], row by row.

use crate::optimizer::{Now, Update};
use crate::store::{Row, SparseTable};
use contract::Result;

/// Copies the values of the rows of `keys` to `out`, in their order, and appends the numbers of the
/// rows to `numbers`, for [`update_again`]. Rows settle what they owe before. A missing row is
/// created: `create` gets its key and its value, all zeros.
///
/// # Errors
/// As [`SparseTable::visit`].
///
/// # Panics
/// If `out` has no room for every row.
pub fn fetch(
    table: &mut SparseTable,
    (update, now): (&Update, &Now),
    keys: &[u64],
    (out, numbers): (&mut [f32], &mut Vec<u32>),
    mut create: impl FnMut(u64, &mut [f32]),
) -> Result<()> {
    let width = table.shape().width;
    let create = |key: u64, row: Row<'_>| create(key, row.value);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || match update.needs_catch_up() {
            true => table.visit_numbered(
                keys,
                create,
                #[inline(always)]
                |place, number, row| {
                    update.catch_up(now, row.value, row.state, row.counters);
                    numbers.push(number);
                    copy(row.value, &mut out[place * width..][..width]);
                },
            ),
            false => table.read_numbered(
                keys,
                create,
                #[inline(always)]
                |place, number, row| {
                    numbers.push(number);
                    copy(row.value, &mut out[place * width..][..width]);
                },
            ),
        },
    )
}

/// Applies gradients, one behind the other, to the rows of `keys`. A missing row is created, as in
/// [`fetch`].
///
/// # Errors
/// As [`SparseTable::visit`].
///
/// # Panics
/// If there is no gradient for every row.
pub fn update(
    table: &mut SparseTable,
    (update, now): (&Update, &Now),
    keys: &[u64],
    gradients: &[f32],
    mut create: impl FnMut(u64, &mut [f32]),
) -> Result<()> {
    let width = table.shape().width;
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            table.visit(
                keys,
                |key, row| create(key, row.value),
                #[inline(always)]
                |place, row| {
                    let gradient = &gradients[place * width..][..width];
                    update.apply_here(now, gradient, row.value, row.state, row.counters);
                },
            )
        },
    )
}

/// As [`update`], to rows whose numbers are known from [`fetch`].
pub fn update_again(
    table: &mut SparseTable,
    (update, now): (&Update, &Now),
    numbers: &[u32],
    gradients: &[f32],
) {
    let width = table.shape().width;
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            table.visit_again(
                numbers,
                #[inline(always)]
                |place, row| {
                    let gradient = &gradients[place * width..][..width];
                    update.apply_here(now, gradient, row.value, row.state, row.counters);
                },
            );
        },
    );
}

/// Copies a row. Of a length that is known here it takes no call.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    match from.len() {
        8 => to[..8].copy_from_slice(&from[..8]),
        16 => to[..16].copy_from_slice(&from[..16]),
        32 => to[..32].copy_from_slice(&from[..32]),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{Optimizer, Rule, Settings};
    use crate::store::Shape;

    const RATE: f64 = 0.1;

    fn numbers(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 31 + salt) % 97) as f32 / 50.0 - 1.0).collect()
    }

    fn first(key: u64, value: &mut [f32]) {
        value.iter_mut().enumerate().for_each(|(at, one)| *one = (key as f32 + at as f32) / 8.0);
    }

    fn content(table: &SparseTable) -> Vec<(u64, Vec<u32>)> {
        let mut rows = Vec::new();
        table.scan(0, table.len(), |key, row| {
            let bits = row.value.iter().chain(row.state).map(|one| one.to_bits());
            rows.push((key, bits.chain(row.counters.iter().copied()).collect()));
        });
        rows
    }

    /// Trains two tables for some steps, one with a call for all rows and one row by row.
    fn check(name: &str, settings: Settings, width: usize) {
        let rule: Rule = serde_json::from_value(serde_json::json!({ "name": name })).unwrap();
        let update_of_rows = Update::new(&Optimizer::new(rule, RATE), &settings, true).unwrap();
        let columns = update_of_rows.columns();
        let (state, counters) = (columns.state.len() * width, columns.counters.len());
        let table = || SparseTable::new(Shape { width, state, counters }, usize::MAX);
        let (mut together, mut alone) = (table(), table());
        for step in 0..6_u64 {
            let keys: Vec<u64> = (0..40).map(|at| (at * 7 + step * 3) % 50).collect();
            let (now, gradients) = (Now { step, rate: 0.1 }, numbers(40 * width, step as usize));
            let rule = (&update_of_rows, &now);
            let (mut out, mut found) = (vec![0.0; 40 * width], Vec::new());
            fetch(&mut together, rule, &keys, (&mut out, &mut found), first).unwrap();
            match step % 2 {
                0 => update(&mut together, rule, &keys, &gradients, first).unwrap(),
                _ => update_again(&mut together, rule, &found, &gradients),
            }
            let mut expected = Vec::new();
            for pass in 0..2 {
                for (key, gradient) in keys.iter().zip(gradients.chunks(width)) {
                    let visit = |_, row: Row<'_>| {
                        let Row { value, state, counters } = row;
                        match pass {
                            0 => {
                                update_of_rows.catch_up(&now, value, state, counters);
                                expected.extend_from_slice(value);
                            }
                            _ => update_of_rows.apply(&now, gradient, value, state, counters),
                        }
                    };
                    alone.visit(&[*key], |key, row| first(key, row.value), visit).unwrap();
                }
            }
            let bits = |all: &[f32]| all.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&out), bits(&expected), "{name}, {width} wide, step {step}");
        }
        assert_eq!(content(&together), content(&alone), "{name}, {width} wide");
    }

    #[test]
    fn rows_together_get_the_bits_of_rows_one_by_one() {
        let plain = Settings::default();
        let decay = Settings { l2: 0.5, ..plain };
        let bounds = Settings { l1: 0.01, clip: Some(0.3), momentum: Some(0.9), ..decay };
        let rules = [
            "momentum",
            "adagrad",
            "decayed_adagrad",
            "adadelta",
            "rmsprop",
            "adam",
            "adamax",
            "ftrl",
        ];
        for name in rules {
            for settings in [plain, decay, bounds] {
                for width in [1, 3, 8, 16, 17, 32, 40] {
                    check(name, settings, width);
                }
            }
        }
    }
}
