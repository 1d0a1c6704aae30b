//! One parameter as a trainer describes it: size, first values, what it changes of the optimizer.

use contract::mode::Mode;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use table::initializer::Initializer;
use table::model::{ELEMENTS_MAX, NAME_BYTES_MAX, Shape, WIDTH_MAX};
use table::optimizer::Settings;

/// A parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Its name, unique in the model.
    pub name: String,
    /// Rows and columns. 0 rows: keys without a bound, for a sparse one only.
    pub dims: [usize; 2],
    /// Whether only the rows that a batch looks up take part in a step.
    #[serde(default)]
    pub is_sparse: bool,
    /// Whether it stays as it is; it never goes to the servers.
    #[serde(default)]
    pub is_static: bool,
    /// Its first values.
    #[serde(default)]
    pub initializer: Initializer,
    /// What it changes of the optimizer's settings.
    #[serde(default)]
    pub settings: Settings,
    /// How the gradients of several trainers meet.
    #[serde(default)]
    pub mode: Mode,
}

impl Description {
    /// A dense parameter that starts at 0 and has the optimizer's settings.
    pub fn dense(name: impl Into<String>, dims: [usize; 2]) -> Self {
        Description {
            name: name.into(),
            dims,
            is_sparse: false,
            is_static: false,
            initializer: Initializer::default(),
            settings: Settings::default(),
            mode: Mode::default(),
        }
    }

    /// As [`Description::dense`], but sparse.
    pub fn sparse(name: impl Into<String>, dims: [usize; 2]) -> Self {
        Description { is_sparse: true, ..Description::dense(name, dims) }
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.dims[1]
    }

    /// Numbers in all; `None` for keys without a bound.
    pub fn elements(&self) -> Option<u64> {
        (self.dims[0] > 0).then(|| self.dims[0] as u64 * self.dims[1] as u64)
    }

    /// Finds the first thing that cannot be: field, value, fix.
    pub fn check(&self) -> Result<()> {
        self.check_size()
            .and_then(|()| self.initializer.check())
            .and_then(|()| self.settings.check())
            .map_err(|error| error.with("parameter", &self.name))
    }

    fn check_size(&self) -> Result<()> {
        let [rows, columns] = self.dims;
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a parameter's name has 1 to {NAME_BYTES_MAX} bytes"
            ))
            .with("bytes", self.name.len()));
        }
        if columns == 0 || (rows == 0 && !self.is_sparse) {
            return Err(Error::invalid(
                "a parameter has at least one row and column; only a sparse one may have 0 rows, \
                 for keys without a bound",
            )
            .with("rows", rows)
            .with("columns", columns));
        }
        if self.is_sparse && columns > WIDTH_MAX as usize {
            return Err(Error::invalid(format!("a sparse row has 1 to {WIDTH_MAX} elements"))
                .with("columns", columns));
        }
        let elements = (rows as u64).checked_mul(columns as u64);
        if !elements.is_some_and(|elements| self.is_sparse || elements <= ELEMENTS_MAX) {
            return Err(Error::new(Kind::LimitExceeded, "the parameter is too large")
                .with("rows", rows)
                .with("columns", columns));
        }
        if self.mode == Mode::Hybrid {
            return Err(Error::invalid(
                "hybrid is the mode of a model; give each parameter sync or async",
            ));
        }
        Ok(())
    }
}

/// What the servers are told of it.
impl From<&Description> for table::model::Parameter {
    fn from(description: &Description) -> Self {
        let [rows, columns] = description.dims.map(|size| size as u64);
        let shape = match description.is_sparse {
            true => Shape::Sparse { width: columns as u32, rows: (rows > 0).then_some(rows) },
            false => Shape::Dense { elements: rows * columns },
        };
        table::model::Parameter {
            name: description.name.clone(),
            shape,
            mode: description.mode,
            initializer: description.initializer,
            settings: description.settings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::model::Parameter;

    #[test]
    fn servers_are_told_elements_or_width_and_rows() {
        let shape = |description| Parameter::from(&description).shape;
        assert_eq!(shape(Description::dense("w", [3, 4])), Shape::Dense { elements: 12 });
        let bounded = Shape::Sparse { width: 4, rows: Some(3) };
        assert_eq!(shape(Description::sparse("w", [3, 4])), bounded);
        let unbounded = Shape::Sparse { width: 4, rows: None };
        assert_eq!(shape(Description::sparse("w", [0, 4])), unbounded);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_by_name() {
        let refused = |description: Description| {
            let error = description.check().unwrap_err().to_string();
            assert!(error.contains("\"w\"") || error.contains("parameter: "), "{error}");
        };
        refused(Description::dense("w", [0, 4]));
        refused(Description::dense("w", [4, 0]));
        refused(Description::dense("", [4, 4]));
        refused(Description::sparse("w", [4, WIDTH_MAX as usize + 1]));
        refused(Description::sparse("w", [usize::MAX, 4]));
        refused(Description::dense("w", [1 << 30, 1 << 30]));
        refused(Description { mode: Mode::Hybrid, ..Description::dense("w", [1, 1]) });
        Description::sparse("w", [0, 4]).check().unwrap();
    }

    #[test]
    fn unknown_fields_are_refused() {
        let parse = serde_json::from_str::<Description>;
        assert_eq!(parse(r#"{"name":"w","dims":[1,2]}"#).unwrap(), Description::dense("w", [1, 2]));
        assert!(parse(r#"{"name":"w","dims":[1,2],"sparse":true}"#).is_err());
    }
}
