//! The evaluators: figures over the batches of a period, each one small file and one line in the
//! table below. They look at values only; nothing is learnt from them.

mod auc;
mod chunk;
mod classification_error;
mod column_sum;
mod ctc_error;
mod detection_map;
mod pnpair;
mod precision_recall;
mod sum;
pub(crate) mod watch;

use crate::argument::{Argument, Value, numbers};
use crate::shape::{self, Shape};
use crate::topology;
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;

type Build = fn(&topology::Evaluator) -> Result<Box<dyn Evaluator>>;

/// Every evaluator there is.
const TABLE: &[(&str, Build)] = &[
    ("auc", auc::build),
    ("chunk", chunk::build),
    ("classification_error", classification_error::build),
    ("column_sum", column_sum::build),
    ("ctc_error", ctc_error::build),
    ("detection_map", detection_map::build),
    ("pnpair", pnpair::build),
    ("precision_recall", precision_recall::build),
    ("sum", sum::build),
    (watch::KIND, watch::build),
];

/// What a kind of evaluator is.
pub(crate) trait Evaluator: Send + Sync {
    /// Whether it can look at such layers.
    fn check(&self, inputs: &[Shape]) -> Result<()>;

    /// Counts a batch.
    fn add(&mut self, inputs: &[&Argument]) -> Result<()>;

    /// Its figures: an empty name for the one figure of the evaluator, else the field's.
    fn read(&self) -> Vec<(&'static str, f64)>;

    /// Begins anew.
    fn clear(&mut self);
}

/// The names of all evaluators.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(kind, _)| *kind)
}

/// Whether an evaluator can look at such layers; errors name it.
pub fn check(evaluator: &topology::Evaluator, inputs: &[Shape]) -> Result<()> {
    build(evaluator)?.check(inputs).map_err(|error| error.with("evaluator", &evaluator.name))
}

pub(crate) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    let entry = TABLE.iter().find(|(kind, _)| *kind == evaluator.kind);
    let built = match entry {
        Some((_, build)) => build(evaluator),
        None => Err(Error::new(Kind::Unsupported, "there is no such evaluator")
            .with("kind", &evaluator.kind)),
    };
    built.map_err(|error| error.with("evaluator", &evaluator.name))
}

/// The attributes of an evaluator as its kind declares them.
pub(crate) fn attributes<T: DeserializeOwned>(evaluator: &topology::Evaluator) -> Result<T> {
    serde_json::from_value(evaluator.attributes.clone().into()).map_err(|source| {
        Error::invalid(format!("wrong attributes: {source}")).with("kind", &evaluator.kind)
    })
}

/// Figures of a period: a pass, or one batch.
pub struct Tally {
    pub(crate) evaluators: Vec<Counted>,
}

pub(crate) struct Counted {
    pub(crate) name: String,
    /// Places of the layers it looks at.
    pub(crate) inputs: Vec<usize>,
    pub(crate) evaluator: Box<dyn Evaluator>,
}

impl Tally {
    /// The figures so far, by name.
    pub fn read(&self) -> Vec<(String, f64)> {
        let mut figures = Vec::new();
        for counted in &self.evaluators {
            for (field, value) in counted.evaluator.read() {
                figures.push(match field {
                    "" => (counted.name.clone(), value),
                    field => (format!("{}.{field}", counted.name), value),
                });
            }
        }
        figures
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        for counted in &mut self.evaluators {
            counted.evaluator.clear();
        }
    }
}

/// Checks what most evaluators take: scores, the right id or number, perhaps a weight.
fn expect_prediction_and_label(inputs: &[Shape]) -> Result<()> {
    if !(2..=3).contains(&inputs.len()) {
        return Err(
            Error::invalid("takes input, label and perhaps a weight").with("inputs", inputs.len())
        );
    }
    if inputs[0].value != shape::Value::Dense {
        return Err(Error::invalid(format!("its input must be dense but is {}", inputs[0])));
    }
    let label = &inputs[1];
    if label.is_sparse() || (label.value == shape::Value::Dense && label.size != 1) {
        return Err(Error::invalid(format!(
            "its label must be integer, or dense of size 1, but is {label}"
        )));
    }
    expect_weight(inputs.get(2))
}

/// Checks the weight, where there is one.
fn expect_weight(weight: Option<&Shape>) -> Result<()> {
    match weight {
        Some(weight) if weight.value != shape::Value::Dense || weight.size != 1 => {
            Err(Error::invalid(format!("its weight must be dense of size 1 but is {weight}")))
        }
        _ => Ok(()),
    }
}

/// The label of each row.
fn labels(label: &Argument, rows: usize) -> Result<Vec<usize>> {
    let labels: Vec<usize> = match &label.value {
        Value::Integer(ids) => ids.iter().map(|id| *id as usize).collect(),
        Value::Dense(tensor) => {
            numbers(tensor.clone()).iter().map(|number| number.round() as usize).collect()
        }
        Value::Sparse(_) => Vec::new(),
    };
    if labels.len() == rows {
        return Ok(labels);
    }
    Err(Error::invalid("input and label have different rows")
        .with("input", rows)
        .with("label", labels.len()))
}

/// The weight of each row, where there are weights.
fn weights(weight: Option<&Argument>, rows: usize) -> Result<Option<Vec<f32>>> {
    let Some(weight) = weight else { return Ok(None) };
    let weights = numbers(weight.dense()?);
    if weights.len() == rows {
        return Ok(Some(weights));
    }
    Err(Error::invalid("input and weight have different rows")
        .with("input", rows)
        .with("weight", weights.len()))
}
