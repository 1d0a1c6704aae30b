//! The network of one step: what a recurrent group runs for every row, and a beam search for every
//! word.
//!
//! Its layers see the group's inputs under other names (links), and memories: what a layer gave in
//! the step before. Values of a step have places: first the links, then the memories, then the
//! layers.

use super::stage::{Place, Stage, earliest, put_off};
use crate::activation::Activation;
use crate::argument::{Argument, Value};
use crate::layer::{self, Layer, Node, Plan, Run, Slot};
use crate::shape::{self, Level, Shape};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Kind, Result};
use serde::Deserialize;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The network of a step, as described.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Each after those that it takes.
    layers: Vec<topology::Layer>,
    /// One for each input of the group.
    pub(super) links: Vec<Link>,
    pub(super) memories: Vec<Memory>,
    /// What a step gives: numbers, side by side.
    pub(super) outputs: Vec<String>,
}

/// An input of the group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// What layers of the step call it.
    name: String,
    pub(super) role: Role,
}

/// What a step sees of an input of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// One of its rows or, if it is nested, one of its sequences.
    Part,
    /// All of it.
    Whole,
    /// Nothing: a memory begins with it.
    Boot,
    /// A row of numbers for the word before.
    Word,
}

/// What a layer gave in the step before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    name: String,
    /// The layer that it remembers.
    of: String,
    size: usize,
    /// Whether that gives sequences.
    #[serde(default)]
    is_sequence: bool,
    /// The link that it begins with; zeros without.
    boot: Option<String>,
    /// The id that it begins with, if it remembers ids.
    boot_id: Option<u64>,
    /// Whether what it begins with is learnt, or added to.
    #[serde(default)]
    has_bias: bool,
    /// What is applied to what it begins with.
    #[serde(default)]
    activation: Activation,
}

/// Whose turn it is: the layers of some stages, in a step.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) stages: &'a [Stage],
    pub(super) step: usize,
}

/// The network of a step, checked.
pub(super) struct Checked {
    pub(super) places: Vec<Place>,
    /// By number of the layer.
    built: Vec<Box<dyn Layer>>,
    inputs: Vec<Vec<usize>>,
    /// Which of the group's parameters are the layer's.
    slots: Vec<Range<usize>>,
    /// By number of the memory: the place that it remembers, the input that it begins with, and
    /// its bias among the group's parameters.
    pub(super) remembered: Vec<usize>,
    boots: Vec<Option<usize>>,
    biases: Vec<Option<usize>>,
    /// Places.
    pub(super) outputs: Vec<usize>,
    pub(super) parameters: Vec<Slot>,
}

impl Step {
    /// Finds out what its layers give, from what the group is given.
    pub(super) fn check(&self, inputs: &[Shape], own: Vec<Slot>) -> Result<Checked> {
        if inputs.len() != self.links.len() {
            return Err(Error::invalid("takes another number of inputs")
                .with("expected", self.links.len())
                .with("got", inputs.len()));
        }
        let mut checked = Checked {
            places: Vec::new(),
            built: Vec::new(),
            inputs: Vec::new(),
            slots: Vec::new(),
            remembered: Vec::new(),
            boots: Vec::new(),
            biases: Vec::new(),
            outputs: Vec::new(),
            parameters: own,
        };
        for (link, input) in self.links.iter().zip(inputs) {
            checked.places.push(Place { shape: link.shape(input)?, stage: link.role.stage() });
        }
        let memories = self.memories.iter().map(Memory::shape);
        checked.places.extend(memories.map(|shape| Place { shape, stage: Stage::During }));
        let given = checked.places.len();
        self.check_layers(&mut checked)?;
        self.check_memories(inputs, &mut checked)?;
        put_off(&mut checked.places, &checked.inputs, given, &checked.remembered);
        Ok(checked)
    }

    /// The places of names, of links and memories and as many layers as there are.
    fn places(&self, layers: usize) -> HashMap<&str, usize> {
        let links = self.links.iter().map(|link| link.name.as_str());
        let memories = self.memories.iter().map(|memory| memory.name.as_str());
        let layers = self.layers[..layers].iter().map(|layer| layer.name.as_str());
        links.chain(memories).chain(layers).zip(0..).collect()
    }

    fn check_layers(&self, checked: &mut Checked) -> Result<()> {
        let mut places = self.places(0);
        for layer in &self.layers {
            let inputs: Vec<usize> =
                layer.inputs.iter().map(|name| find(&places, name)).collect::<Result<_>>()?;
            let taken: Vec<&Place> = inputs.iter().map(|place| &checked.places[*place]).collect();
            let shapes: Vec<Shape> = taken.iter().map(|place| place.shape).collect();
            let Plan { shape, parameters } = layer::plan(layer, &shapes)?;
            let built = layer::build(layer)?;
            let is_measuring = parameters.iter().any(|slot| slot.is_measured);
            if is_measuring || !built.is_sample_by_sample() {
                return Err(Error::invalid(
                    "a layer that looks at the whole batch cannot be part of a step; put it before \
                     or behind the group",
                )
                .with("step layer", &layer.name));
            }
            let stage = earliest(&taken, &shape);
            let begin = checked.parameters.len();
            let own = |slot: Slot| Slot { name: format!("{}.{}", layer.name, slot.name), ..slot };
            checked.parameters.extend(parameters.into_iter().map(own));
            checked.slots.push(begin..checked.parameters.len());
            checked.inputs.push(inputs);
            checked.built.push(built);
            if places.insert(&layer.name, checked.places.len()).is_some() {
                return Err(Error::invalid("two layers of a step have the same name; rename one")
                    .with("step layer", &layer.name));
            }
            checked.places.push(Place { shape, stage });
        }
        for output in &self.outputs {
            checked.outputs.push(find(&places, output)?);
        }
        Ok(())
    }

    fn check_memories(&self, inputs: &[Shape], checked: &mut Checked) -> Result<()> {
        let places = self.places(self.layers.len());
        for (memory, place) in self.memories.iter().zip(self.links.len()..) {
            let found = find(&places, &memory.of)?;
            let (of, own) = (checked.places[found].shape, checked.places[place].shape);
            if (of.size, of.value, of.level) != (own.size, own.value, own.level) {
                return Err(Error::invalid(format!(
                    "the memory is {own} but layer {:?}, which it remembers, is {of}; give both \
                     the same size",
                    memory.of
                )));
            }
            let boot = match &memory.boot {
                None => None,
                Some(name) => Some(find(&places, name)?),
            };
            if let Some(boot) = boot.map(|boot| inputs[boot])
                && (boot.size, boot.value, boot.level) != (own.size, own.value, own.level)
            {
                return Err(Error::invalid(format!(
                    "the memory of layer {:?} is {own} but begins with boot_layer, which is {boot}",
                    memory.of
                )));
            }
            if memory.is_sequence && boot.is_none() {
                return Err(Error::invalid("a memory of sequences needs a boot_layer")
                    .with("memory of", &memory.of));
            }
            let bias = memory.has_bias.then_some(checked.parameters.len());
            if memory.has_bias {
                let slot = Slot::bias(memory.size);
                let name = format!("{}.{}", memory.name, slot.name);
                checked.parameters.push(Slot { name, ..slot });
            }
            checked.remembered.push(found);
            checked.boots.push(boot);
            checked.biases.push(bias);
        }
        Ok(())
    }

    /// What memories are in the first step; `links` are those of all samples.
    pub(super) fn boot(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        links: &[Option<Argument>],
        samples: usize,
    ) -> Result<Vec<Argument>> {
        let each = self.memories.iter().enumerate();
        each.map(|(number, memory)| {
            if let Some(id) = memory.boot_id {
                let ids = Value::Integer(Arc::from(vec![id; samples]));
                return Ok(Argument::single(Tensor::zeros([1, 1], run.device)).with_value(ids));
            }
            let zeros = || Argument::single(Tensor::zeros([samples, memory.size], run.device));
            let boot = checked.boots[number].and_then(|link| links[link].clone());
            let mut begin = boot.unwrap_or_else(zeros);
            if let Some(bias) = checked.biases[number] {
                let biased = begin.dense()? + run.parameter(bias);
                begin.set_dense(biased);
            }
            memory.activation.apply(begin)
        })
        .collect()
    }

    /// Runs the layers whose turn it is; `values` are by place.
    pub(super) fn run(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        turn: Turn<'_>,
        values: &mut [Option<Argument>],
    ) -> Result<()> {
        let given = self.links.len() + self.memories.len();
        for (number, layer) in self.layers.iter().enumerate() {
            let own = &checked.places[given + number];
            if !turn.stages.contains(&own.stage) {
                continue;
            }
            let inputs = &checked.inputs[number];
            let taken: Vec<&Argument> =
                inputs.iter().filter_map(|place| values[*place].as_ref()).collect();
            let shapes: Vec<Shape> =
                inputs.iter().map(|place| checked.places[*place].shape).collect();
            let inside = Run {
                parameters: &run.parameters[checked.slots[number].clone()],
                lookups: &[],
                chance: run.chance.within(number, turn.step),
                shapes: &shapes,
                is_training: run.is_training,
                device: run.device,
                measured: std::cell::RefCell::default(),
            };
            let built = checked.built[number].as_ref();
            let value = Node { layer, built, shape: &own.shape }.run(&inside, &taken);
            let value = value.map_err(|error| error.with("step layer", &layer.name))?;
            values[given + number] = Some(value);
        }
        Ok(())
    }
}

impl Checked {
    /// The places that layers of a stage take.
    pub(super) fn taken_at(&self, stage: Stage) -> Vec<usize> {
        let layers = &self.places[self.places.len() - self.inputs.len()..];
        let taken = layers.iter().zip(&self.inputs).filter(|(place, _)| place.stage == stage);
        taken.flat_map(|(_, inputs)| inputs.iter().copied()).collect()
    }

    /// What the memories of the next step are.
    pub(super) fn remember(&self, values: &[Option<Argument>]) -> Vec<Argument> {
        self.remembered.iter().filter_map(|place| values[*place].clone()).collect()
    }
}

impl Role {
    /// When it is there.
    fn stage(self) -> Stage {
        match self {
            Role::Part => Stage::Before,
            Role::Whole | Role::Boot => Stage::Once,
            Role::Word => Stage::During,
        }
    }
}

impl Link {
    fn shape(&self, input: &Shape) -> Result<Shape> {
        let seen = Shape { is_data: false, ..*input };
        match (self.role, input.level) {
            (Role::Part, Level::Sequence) => Ok(Shape { level: Level::Single, ..seen }),
            (Role::Part, Level::Nested) => Ok(Shape { level: Level::Sequence, ..seen }),
            (Role::Part, Level::Single) => Err(Error::invalid(format!(
                "a recurrent group goes along sequences but one of its inputs is {input}; give it \
                 as StaticInput if every step is to see it"
            ))),
            (Role::Whole | Role::Boot | Role::Word, _) => Ok(seen),
        }
    }
}

impl Memory {
    fn shape(&self) -> Shape {
        let level = if self.is_sequence { Level::Sequence } else { Level::Single };
        let value = match self.boot_id {
            Some(_) => shape::Value::Integer,
            None => shape::Value::Dense,
        };
        Shape { level, value, ..Shape::dense(self.size) }
    }
}

fn find(places: &HashMap<&str, usize>, name: &str) -> Result<usize> {
    places.get(name).copied().ok_or_else(|| {
        Error::new(Kind::NotFound, "no such layer in the step").with("step layer", name)
    })
}
