//! MultiSlot text: `count value…` for every slot, with spaces or tabs between.
//!
//! What a value is follows from the data layer that the slot feeds; values of slots that nobody
//! wants are passed over.

use crate::columns::Columns;
use crate::format::{Fault, Parsed, shown};
use crate::number::{parse_f32, parse_u64};
use crate::plan::Plan;
use engine::batch::{NO_ID, Rows};
use engine::shape::{Level, Shape, Value};

pub(crate) fn parse(line: &[u8], plan: &Plan, columns: &mut Columns) -> Parsed<()> {
    let mut words = Words { rest: line };
    for place in 0..plan.slots() {
        let Some(word) = words.next() else {
            let expected = format!("{} slots", plan.slots());
            return Err(Fault::of_line(expected, format!("a line that ends after {place}")));
        };
        let count = parse_u64(word)
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| Fault::at(place, "how many values follow", word))?;
        match plan.column(place) {
            Some(column) => {
                let shape = plan.shape(column);
                read_values(&mut words, (place, count), shape, columns, column)?;
            }
            None => {
                for _ in 0..count {
                    words.next().ok_or_else(|| ends_early(place, count))?;
                }
            }
        }
    }
    match words.next() {
        None => {
            columns.samples += 1;
            Ok(())
        }
        Some(word) => {
            let expected = format!("the line to end after {} slots", plan.slots());
            Err(Fault::of_line(expected, shown(word)))
        }
    }
}

fn read_values(
    words: &mut Words<'_>,
    (place, count): (usize, usize),
    shape: &Shape,
    columns: &mut Columns,
    column: usize,
) -> Parsed<()> {
    check_count(place, count, shape)?;
    let input = &mut columns.inputs[column];
    match &mut input.rows {
        Rows::Dense(values) => {
            for _ in 0..count {
                let word = words.next().ok_or_else(|| ends_early(place, count))?;
                values.push(parse_f32(word).ok_or_else(|| Fault::at(place, "a number", word))?);
            }
        }
        Rows::Integer(ids) => {
            for _ in 0..count {
                let word = words.next().ok_or_else(|| ends_early(place, count))?;
                ids.push(parse_id(word, shape, true).ok_or_else(|| bad_id(place, shape, word))?);
            }
        }
        Rows::Sparse(lists) => {
            for _ in 0..count {
                let word = words.next().ok_or_else(|| ends_early(place, count))?;
                let id = parse_id(word, shape, false).ok_or_else(|| bad_id(place, shape, word))?;
                lists.ids.push(id);
            }
            lists.offsets.push(lists.ids.len());
        }
    }
    if let Some(sequences) = &mut input.sequences {
        sequences.push(input.rows.len(shape.size));
    }
    Ok(())
}

/// Whether a slot may have so many values.
fn check_count(place: usize, count: usize, shape: &Shape) -> Parsed<()> {
    let is_single = shape.level == Level::Single;
    let (is_good, expected) = match shape.value {
        Value::Dense if is_single => (count == shape.size, format!("{} values", shape.size)),
        Value::Dense => {
            let is_whole = count.checked_rem(shape.size).is_some_and(|rest| rest == 0);
            (is_whole, format!("rows of {} values", shape.size))
        }
        Value::Integer if is_single => (count == 1, "1 value".to_owned()),
        Value::Integer | Value::SparseBinary | Value::SparseFloat => (true, String::new()),
    };
    match is_good {
        true => Ok(()),
        false => Err(Fault::at(place, expected, count.to_string().as_bytes())),
    }
}

/// An id below the layer's size, if it has one; -1 is no id, where that may be.
fn parse_id(word: &[u8], shape: &Shape, may_be_none: bool) -> Option<u64> {
    if may_be_none && word == b"-1" {
        return Some(NO_ID);
    }
    parse_u64(word).filter(|id| *id != NO_ID && (shape.size == 0 || *id < shape.size as u64))
}

fn bad_id(place: usize, shape: &Shape, word: &[u8]) -> Box<Fault> {
    let most = if shape.size == 0 { NO_ID - 1 } else { shape.size as u64 - 1 };
    Fault::at(place, format!("an id from 0 to {most}"), word)
}

fn ends_early(place: usize, count: usize) -> Box<Fault> {
    Fault::at(place, format!("{count} values"), b"")
}

/// The words of a line, one after the other.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let is_space = |byte: &u8| *byte == b' ' || *byte == b'\t';
        let start = self.rest.iter().position(|byte| !is_space(byte))?;
        let word = &self.rest[start..];
        let end = word.iter().position(is_space).unwrap_or(word.len());
        self.rest = &word[end..];
        Some(&word[..end])
    }
}
