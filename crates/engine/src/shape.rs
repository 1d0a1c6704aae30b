//! What is known of a layer's output before any data is seen.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The output of a layer, as far as the topology tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Numbers in a row, or ids that are possible; 0 for keys without a bound.
    pub size: usize,
    /// What a row is.
    #[serde(default)]
    pub value: Value,
    /// Whether a sample is one row or many.
    #[serde(default)]
    pub level: Level,
    /// Whether it is fed, so that its ids are known before the network runs.
    #[serde(default)]
    pub is_data: bool,
    /// Height and width of a picture, whose channels follow one another in the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<(usize, usize)>,
    /// Planes of a three-dimensional picture, which follow one another in each channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
}

/// What a row is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A number in every column.
    #[default]
    Dense,
    /// One id.
    Integer,
    /// The ids of the columns that are 1.
    SparseBinary,
    /// Ids of columns, with their numbers.
    SparseFloat,
}

/// How many rows a sample has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One.
    #[default]
    Single,
    /// Any number, in order.
    Sequence,
    /// A sequence of sequences.
    Nested,
}

impl Shape {
    /// One row of numbers a sample.
    pub fn dense(size: usize) -> Self {
        let (value, level) = (Value::Dense, Level::Single);
        Shape { size, value, level, is_data: false, frame: None, depth: None }
    }

    /// The same with other rows: what a layer makes of its input row by row.
    #[must_use]
    pub fn with_size(self, size: usize) -> Self {
        Shape { size, value: Value::Dense, is_data: false, frame: None, depth: None, ..self }
    }

    /// The same as rows of pictures as large as those of `other`.
    #[must_use]
    pub(crate) fn with_sides_of(self, other: &Shape) -> Self {
        Shape { frame: other.frame, depth: other.depth, ..self }
    }

    /// Whether rows are lists of ids, with or without numbers.
    pub fn is_sparse(&self) -> bool {
        matches!(self.value, Value::SparseBinary | Value::SparseFloat)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.value {
            Value::Dense => "dense",
            Value::Integer => "integer",
            Value::SparseBinary => "sparse binary",
            Value::SparseFloat => "sparse float",
        };
        let level = match self.level {
            Level::Single => "",
            Level::Sequence => " sequence",
            Level::Nested => " nested sequence",
        };
        write!(out, "{value}{level} of size {}", self.size)
    }
}
