//! What the trainers agree on and tell every shard when they join: parameters, their optimizer,
//! and how gradients meet. Pure; what a shard makes of it is in `shard`.

use crate::initializer::Initializer;
use crate::optimizer::{Optimizer, Settings, Update};
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// The most parameters of a model.
pub const PARAMETERS_MAX: usize = 65_536;
/// The longest name of a parameter.
pub const NAME_BYTES_MAX: usize = 512;
/// The largest dense parameter.
pub const ELEMENTS_MAX: u64 = 1 << 40;
/// The widest row of a sparse parameter.
pub const WIDTH_MAX: u32 = 65_536;

/// A model as trainers describe it. Two descriptions are the same model only if all is equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Where the initial values come from, with each parameter's initializer.
    pub seed: u64,
    /// The update rule of all parameters.
    pub optimizer: Optimizer,
    /// The parameters; messages name them by their index here.
    pub parameters: Vec<Parameter>,
}

/// The index of a parameter in [`Model::parameters`]. Messages and checkpoints carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelIndex(pub usize);

impl fmt::Display for ModelIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name, unique in the model.
    pub name: String,
    /// Its size.
    pub shape: Shape,
    /// How gradients of several trainers meet: sync, async or stale, never hybrid.
    #[serde(default)]
    pub mode: Mode,
    /// Its first values.
    #[serde(default)]
    pub initializer: Initializer,
    /// What it changes of the optimizer's settings.
    #[serde(default)]
    pub settings: Settings,
}

/// The size of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// Held as blocks, every trainer has all of it.
    Dense {
        /// Numbers in all.
        elements: u64,
    },
    /// Held as rows by 64-bit key, created at first touch.
    Sparse {
        /// Numbers in a row.
        width: u32,
        /// Keys are below this, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<u64>,
    },
}

impl Shape {
    /// Whether it is held as rows.
    pub fn is_sparse(self) -> bool {
        matches!(self, Shape::Sparse { .. })
    }
}

impl Model {
    /// Finds the first thing that cannot be: field, value, fix.
    pub fn check(&self) -> Result<()> {
        if self.parameters.len() > PARAMETERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "model has too many parameters")
                .with("parameters", self.parameters.len())
                .with("limit", PARAMETERS_MAX));
        }
        self.optimizer.check()?;
        let dense = |parameter: &Parameter| match parameter.shape {
            Shape::Dense { elements } => elements,
            Shape::Sparse { .. } => 0,
        };
        let elements = self.parameters.iter().map(dense).fold(0, u64::saturating_add);
        if elements > ELEMENTS_MAX {
            let message = "dense parameters are too large; make some of them sparse";
            return Err(Error::new(Kind::LimitExceeded, message)
                .with("elements", elements)
                .with("limit", ELEMENTS_MAX));
        }
        let mut names = HashSet::new();
        for parameter in &self.parameters {
            parameter
                .check()
                .and_then(|()| parameter.initializer.check())
                .and_then(|()| {
                    Update::new(&self.optimizer, &parameter.settings, parameter.shape.is_sparse())
                })
                .map_err(|error| error.with("parameter", &parameter.name))?;
            if !names.insert(parameter.name.as_str()) {
                return Err(Error::invalid("two parameters have the same name; rename one")
                    .with("parameter", &parameter.name));
            }
        }
        Ok(())
    }

    /// The first difference to another description, for a person: `None` if they are the same.
    pub fn difference(&self, other: &Model) -> Option<String> {
        let differs = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            format!("{what} is {ours:?} in the first and {theirs:?} in the second")
        };
        if self == other {
            return None;
        }
        if self.seed != other.seed {
            return Some(differs("the seed", &self.seed, &other.seed));
        }
        if self.optimizer != other.optimizer {
            return Some(differs("the optimizer", &self.optimizer, &other.optimizer));
        }
        let pairs = self.parameters.iter().zip(&other.parameters);
        for (place, (ours, theirs)) in pairs.enumerate() {
            if ours.name != theirs.name {
                let what = format!("the name of parameter {place}");
                return Some(differs(&what, &ours.name, &theirs.name));
            }
            let of = |field: &str| format!("the {field} of parameter {:?}", ours.name);
            if ours.shape != theirs.shape {
                return Some(differs(&of("shape"), &ours.shape, &theirs.shape));
            }
            if ours.mode != theirs.mode {
                let (ours, theirs) = (ours.mode.to_string(), theirs.mode.to_string());
                return Some(differs(&of("mode"), &ours, &theirs));
            }
            if ours != theirs {
                return Some(differs(&of("description"), ours, theirs));
            }
        }
        let counts = (self.parameters.len(), other.parameters.len());
        Some(differs("the number of parameters", &counts.0, &counts.1))
    }
}

impl Parameter {
    fn check(&self) -> Result<()> {
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return Err(Error::invalid("a parameter's name has 1 to 512 bytes")
                .with("bytes", self.name.len()));
        }
        if self.mode == Mode::Hybrid {
            return Err(Error::invalid(
                "hybrid is the mode of a model; give each parameter sync or async",
            ));
        }
        match self.shape {
            Shape::Dense { elements: 0 } | Shape::Sparse { rows: Some(0), .. } => {
                Err(Error::invalid("a parameter has at least one element"))
            }
            Shape::Sparse { width, .. } if width == 0 || width > WIDTH_MAX => {
                Err(Error::invalid(format!("a sparse row has 1 to {WIDTH_MAX} elements"))
                    .with("width", width))
            }
            Shape::Dense { .. } | Shape::Sparse { .. } => Ok(()),
        }
    }
}
