//! Samples as Python programs yield them → a batch for the engine.
//!
//! A sample is a tuple; a data layer takes one place of it. Everything is checked here, because
//! here it is still known which sample of which batch is wrong: errors say the layer, the place,
//! the sample, what was expected and what came.

use crate::error::raise;
use contract::{Error, Result};
use engine::batch::{Batch, Input, Lists, NO_ID, Rows};
use engine::shape::{Level, Shape, Value};
use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple};

/// A data layer, and the place of its value in a sample.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) place: usize,
}

/// Converts the samples of one batch.
pub(crate) fn feed(samples: &Bound<'_, PyAny>, columns: &[Column]) -> PyResult<Batch> {
    let samples = list_of(samples)?;
    if samples.is_empty() {
        return Err(raise(Error::invalid("a batch must have at least one sample")));
    }
    let inputs = columns.iter().map(|column| feed_column(&samples, column));
    let inputs = inputs.collect::<Result<_>>().map_err(raise)?;
    Ok(Batch { samples: samples.len(), inputs })
}

/// The samples of a batch, however many it claims to have: any object may say what it likes.
fn list_of<'py>(batch: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    // Arrays and users' own classes are sequences, though they do not say so.
    let is_other = batch.is_instance_of::<PyString>() || batch.is_instance_of::<PyDict>();
    let is_sequence = !is_other && batch.hasattr("__getitem__")?;
    if !is_sequence {
        return Err(raise(Error::invalid(format!(
            "a batch must be a list of samples but is {}; wrap the reader with paddle.batch",
            describe(batch)
        ))));
    }
    let mut samples = Vec::new();
    for sample in batch.try_iter()? {
        samples.push(sample?);
    }
    Ok(samples)
}

fn feed_column(samples: &[Bound<'_, PyAny>], column: &Column) -> Result<Input> {
    let mut collected = Collected::new(&column.shape, samples.len());
    for (number, sample) in samples.iter().enumerate() {
        let fed = pick(sample, column).and_then(|value| match column.shape.level {
            Level::Single => collected.push(&value),
            Level::Sequence => collected.push_sequence(&value),
            Level::Nested => collected.push_nested(&value),
        });
        fed.map_err(|mismatch| mismatch.to_error(column, number))?;
    }
    let Collected { rows, sequences, nests, .. } = collected;
    let level = column.shape.level;
    Ok(Input {
        rows,
        sequences: (level != Level::Single).then_some(sequences),
        nests: (level == Level::Nested).then_some(nests),
    })
}

/// The value of a column in a sample. A reader of one slot may yield it without a tuple.
fn pick<'py>(sample: &Bound<'py, PyAny>, column: &Column) -> Fed<Bound<'py, PyAny>> {
    let width = match (sample.cast::<PyTuple>(), sample.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.len(),
        (_, Ok(list)) => list.len(),
        _ => {
            let expected = "a tuple with a value for every data layer".to_owned();
            return Err(Mismatch { expected, got: describe(sample) });
        }
    };
    sample.get_item(column.place).map_err(|_| Mismatch {
        expected: format!("a sample with at least {} values", column.place + 1),
        got: format!("one with {width}"),
    })
}

/// What a sample should have had and what it has.
struct Mismatch {
    expected: String,
    got: String,
}

type Fed<T> = std::result::Result<T, Mismatch>;

impl Mismatch {
    fn to_error(&self, column: &Column, sample: usize) -> Error {
        Error::invalid(format!("expected {}, got {}", self.expected, self.got))
            .with("data layer", &column.name)
            .with("slot", column.place)
            .with("sample of the batch", sample)
    }
}

/// Rows collected so far.
struct Collected {
    shape: Shape,
    rows: Rows,
    /// Where sequences begin in the rows.
    sequences: Vec<usize>,
    /// Where samples of nested sequences begin in the sequences.
    nests: Vec<usize>,
}

impl Collected {
    fn new(shape: &Shape, samples: usize) -> Collected {
        let rows = match shape.value {
            Value::Dense => Rows::Dense(Vec::with_capacity(samples * shape.size)),
            Value::Integer => Rows::Integer(Vec::with_capacity(samples)),
            Value::SparseBinary | Value::SparseFloat => Rows::Sparse(Lists {
                offsets: vec![0],
                ids: Vec::new(),
                values: (shape.value == Value::SparseFloat).then(Vec::new),
            }),
        };
        Collected { shape: *shape, rows, sequences: vec![0], nests: vec![0] }
    }

    fn push_nested(&mut self, value: &Bound<'_, PyAny>) -> Fed<()> {
        for item in self.items(value)? {
            self.push_sequence(&item)?;
        }
        self.nests.push(self.sequences.len() - 1);
        Ok(())
    }

    fn push_sequence(&mut self, value: &Bound<'_, PyAny>) -> Fed<()> {
        if !self.push_whole_array(value)? {
            for item in self.items(value)? {
                self.push(&item)?;
            }
        }
        self.sequences.push(self.rows.len(self.shape.size));
        Ok(())
    }

    /// What a sequence consists of.
    fn items<'py>(&self, value: &Bound<'py, PyAny>) -> Fed<Vec<Bound<'py, PyAny>>> {
        let expected = || format!("a sequence ({})", self.shape);
        let items = value
            .try_iter()
            .ok()
            .filter(|_| is_ordered(value))
            .ok_or_else(|| Mismatch { expected: expected(), got: describe(value) })?;
        items.collect::<PyResult<_>>().map_err(|raised| Mismatch {
            expected: expected(),
            got: format!("one that fails: {raised}"),
        })
    }

    /// A sequence that is one numpy array: rows of numbers, or ids.
    fn push_whole_array(&mut self, value: &Bound<'_, PyAny>) -> Fed<bool> {
        let size = self.shape.size;
        match &mut self.rows {
            Rows::Dense(values) => {
                let Some(array) = float_array(value) else { return Ok(false) };
                if array.ndim() < 2 && size != 1 {
                    return Ok(false);
                }
                if array.len() % size != 0 || array.shape()[1..].iter().product::<usize>() != size {
                    return Err(Mismatch {
                        expected: format!("rows of {size} numbers"),
                        got: format!("an array of shape {:?}", array.shape()),
                    });
                }
                extend(values, &array);
                Ok(true)
            }
            Rows::Integer(ids) => {
                let Ok(array) = value.cast::<PyArrayDyn<i64>>() else { return Ok(false) };
                for id in array.readonly().as_array().iter() {
                    ids.push(check_id(*id as i128, size)?);
                }
                Ok(true)
            }
            Rows::Sparse(_) => Ok(false),
        }
    }

    fn push(&mut self, value: &Bound<'_, PyAny>) -> Fed<()> {
        let size = self.shape.size;
        match &mut self.rows {
            Rows::Dense(values) => push_dense(values, value, size),
            Rows::Integer(ids) => {
                ids.push(check_id(integer(value)?, size)?);
                Ok(())
            }
            Rows::Sparse(lists) => {
                push_list(lists, value, size)?;
                lists.offsets.push(lists.ids.len());
                Ok(())
            }
        }
    }
}

fn push_dense(values: &mut Vec<f32>, value: &Bound<'_, PyAny>, size: usize) -> Fed<()> {
    let wrong = |got: String| Mismatch { expected: format!("{size} numbers"), got };
    let before = values.len();
    if let Some(array) = float_array(value) {
        if array.len() != size {
            return Err(wrong(format!("an array of shape {:?}", array.shape())));
        }
        extend(values, &array);
        return Ok(());
    }
    if let Ok(list) = value.cast::<PyList>() {
        for item in list.iter() {
            values.push(number(&item)?);
        }
    } else if !is_ordered(value) {
        return Err(wrong(describe(value)));
    } else if size == 1 && value.extract::<f64>().is_ok() {
        values.push(number(value)?);
    } else {
        let items = value.try_iter().map_err(|_| wrong(describe(value)))?;
        for item in items {
            values.push(number(&item.map_err(|raised| wrong(raised.to_string()))?)?);
        }
    }
    match values.len() - before {
        count if count == size => Ok(()),
        count => Err(wrong(format!("{count}"))),
    }
}

/// Whether a value may be a row or a sequence. A text is none, and what a dict or a set iterates
/// over are keys, in no order that means anything.
fn is_ordered(value: &Bound<'_, PyAny>) -> bool {
    !(value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>())
}

fn push_list(lists: &mut Lists, value: &Bound<'_, PyAny>, size: usize) -> Fed<()> {
    let has_values = lists.values.is_some();
    let expected = if has_values { "a list of (id, number) pairs" } else { "a list of ids" };
    let wrong = |got: String| Mismatch { expected: expected.to_owned(), got };
    if let (false, Ok(array)) = (has_values, value.cast::<PyArrayDyn<i64>>()) {
        // Copied twice, which takes a third of the time of noting who borrows the array.
        match array.to_vec() {
            Ok(ids) if are_ids(&ids, size) => lists.ids.extend(ids.iter().map(|id| *id as u64)),
            _ => {
                for id in array.readonly().as_array().iter() {
                    lists.ids.push(check_id(i128::from(*id), size)?);
                }
                refuse_no_id(lists, wrong)?;
            }
        }
        return Ok(());
    }
    let items = value.try_iter().ok().filter(|_| !value.is_instance_of::<PyString>());
    let items = items.ok_or_else(|| wrong(describe(value)))?;
    for item in items {
        let item = item.map_err(|raised| wrong(raised.to_string()))?;
        if let Some(values) = &mut lists.values {
            let pair: (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                item.extract().map_err(|_| wrong(format!("a list with {}", describe(&item))))?;
            lists.ids.push(check_id(integer(&pair.0)?, size)?);
            values.push(number(&pair.1)?);
        } else {
            lists.ids.push(check_id(integer(&item)?, size)?);
        }
    }
    refuse_no_id(lists, wrong)
}

/// Whether all of them are ids below `size`, where 0 is no bound. Those of most batches are; which
/// one is not, a closer look has to tell.
fn are_ids(ids: &[i64], size: usize) -> bool {
    // As a number without sign, what is below 0 is higher than any bound.
    let bound = if size == 0 { i64::MAX as u64 } else { size as u64 - 1 };
    ids.iter().all(|id| *id as u64 <= bound.min(i64::MAX as u64))
}

/// A list of ids has no place for "no id".
fn refuse_no_id(lists: &Lists, wrong: impl Fn(String) -> Mismatch) -> Fed<()> {
    let first = lists.offsets.last().copied().unwrap_or(0);
    if lists.ids[first..].contains(&NO_ID) {
        return Err(wrong("the id -1".to_owned()));
    }
    Ok(())
}

fn number(value: &Bound<'_, PyAny>) -> Fed<f32> {
    match value.cast::<PyFloat>() {
        Ok(float) => Ok(float.value() as f32),
        Err(_) => value
            .extract::<f64>()
            .map(|number| number as f32)
            .map_err(|_| Mismatch { expected: "a number".to_owned(), got: describe(value) }),
    }
}

/// An integer of any of Python's or numpy's types, but not a number that only looks like one.
fn integer(value: &Bound<'_, PyAny>) -> Fed<i128> {
    let wrong = || Mismatch { expected: "an integer".to_owned(), got: describe(value) };
    if value.is_instance_of::<PyInt>() {
        if let Ok(small) = value.extract::<i64>() {
            return Ok(i128::from(small));
        }
        return value.extract::<u64>().map(i128::from).map_err(|_| wrong());
    }
    let index = value.call_method0("__index__").map_err(|_| wrong())?;
    index.extract::<i64>().map(i128::from).map_err(|_| wrong())
}

/// An id below `size`; -1 is no id, and 0 is no bound.
fn check_id(id: i128, size: usize) -> Fed<u64> {
    let is_below = size == 0 || id < size as i128;
    match u64::try_from(id) {
        Ok(NO_ID) => {}
        Ok(id) if is_below => return Ok(id),
        _ if id == -1 => return Ok(NO_ID),
        _ => {}
    }
    let expected = if size == 0 {
        "an id from 0 to 18446744073709551614".to_owned()
    } else {
        format!("an id from 0 to {}", size - 1)
    };
    Err(Mismatch { expected, got: id.to_string() })
}

/// A numpy array of floats, as f32.
fn float_array<'py>(value: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, f32>> {
    if let Ok(array) = value.cast::<PyArrayDyn<f32>>() {
        return array.try_readonly().ok();
    }
    // Other element types are rare enough to be converted by numpy itself.
    if value.hasattr("dtype").unwrap_or(false) && value.hasattr("astype").unwrap_or(false) {
        let converted = value.call_method1("astype", ("float32",)).ok()?;
        return converted.cast::<PyArrayDyn<f32>>().ok()?.try_readonly().ok();
    }
    None
}

fn extend(values: &mut Vec<f32>, array: &PyReadonlyArrayDyn<'_, f32>) {
    match array.as_slice() {
        Ok(slice) => values.extend_from_slice(slice),
        Err(_) => values.extend(array.as_array().iter()),
    }
}

/// A value in a few words: `'abc' (str)`.
fn describe(value: &Bound<'_, PyAny>) -> String {
    const CHARACTERS_MAX: usize = 60;
    let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let shown = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    let short: String = shown.chars().take(CHARACTERS_MAX).collect();
    let dots = if short.len() < shown.len() { "…" } else { "" };
    format!("{short}{dots} ({kind})")
}
