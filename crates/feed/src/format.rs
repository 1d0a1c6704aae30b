//! The formats of a line, and what is wrong with one that cannot be read.

use crate::columns::Columns;
use crate::plan::Plan;
use crate::{criteo, multislot};

/// How a line holds the values of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `count value…` for every slot, with spaces between.
    MultiSlot,
    /// A click, 13 numbers and 26 categories, with tabs between; any of the numbers and categories
    /// may be empty. As a sample: the numbers, 26 ids, the click.
    Criteo {
        /// Categories are hashed to ids below.
        hash_size: u64,
    },
}

/// What a line should have had, and what it has.
pub(crate) struct Fault {
    /// The place in the sample, if it is about one value.
    pub(crate) place: Option<usize>,
    pub(crate) expected: String,
    pub(crate) got: String,
}

pub(crate) type Parsed<T> = std::result::Result<T, Box<Fault>>;

impl Format {
    /// Adds the sample of a line. After a fault the columns have a part of it, see
    /// [`Columns::take_back`].
    pub(crate) fn parse(self, line: &[u8], plan: &Plan, columns: &mut Columns) -> Parsed<()> {
        match self {
            Format::MultiSlot => multislot::parse(line, plan, columns),
            Format::Criteo { hash_size } => criteo::parse(line, hash_size, plan, columns),
        }
    }
}

impl Fault {
    pub(crate) fn at(place: usize, expected: impl Into<String>, got: &[u8]) -> Box<Fault> {
        Box::new(Fault { place: Some(place), expected: expected.into(), got: shown(got) })
    }

    pub(crate) fn of_line(expected: impl Into<String>, got: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { place: None, expected: expected.into(), got: got.into() })
    }
}

/// Some bytes of a line for a message: quoted, not too many.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 40;
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let dots = if bytes.len() > BYTES_MAX { "…" } else { "" };
    format!("'{}'{dots}", bytes[..bytes.len().min(BYTES_MAX)].escape_ascii())
}
