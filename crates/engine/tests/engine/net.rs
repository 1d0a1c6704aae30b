//! Networks for tests: layers are added one by one; parameters and data follow from their plans.

use crate::random::Random;
use engine::batch::{Batch, Input, Lists, Rows};
use engine::shape::{Level, Shape, Value};
use engine::topology::{Evaluator, Layer, Parameter, Topology};
use engine::{Network, NetworkConfig};
use serde_json::json;
use std::collections::HashMap;

/// The most ids of a random list.
const LIST_MAX: u64 = 4;

/// A random key, where keys have no bound.
const KEYS: [u64; 5] = [0, 7, u32::MAX as u64, 1 << 40, u64::MAX - 1];

/// A network in the making.
pub(crate) struct Net {
    pub(crate) topology: Topology,
    shapes: HashMap<String, Shape>,
}

/// Whether networks of tests run on the GPU: if `ENGINE_TEST_GPU` is set.
pub(crate) fn is_on_gpu() -> bool {
    std::env::var_os("ENGINE_TEST_GPU").is_some()
}

/// How networks of tests run.
pub(crate) fn config() -> NetworkConfig {
    NetworkConfig { use_gpu: is_on_gpu(), ..NetworkConfig::default() }
}

impl Net {
    pub(crate) fn new() -> Net {
        let topology = Topology {
            layers: Vec::new(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            evaluators: Vec::new(),
        };
        Net { topology, shapes: HashMap::new() }
    }

    /// Adds a layer; parameters that it does not name are made for it.
    pub(crate) fn add(&mut self, description: serde_json::Value) -> String {
        let mut layer: Layer = serde_json::from_value(description).unwrap();
        let inputs: Vec<Shape> = layer.inputs.iter().map(|input| self.shapes[input]).collect();
        let plan = engine::layer::plan(&layer, &inputs).unwrap_or_else(|error| panic!("{error}"));
        for slot in &plan.parameters[layer.parameters.len()..] {
            layer.parameters.push(format!("_{}.{}", layer.name, slot.name));
        }
        for (name, slot) in layer.parameters.iter().zip(&plan.parameters) {
            if self.topology.parameters.iter().all(|parameter| parameter.name != *name) {
                self.topology.parameters.push(Parameter {
                    name: name.clone(),
                    dims: slot.dims,
                    is_sparse: slot.dims[0] == 0,
                    is_static: slot.is_measured,
                });
            }
        }
        let name = layer.name.clone();
        self.shapes.insert(name.clone(), plan.shape);
        self.topology.layers.push(layer);
        name
    }

    /// Adds a data layer. Size 0: keys without a bound.
    pub(crate) fn data(&mut self, name: &str, value: Value, level: Level, size: usize) -> String {
        let size = (size > 0).then_some(size);
        let attributes = json!({"value": value, "level": level, "size": size, "frame": null});
        self.add(json!({"name": name, "kind": "data", "attributes": attributes}))
    }

    /// Adds a picture of numbers that are fed.
    pub(crate) fn picture(&mut self, name: &str, level: Level, dims: [usize; 3]) -> String {
        let [channels, height, width] = dims;
        let attributes = json!({
            "value": Value::Dense, "level": level, "size": channels * height * width,
            "frame": [height, width],
        });
        self.add(json!({"name": name, "kind": "data", "attributes": attributes}))
    }

    /// Adds a three-dimensional picture of numbers that are fed.
    pub(crate) fn volume(&mut self, name: &str, level: Level, dims: [usize; 4]) -> String {
        let [channels, depth, height, width] = dims;
        let attributes = json!({
            "value": Value::Dense, "level": level, "size": channels * depth * height * width,
            "frame": [height, width], "depth": depth,
        });
        self.add(json!({"name": name, "kind": "data", "attributes": attributes}))
    }

    pub(crate) fn shape(&self, layer: &str) -> Shape {
        self.shapes[layer]
    }

    /// Adds numbers that parameters make, so that their gradient shows that of `name`.
    pub(crate) fn input(&mut self, name: &str, level: Level, size: usize) -> String {
        self.activated(name, level, size, "linear")
    }

    pub(crate) fn activated(
        &mut self,
        name: &str,
        level: Level,
        size: usize,
        activation: &str,
    ) -> String {
        let data = self.data(&format!("{name} data"), Value::Dense, level, 3);
        self.add(json!({
            "name": name, "kind": "fc", "inputs": [data], "attributes": {"size": size},
            "activation": activation,
        }))
    }

    /// Makes a layer the network's cost; one that is none is compared with random numbers.
    pub(crate) fn train(&mut self, layer: &str, is_cost: bool) {
        let shape = self.shapes[layer];
        let cost = if is_cost {
            layer.to_owned()
        } else {
            let target = self.data("target", Value::Dense, shape.level, shape.size);
            self.add(json!({"name": "cost", "kind": "square_error", "inputs": [layer, target]}))
        };
        self.topology.outputs = vec![cost];
    }

    pub(crate) fn evaluate(&mut self, name: &str, inputs: &[&str], attributes: &serde_json::Value) {
        self.topology.evaluators.push(Evaluator {
            name: name.to_owned(),
            kind: name.to_owned(),
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            attributes: attributes.as_object().unwrap().clone(),
        });
    }

    pub(crate) fn layer_mut(&mut self, name: &str) -> &mut Layer {
        self.topology.layers.iter_mut().find(|layer| layer.name == name).unwrap()
    }

    pub(crate) fn network(&self) -> Network {
        self.network_with(config())
    }

    pub(crate) fn network_with(&self, config: NetworkConfig) -> Network {
        Network::new(self.topology.clone(), config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Random data; `lengths` are those of every sequence, one a sample. Nested ones have as many
    /// sequences.
    pub(crate) fn batch(&self, lengths: &[usize], seed: u64) -> Batch {
        let mut random = Random::new(seed);
        let data = self.topology.layers.iter().filter(|layer| layer.kind == "data");
        let inputs = data.map(|layer| {
            let shape = self.shapes[&layer.name];
            let mut rows = |count| random_rows(&shape, count, &mut random);
            match shape.level {
                Level::Single => Input::single(rows(lengths.len())),
                Level::Sequence => Input::sequence(rows(lengths.iter().sum()), offsets(lengths)),
                Level::Nested => {
                    let sequences = offsets(&inner_lengths(lengths));
                    let rows = rows(sequences[sequences.len() - 1]);
                    Input { nests: Some(offsets(lengths)), ..Input::sequence(rows, sequences) }
                }
            }
        });
        Batch { samples: lengths.len(), inputs: inputs.collect() }
    }
}

fn offsets(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The lengths of the sequences of nested ones, some of them 0.
fn inner_lengths(lengths: &[usize]) -> Vec<usize> {
    let each = lengths.iter().enumerate();
    each.flat_map(|(sample, count)| (0..*count).map(move |at| (1 + sample + 2 * at) % 4)).collect()
}

fn random_rows(shape: &Shape, rows: usize, random: &mut Random) -> Rows {
    let id = |random: &mut Random| match shape.size {
        0 => KEYS[random.below(KEYS.len() as u64) as usize],
        size => random.below(size as u64),
    };
    match shape.value {
        Value::Dense => Rows::Dense((0..rows * shape.size).map(|_| random.number()).collect()),
        Value::Integer => Rows::Integer((0..rows).map(|_| id(random)).collect()),
        Value::SparseBinary | Value::SparseFloat => {
            let mut lists = Lists { offsets: vec![0], ..Lists::default() };
            for _ in 0..rows {
                let count = random.below(LIST_MAX);
                lists.ids.extend((0..count).map(|_| id(random)));
                lists.offsets.push(lists.ids.len());
            }
            let count = lists.ids.len();
            lists.values = (shape.value == Value::SparseFloat)
                .then(|| (0..count).map(|_| random.number()).collect());
            Rows::Sparse(lists)
        }
    }
}
