//! Lines of Criteo's display advertising challenge. A sample has the values that
//! `paddle.dataset.criteo.parse` gives, to the bit.

use crate::columns::Columns;
use crate::format::{Fault, Parsed, shown};
use crate::number::{parse_f64, parse_u64};
use crate::plan::Plan;
use engine::batch::Rows;

pub(crate) const DENSE_FEATURES: usize = 13;
pub(crate) const SPARSE_FEATURES: usize = 26;
/// The numbers, the ids, the click.
pub(crate) const PLACES: usize = 1 + SPARSE_FEATURES + 1;
pub(crate) const CLICK: usize = PLACES - 1;

/// Most of the values of a column are in this range; it becomes 0 to 1.
const LOW: [f64; DENSE_FEATURES] = [0., -3., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
const HIGH: [f64; DENSE_FEATURES] =
    [20., 600., 100., 50., 64000., 500., 100., 50., 500., 10., 10., 10., 50.];

pub(crate) fn parse(line: &[u8], hash_size: u64, plan: &Plan, columns: &mut Columns) -> Parsed<()> {
    let fields = 1 + memchr::memchr_iter(b'\t', line).count();
    if fields != 1 + DENSE_FEATURES + SPARSE_FEATURES {
        let expected = format!("{} fields with tabs between", 1 + DENSE_FEATURES + SPARSE_FEATURES);
        return Err(Fault::of_line(expected, format!("{fields}: {}", shown(line))));
    }
    let mut fields = line.split(|byte| *byte == b'\t');
    let mut next = || fields.next().unwrap_or_default();
    let click = next();
    let numbers = plan.column(0);
    for column in 0..DENSE_FEATURES {
        let text = next();
        if let Some(Rows::Dense(values)) = numbers.map(|place| &mut columns.inputs[place].rows) {
            let number = match text {
                [] => Some(0.0),
                _ => parse_f64(text).map(|number| scaled(column, number)),
            };
            let number = number.filter(|number| number.is_finite());
            values.push(number.ok_or_else(|| Fault::at(0, "a number or nothing", text))?);
        }
    }
    for category in 0..SPARSE_FEATURES {
        let text = next();
        if let Some(column) = plan.column(1 + category) {
            let id = hash(category, text) % hash_size;
            match &mut columns.inputs[column].rows {
                Rows::Integer(ids) => ids.push(id),
                Rows::Sparse(lists) => {
                    lists.ids.push(id);
                    lists.offsets.push(lists.ids.len());
                }
                Rows::Dense(_) => {}
            }
        }
    }
    let clicked = parse_u64(click).filter(|click| *click <= 1);
    let clicked = clicked.ok_or_else(|| Fault::at(CLICK, "a click, 0 or 1", click))?;
    match plan.column(CLICK).map(|column| &mut columns.inputs[column].rows) {
        Some(Rows::Integer(ids)) => ids.push(clicked),
        Some(Rows::Dense(values)) => values.push(clicked as f32),
        Some(Rows::Sparse(_)) | None => {}
    }
    columns.samples += 1;
    Ok(())
}

fn scaled(column: usize, number: f64) -> f32 {
    ((number - LOW[column]) / (HIGH[column] - LOW[column])) as f32
}

/// `zlib.crc32(f"{category}:{text}")`, so that categories of different columns differ.
fn hash(category: usize, text: &[u8]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    let digits = [b'0' + (category / 10) as u8, b'0' + (category % 10) as u8, b':'];
    hasher.update(&digits[usize::from(category < 10)..]);
    hasher.update(text);
    hasher.finalize().into()
}
