//! Lists of places in sequences, as `kmax_seq_score` gives them and others take them: a row of
//! whole numbers for each sequence, up to the first −1.

use crate::argument::{Argument, Value, numbers};
use crate::batch::NO_ID;
use crate::shape::{self, Shape};
use contract::{Error, Result};

/// Checks that an input can name places.
pub(super) fn expect_places(what: &str, input: &Shape) -> Result<()> {
    match input.value {
        shape::Value::Dense | shape::Value::Integer => Ok(()),
        shape::Value::SparseBinary | shape::Value::SparseFloat => {
            Err(Error::invalid(format!("{what} must be whole numbers but is {input}")))
        }
    }
}

/// The places of each of `sequences` sequences.
pub(super) fn read_places(input: &Argument, sequences: usize) -> Result<Vec<Vec<usize>>> {
    if input.rows() != sequences {
        return Err(Error::invalid("needs a row of places for each sequence")
            .with("rows", input.rows())
            .with("sequences", sequences));
    }
    match &input.value {
        Value::Integer(ids) => Ok(ids
            .iter()
            .map(|id| Vec::from_iter((*id != NO_ID).then_some(*id as usize)))
            .collect()),
        _ => {
            let [_, width] = input.dense()?.dims();
            numbers(input.dense()?).chunks_exact(width).map(whole_numbers).collect()
        }
    }
}

fn whole_numbers(row: &[f32]) -> Result<Vec<usize>> {
    let whole = |number: &f32| match *number {
        number if number >= 0.0 && number.fract() == 0.0 => Ok(number as usize),
        number => {
            Err(Error::invalid("rows are counted in whole numbers from 0").with("number", number))
        }
    };
    row.iter().take_while(|number| **number != -1.0).map(whole).collect()
}
