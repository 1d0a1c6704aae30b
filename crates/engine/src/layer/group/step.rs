//! The network of one step: what a recurrent group runs for every row, and a beam search for every
//! word.
//!
//! Its layers see the group's inputs under other names (links), and memories: what a layer gave in
//! the step before. Values of a step have places: first the links, then the memories, then the
//! layers.

use super::stage::{Stage, StagedValue, earliest, put_off};
use crate::activation::Activation;
use crate::layer::{self, Layer, Plan, Slot};
use crate::shape::{self, Level, Shape};
use crate::topology;
use contract::{Error, Kind, Result};
use serde::Deserialize;
use std::collections::HashMap;
use std::ops::Range;

/// The network of a step, as described.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Each after those that it takes.
    pub(super) layers: Vec<topology::Layer>,
    /// One for each input of the group.
    pub(super) links: Vec<Link>,
    pub(super) memories: Vec<Memory>,
    /// The layers whose numbers a step gives.
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
    pub(super) size: usize,
    /// Whether that gives sequences.
    #[serde(default)]
    is_sequence: bool,
    /// The link that it begins with; zeros without.
    boot: Option<String>,
    /// The id that it begins with, if it remembers ids.
    pub(super) boot_id: Option<u64>,
    /// Whether what it begins with is learnt, or added to.
    #[serde(default)]
    has_bias: bool,
    /// What is applied to what it begins with.
    #[serde(default)]
    pub(super) activation: Activation,
}

/// The network of a step, checked.
pub(super) struct Checked {
    pub(super) places: Vec<StagedValue>,
    /// By number of the layer.
    pub(super) built: Vec<Box<dyn Layer>>,
    pub(super) inputs: Vec<Vec<usize>>,
    /// Which of the group's parameters are the layer's.
    pub(super) slots: Vec<Range<usize>>,
    /// By number of the memory.
    pub(super) memories: Vec<Remembered>,
    /// Places.
    pub(super) outputs: Vec<usize>,
    pub(super) parameters: Vec<Slot>,
}

/// A memory, checked.
pub(super) struct Remembered {
    /// The place that it remembers.
    pub(super) of: usize,
    /// The link that it begins with.
    pub(super) boot: Option<usize>,
    /// Its bias among the group's parameters.
    pub(super) bias: Option<usize>,
}

impl Step {
    /// Finds out what its layers give, from what the group is given.
    pub(super) fn check(&self, inputs: &[Shape], own: Vec<Slot>) -> Result<Checked> {
        if inputs.len() != self.links.len() {
            return Err(Error::invalid("takes another number of inputs")
                .with("expected", self.links.len())
                .with("got", inputs.len()));
        }
        if self.layers.len() > topology::LAYERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the step has too many layers")
                .with("layers", self.layers.len())
                .with("limit", topology::LAYERS_MAX));
        }
        let mut checked = Checked {
            places: Vec::new(),
            built: Vec::new(),
            inputs: Vec::new(),
            slots: Vec::new(),
            memories: Vec::new(),
            outputs: Vec::new(),
            parameters: own,
        };
        for (link, input) in self.links.iter().zip(inputs) {
            checked
                .places
                .push(StagedValue { shape: link.shape(input)?, stage: link.role.stage() });
        }
        let memories = self.memories.iter().map(Memory::shape);
        checked.places.extend(memories.map(|shape| StagedValue { shape, stage: Stage::During }));
        let given = checked.places.len();
        self.check_layers(&mut checked)?;
        self.check_memories(inputs, &mut checked)?;
        let remembered = checked.remembered();
        put_off(&mut checked.places, &checked.inputs, given, &remembered);
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
            let taken: Vec<&StagedValue> =
                inputs.iter().map(|place| &checked.places[*place]).collect();
            let shapes: Vec<Shape> = taken.iter().map(|place| place.shape).collect();
            let Plan { shape, parameters } = layer::plan(layer, &shapes)?;
            let built = layer::build(layer)?;
            if shape.is_data {
                return Err(Error::invalid(
                    "a data layer cannot be part of a step; make it outside, and give it to the \
                     group",
                )
                .with("step layer", &layer.name));
            }
            let is_measuring = parameters.iter().any(|slot| slot.is_measured);
            if is_measuring || !built.is_sample_by_sample() {
                return Err(Error::invalid(
                    "a layer that looks at the whole batch cannot be part of a step; put it before \
                     or behind the group",
                )
                .with("step layer", &layer.name));
            }
            let stage = match earliest(&taken, &shape) {
                // Every step drops other numbers out.
                Stage::Once if layer.drop_rate > 0.0 => Stage::During,
                stage => stage,
            };
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
            checked.places.push(StagedValue { shape, stage });
        }
        for output in &self.outputs {
            checked.outputs.push(find(&places, output)?);
        }
        Ok(())
    }

    fn check_memories(&self, inputs: &[Shape], checked: &mut Checked) -> Result<()> {
        let places = self.places(self.layers.len());
        for (memory, place) in self.memories.iter().zip(self.links.len()..) {
            let of = find(&places, &memory.of)?;
            let (remembered, own) = (checked.places[of].shape, checked.places[place].shape);
            if !is_alike(&remembered, &own) {
                let advice = match (remembered.level, own.level) {
                    (Level::Single, Level::Sequence) if memory.boot.is_some() => {
                        "it begins with a sequence, so it is one; give it one row a sample, for \
                         example first_seq of boot_layer (the original takes row i of the whole \
                         batch for sample i here, whichever sample it is of)"
                    }
                    _ => "give both the same size",
                };
                return Err(Error::invalid(format!(
                    "the memory is {own} but layer {:?}, which it remembers, is {remembered}; \
                     {advice}",
                    memory.of
                )));
            }
            let link = |name: &String| self.links.iter().position(|link| link.name == *name);
            let boot = memory.boot.as_ref().and_then(link);
            if let Some(begin) =
                boot.map(|boot| inputs[boot]).filter(|begin| !is_alike(begin, &own))
            {
                return Err(Error::invalid(format!(
                    "the memory of layer {:?} is {own} but begins with boot_layer, which is {begin}",
                    memory.of
                )));
            }
            memory.check(boot)?;
            let bias = memory.has_bias.then_some(checked.parameters.len());
            if memory.has_bias {
                let slot = Slot::bias(memory.size);
                let name = format!("{}.{}", memory.name, slot.name);
                checked.parameters.push(Slot { name, ..slot });
            }
            checked.memories.push(Remembered { of, boot, bias });
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

    /// The places that memories remember.
    pub(super) fn remembered(&self) -> Vec<usize> {
        self.memories.iter().map(|memory| memory.of).collect()
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
    /// Checks what it begins with.
    fn check(&self, boot: Option<usize>) -> Result<()> {
        let wrong = |what: &'static str| Err(Error::invalid(what).with("memory of", &self.of));
        if self.boot.is_some() && boot.is_none() {
            return wrong("the memory begins with a layer that is no input of the group");
        }
        if self.is_sequence && boot.is_none() {
            return wrong("a memory of sequences needs a boot_layer");
        }
        if self.boot_id.is_some_and(|id| id >= self.size as u64) {
            return wrong("boot_with_const_id is not below the size of the memory");
        }
        if self.boot_id.is_some() && (boot.is_some() || self.has_bias) {
            return wrong("boot_with_const_id goes with neither boot_layer nor boot_bias");
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        let level = if self.is_sequence { Level::Sequence } else { Level::Single };
        let value = match self.boot_id {
            Some(_) => shape::Value::Integer,
            None => shape::Value::Dense,
        };
        Shape { level, value, ..Shape::dense(self.size) }
    }
}

/// Whether one can stand for the other.
fn is_alike(a: &Shape, b: &Shape) -> bool {
    (a.size, a.value, a.level) == (b.size, b.value, b.level)
}

fn find(places: &HashMap<&str, usize>, name: &str) -> Result<usize> {
    places.get(name).copied().ok_or_else(|| {
        Error::new(Kind::NotFound, "no such layer in the step").with("step layer", name)
    })
}
