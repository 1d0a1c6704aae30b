//! A network as data: what `paddle.v2` describes, checked once, before anything runs.
//!
//! Sizes are not written down twice: [`crate::layer::plan`] tells a layer's output and parameters
//! from its inputs, and both the Python front, line by line, and [`Topology::check`], at the end,
//! ask it.

use crate::activation::Activation;
use crate::evaluator;
use crate::layer::{self, Plan};
use crate::shape::Shape;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The most layers of a network.
pub const LAYERS_MAX: usize = 65_536;

/// A network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The layers, in any order.
    pub layers: Vec<Layer>,
    /// The parameters of all layers; values and gradients come in this order.
    pub parameters: Vec<Parameter>,
    /// The layers that are asked for. Those that are costs are trained.
    pub outputs: Vec<String>,
    /// What is counted of each batch.
    #[serde(default)]
    pub evaluators: Vec<Evaluator>,
}

/// One layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Its name, unique in the network.
    pub name: String,
    /// What it does: an entry of the table in `layer`.
    pub kind: String,
    /// The layers it takes.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// What its kind asks for.
    #[serde(default)]
    pub attributes: serde_json::Map<String, serde_json::Value>,
    /// What is applied to its output.
    #[serde(default)]
    pub activation: Activation,
    /// Whether a row of numbers, learnt, is added before the activation.
    #[serde(default)]
    pub has_bias: bool,
    /// The share of its output that is set to 0 in training, at random.
    #[serde(default)]
    pub drop_rate: f32,
    /// The largest absolute value of an element of its output's gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_clip: Option<f32>,
    /// Names of its parameters, in the order of its plan.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// Where the user wrote it, for errors: `train.py:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The index of a parameter in [`Topology::parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkIndex(pub usize);

/// One parameter, of one layer or shared by several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name, unique in the network.
    pub name: String,
    /// Rows and columns. 0 rows: keys without a bound.
    pub dims: [usize; 2],
    /// Whether only the rows of the batch take part.
    #[serde(default)]
    pub is_sparse: bool,
    /// Whether it stays as it is.
    #[serde(default)]
    pub is_static: bool,
}

/// One evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluator {
    /// What its figures are called.
    pub name: String,
    /// What it counts: an entry of the table in `evaluator`.
    pub kind: String,
    /// The layers it looks at.
    pub inputs: Vec<String>,
    /// What its kind asks for.
    #[serde(default)]
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// A topology that was found right: layers in an order in which each has its inputs before it.
pub(crate) struct Checked {
    /// Places in `Topology::layers`.
    pub(crate) order: Vec<usize>,
    /// By place in `Topology::layers`.
    pub(crate) shapes: Vec<Shape>,
    /// By place in `Topology::layers`: places of its inputs there.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// By place in `Topology::layers`: places in `Topology::parameters`.
    pub(crate) parameters: Vec<Vec<usize>>,
    /// By place in `Topology::layers`, then by slot: the data layer whose ids are the parameter's
    /// rows.
    pub(crate) key_inputs: Vec<Vec<Option<usize>>>,
    /// By place in `Topology::parameters`: whether a layer measures it in training.
    pub(crate) is_measured: Vec<bool>,
    /// By place in `Topology::layers`.
    pub(crate) layers: Vec<Box<dyn layer::Layer>>,
}

impl Topology {
    /// Finds the first mistake: names that are unknown or used twice, cycles, sizes that do not
    /// fit.
    pub(crate) fn check(&self) -> Result<Checked> {
        if self.layers.len() > LAYERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the network has too many layers")
                .with("layers", self.layers.len())
                .with("limit", LAYERS_MAX));
        }
        let places = places("layer", self.layers.iter().map(|layer| layer.name.as_str()))?;
        let names = places_of_parameters(&self.parameters)?;
        let inputs = self
            .layers
            .iter()
            .map(|layer| find_all(&layer.inputs, &places).map_err(|error| at(layer, error)))
            .collect::<Result<Vec<_>>>()?;
        let order = self.sort(&inputs)?;

        let mut shapes = vec![Shape::dense(0); self.layers.len()];
        let mut parameters = vec![Vec::new(); self.layers.len()];
        let mut key_inputs = vec![Vec::new(); self.layers.len()];
        let mut is_measured = vec![false; self.parameters.len()];
        for &place in &order {
            let layer = &self.layers[place];
            let taken: Vec<Shape> = inputs[place].iter().map(|&input| shapes[input]).collect();
            let plan = layer::plan(layer, &taken)?;
            parameters[place] =
                self.match_parameters(layer, &plan, &names).map_err(|error| at(layer, error))?;
            let key_input = |slot: &layer::Slot| slot.key_input.map(|input| inputs[place][input]);
            key_inputs[place] = plan.parameters.iter().map(key_input).collect();
            for (slot, &parameter) in plan.parameters.iter().zip(&parameters[place]) {
                is_measured[parameter] |= slot.is_measured;
            }
            shapes[place] = plan.shape;
        }
        for output in &self.outputs {
            if !places.contains_key(output.as_str()) {
                let error = Error::invalid("no such layer in the network");
                return Err(error.with("output", output));
            }
        }
        for evaluator in &self.evaluators {
            let taken = find_all(&evaluator.inputs, &places)
                .map_err(|error| error.with("evaluator", &evaluator.name))?;
            let shapes: Vec<Shape> = taken.iter().map(|&input| shapes[input]).collect();
            evaluator::check(evaluator, &shapes)?;
        }
        let layers = self.layers.iter().map(layer::build).collect::<Result<_>>()?;
        Ok(Checked { order, shapes, inputs, parameters, key_inputs, is_measured, layers })
    }

    fn match_parameters(
        &self,
        layer: &Layer,
        plan: &Plan,
        names: &HashMap<&str, usize>,
    ) -> Result<Vec<usize>> {
        if layer.parameters.len() != plan.parameters.len() {
            return Err(Error::invalid("the layer has another number of parameters")
                .with("expected", plan.parameters.len())
                .with("got", layer.parameters.len()));
        }
        let mut found = Vec::new();
        for (name, slot) in layer.parameters.iter().zip(&plan.parameters) {
            let place = *names
                .get(name.as_str())
                .ok_or_else(|| Error::invalid("no such parameter").with("parameter", name))?;
            let parameter = &self.parameters[place];
            if parameter.dims != slot.dims {
                return Err(Error::invalid(format!(
                    "parameter {name:?} is {} x {} but this layer needs {} x {}; \
                     layers share a parameter only if their sizes are the same",
                    parameter.dims[0], parameter.dims[1], slot.dims[0], slot.dims[1]
                )));
            }
            if parameter.is_sparse && slot.key_input.is_none() {
                return Err(Error::invalid(format!(
                    "parameter {name:?} has sparse_update but is not looked up by the ids of a \
                     data layer; use sparse_update only on an embedding, a table projection or a \
                     fc layer directly over a data layer with integer or sparse values"
                )));
            }
            if slot.is_measured && !parameter.is_static {
                return Err(Error::invalid(format!(
                    "parameter {name:?} is measured in training, not learnt; make it static"
                )));
            }
            if slot.dims[0] == 0 && !parameter.is_sparse {
                return Err(Error::invalid(format!(
                    "parameter {name:?} is looked up by keys without a bound; \
                     set sparse_update=True in its ParamAttr, or give the data layer a size"
                )));
            }
            if parameter.dims[0] > layer::SIZE_MAX && !parameter.is_sparse {
                return Err(Error::new(
                    Kind::LimitExceeded,
                    format!(
                        "parameter {name:?} has {} rows, too many to be held whole; \
                         set sparse_update=True in its ParamAttr",
                        parameter.dims[0]
                    ),
                )
                .with("limit", layer::SIZE_MAX));
            }
            found.push(place);
        }
        Ok(found)
    }

    /// An order in which each layer comes after its inputs.
    fn sort(&self, inputs: &[Vec<usize>]) -> Result<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; inputs.len()];
        let mut order = Vec::with_capacity(inputs.len());
        for start in 0..inputs.len() {
            // A stack of its own: networks may be deeper than a thread's stack allows.
            let mut open = vec![(start, 0)];
            while let Some((place, next)) = open.pop() {
                if next == 0 {
                    match marks[place] {
                        Mark::Done => continue,
                        Mark::Open => return Err(self.cycle(place, &open)),
                        Mark::New => marks[place] = Mark::Open,
                    }
                }
                if let Some(&input) = inputs[place].get(next) {
                    open.push((place, next + 1));
                    open.push((input, 0));
                } else {
                    marks[place] = Mark::Done;
                    order.push(place);
                }
            }
        }
        Ok(order)
    }

    fn cycle(&self, place: usize, open: &[(usize, usize)]) -> Error {
        let name = |place: usize| self.layers[place].name.as_str();
        let from = open.iter().position(|(other, _)| *other == place).unwrap_or(0);
        let mut names: Vec<&str> = open[from..].iter().map(|(place, _)| name(*place)).collect();
        names.push(name(place));
        let error = Error::invalid("layers take each other's output in a circle");
        error.with("circle", names.join(" <- "))
    }
}

/// Adds to an error which layer it is about and where the user wrote it.
pub(crate) fn at(layer: &Layer, error: Error) -> Error {
    let error = error.with("layer", &layer.name);
    match &layer.place {
        Some(place) => error.with("at", place),
        None => error,
    }
}

fn places<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<HashMap<&'a str, usize>> {
    let mut places = HashMap::new();
    for (place, name) in names.enumerate() {
        if places.insert(name, place).is_some() {
            return Err(Error::invalid(format!("two {what}s have the same name; rename one"))
                .with(what, name));
        }
    }
    Ok(places)
}

fn places_of_parameters(parameters: &[Parameter]) -> Result<HashMap<&str, usize>> {
    places("parameter", parameters.iter().map(|parameter| parameter.name.as_str()))
}

fn find(name: &str, places: &HashMap<&str, usize>) -> Result<usize> {
    places
        .get(name)
        .copied()
        .ok_or_else(|| Error::invalid("no such layer in the network").with("input", name))
}

fn find_all(names: &[String], places: &HashMap<&str, usize>) -> Result<Vec<usize>> {
    names.iter().map(|name| find(name, places)).collect()
}
