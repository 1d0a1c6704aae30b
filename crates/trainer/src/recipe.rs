//! How parameters are changed: the optimizer, and what single parameters have of their own.

use crate::description::Description;
use contract::mode::Mode;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use table::optimizer::{Optimizer, Settings};

/// The optimizer of a training, which is known later than the parameters are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The update rule of all parameters.
    pub optimizer: Optimizer,
    /// By name of the parameter; those that are not here keep what their description says.
    #[serde(default)]
    pub parameters: HashMap<String, Own>,
}

/// What one parameter has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// What it changes of the optimizer's settings.
    #[serde(default)]
    pub settings: Settings,
    /// How the gradients of several trainers meet.
    #[serde(default)]
    pub mode: Mode,
}

impl From<Optimizer> for Recipe {
    fn from(optimizer: Optimizer) -> Self {
        Recipe { optimizer, parameters: HashMap::new() }
    }
}

impl Recipe {
    /// What a parameter has of its own.
    pub fn own(&self, description: &Description) -> Own {
        let Description { name, settings, mode, .. } = description;
        let described = Own { settings: *settings, mode: *mode };
        self.parameters.get(name).copied().unwrap_or(described)
    }
}
