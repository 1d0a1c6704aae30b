//! Checks of descriptions, called from Python while a user writes them, so that a mistake is
//! reported at the line that made it. All of them take and give JSON.

use crate::error::raise;
use contract::{Error, Kind};
use engine::shape::Shape;
use engine::topology::{Evaluator, Layer};
use engine::{evaluator, layer};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use table::optimizer::{Optimizer, Settings};

/// What a layer gives and needs, if its inputs are such.
#[pyfunction]
pub(crate) fn plan_layer(layer: &str, inputs: &str) -> PyResult<String> {
    let layer: Layer = parse("layer", layer)?;
    let inputs: Vec<Shape> = parse("shapes", inputs)?;
    render(&layer::plan(&layer, &inputs).map_err(raise)?)
}

/// Whether an evaluator can look at such layers.
#[pyfunction]
pub(crate) fn check_evaluator(evaluator: &str, inputs: &str) -> PyResult<()> {
    let evaluator: Evaluator = parse("evaluator", evaluator)?;
    let inputs: Vec<Shape> = parse("shapes", inputs)?;
    evaluator::check(&evaluator, &inputs).map_err(raise)
}

/// Whether an optimizer's numbers can be.
#[pyfunction]
pub(crate) fn check_optimizer(optimizer: &str) -> PyResult<()> {
    parse::<Optimizer>("optimizer", optimizer)?.check().map_err(raise)
}

/// Whether the settings of a parameter can be.
#[pyfunction]
pub(crate) fn check_settings(settings: &str) -> PyResult<()> {
    parse::<Settings>("settings", settings)?.check().map_err(raise)
}

/// Reads a description; errors say what it should have been.
pub(crate) fn parse<T: DeserializeOwned>(what: &'static str, json: &str) -> PyResult<T> {
    serde_json::from_str(json)
        .map_err(|source| raise(Error::invalid(format!("not a description of {what}: {source}"))))
}

fn render(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|source| raise(Error::new(Kind::Io, "cannot render JSON").because(source)))
}
