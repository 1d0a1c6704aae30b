//! What is fed becomes an argument, if it fits.

use super::{Argument, Offsets, Value, tensor};
use crate::batch::{self, Input, Rows};
use crate::shape::{Level, Shape, Value as Kind};
use burn::tensor::Device;
use contract::{Error, Result};
use std::sync::Arc;

impl Argument {
    /// From what is fed, after checking that it fits.
    pub(crate) fn from_input(
        input: Input,
        shape: &Shape,
        samples: usize,
        device: &Device,
    ) -> Result<Argument> {
        let rows = input.rows.len(shape.size);
        let value = match (shape.value, input.rows) {
            (Kind::Dense, Rows::Dense(values)) => {
                if values.len() != rows * shape.size {
                    return Err(Error::invalid(format!(
                        "needs rows of {} numbers but is fed {} numbers in all",
                        shape.size,
                        values.len()
                    )));
                }
                Value::Dense(tensor(values, [rows, shape.size], device))
            }
            (Kind::Integer, Rows::Integer(ids)) => {
                check_ids(&ids, shape.size)?;
                Value::Integer(Arc::from(ids))
            }
            (Kind::SparseBinary | Kind::SparseFloat, Rows::Sparse(lists)) => {
                batch::check_offsets(&lists.offsets, lists.ids.len())?;
                check_ids(&lists.ids, shape.size)?;
                let has_values = lists.values.as_ref().map(Vec::len);
                let needs_values = (shape.value == Kind::SparseFloat).then_some(lists.ids.len());
                if has_values != needs_values {
                    return Err(Error::invalid(
                        "sparse float rows, and only they, have a number \
                         for each id",
                    ));
                }
                Value::Sparse(Arc::new(lists))
            }
            (_, rows) => {
                let found = match rows {
                    Rows::Dense(_) => "numbers",
                    Rows::Integer(_) => "ids",
                    Rows::Sparse(_) => "lists of ids",
                };
                return Err(Error::invalid(format!("needs {shape} but is fed {found}")));
            }
        };
        check_level(
            shape.level,
            input.sequences.as_deref(),
            input.nests.as_deref(),
            [rows, samples],
        )?;
        let (sequences, nests) = (input.sequences.map(Arc::from), input.nests.map(Arc::from));
        Ok(Argument { value, sequences, nests, origin: None })
    }
}

fn check_ids(ids: &[u64], size: usize) -> Result<()> {
    let bad = |id: &&u64| size != 0 && **id >= size as u64 && **id != batch::NO_ID;
    match ids.iter().find(bad) {
        None => Ok(()),
        Some(id) => Err(Error::invalid(format!("id {id} is not below the layer's size {size}"))),
    }
}

/// Checks that samples are rows, sequences or sequences of sequences, as `level` says.
fn check_level(
    level: Level,
    sequences: Option<&Offsets>,
    nests: Option<&Offsets>,
    [rows, samples]: [usize; 2],
) -> Result<()> {
    let count = |offsets: Option<&Offsets>| offsets.map_or(0, |offsets| offsets.len().max(1) - 1);
    match (level, sequences, nests) {
        (Level::Single, None, None) if rows == samples => Ok(()),
        (Level::Single, None, None) => Err(Error::invalid("needs one row a sample")
            .with("rows", rows)
            .with("samples", samples)),
        (Level::Single, ..) => Err(Error::invalid("needs one row a sample but is fed sequences")),
        (Level::Sequence, Some(offsets), None) if count(sequences) == samples => {
            batch::check_offsets(offsets, rows)
        }
        (Level::Nested, Some(offsets), Some(nests)) if count(Some(nests)) == samples => {
            batch::check_offsets(nests, count(sequences))?;
            batch::check_offsets(offsets, rows)
        }
        (Level::Sequence, ..) => Err(Error::invalid("needs a sequence a sample")
            .with("sequences", count(sequences))
            .with("samples", samples)),
        (Level::Nested, ..) => Err(Error::invalid("needs a sequence of sequences a sample")
            .with("sequences of sequences", count(nests))
            .with("samples", samples)),
    }
}
