//! A checked topology, ready to run: values of parameters in, cost and gradients out.

use crate::argument::{Argument, numbers, tensor};
use crate::batch::{Batch, Output};
use crate::chance::Chance;
use crate::device;
use crate::evaluator::{self, Counted, Tally, watch};
use crate::fused;
use crate::gradient_tap::Tap;
use crate::keys::{Part, Prepared};
use crate::layer::{Layer, Node, Run};
use crate::lent::Lent;
use crate::measured::Measured;
use crate::pool::Pool;
use crate::shape::Shape;
use crate::side_by_side::Joined;
use crate::topology::{Checked, NetworkIndex, Parameter, Topology, at};
use burn::tensor::{Device, Tensor};
use contract::{Error, Kind, Result};
use rayon::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// How a network runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The threads that compute.
    pub threads: usize,
    /// Whether to compute on a GPU.
    pub use_gpu: bool,
    /// Where dropout's chance comes from.
    pub seed: u64,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        NetworkConfig { threads: 1, use_gpu: false, seed: 1 }
    }
}

/// A batch is computed in parts, one a thread, if each has this many samples. With fewer, threads
/// share the work of each product instead.
const PART_SAMPLES_MIN: usize = 16;

/// A network that can be run.
pub struct Network {
    topology: Topology,
    checked: Checked,
    /// Layers that run as one.
    joined: Joined,
    /// The data layers, in the order in which batches bring their inputs.
    inputs: Vec<usize>,
    config: NetworkConfig,
    device: Device,
    pool: Pool,
}

/// What running a network for training gave.
pub struct Trained {
    /// The cost, summed over samples and costs.
    pub cost: f64,
    /// By place of the parameter: its gradient, `None` if nothing depends on it or it is static,
    /// or if the cost is no number. A sparse one has the rows of the batch's keys.
    pub gradients: Vec<Option<Vec<f32>>>,
    /// By place of the parameter: the new values of one that is not learnt but measured.
    pub measured: Vec<Option<Vec<f32>>>,
    /// What evaluators and callers may look at.
    pub seen: Seen,
}

/// The layers' outputs that are kept: what is asked for, and what evaluators look at.
pub struct Seen {
    samples: usize,
    /// For each part of the batch: by place of the layer.
    parts: Vec<Vec<Option<Argument>>>,
    /// For each part of the batch: the gradients of outputs that are watched, by place of the layer.
    gradients: Vec<HashMap<usize, Vec<f32>>>,
}

/// In which way to run.
#[derive(Debug, Clone, Copy)]
enum Mode<'a> {
    /// With gradients, and dropout decided by the number of the step and of the batch's part.
    /// Gradients of outputs that are watched are kept in the taps.
    Train {
        step: u64,
        part: usize,
        taps: &'a Taps,
    },
    Test,
}

/// Where the gradients of outputs that are watched are kept, by place of the layer.
type Taps = HashMap<usize, Tap>;

impl Mode<'_> {
    /// Where to keep the gradient of a layer's output, if it is watched.
    fn tap(&self, place: usize) -> Option<&Tap> {
        match self {
            Mode::Train { taps, .. } => taps.get(&place),
            Mode::Test => None,
        }
    }
}

/// Where the first NaN or infinity of a step appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprit {
    /// In the data that is fed to this layer.
    Data(String),
    /// In this parameter.
    Parameter(String),
    /// In the output of this layer, whose inputs and parameters are all finite.
    Layer(String),
}

impl Network {
    /// Checks a topology and makes it ready to run.
    ///
    /// # Errors
    /// If the topology has a mistake, or the GPU that is asked for is not supported.
    pub fn new(topology: Topology, config: NetworkConfig) -> Result<Network> {
        let checked = topology.check()?;
        let inputs = (0..topology.layers.len()).filter(|&place| checked.shapes[place].is_data);
        let inputs = inputs.collect();
        let device = device::open(config.use_gpu)?;
        let pool = Pool::new(config.threads)?;
        let joined = match fused::is_supported(&device) {
            true => Joined::new(&topology, &checked),
            false => Joined::default(),
        };
        Ok(Network { topology, checked, joined, inputs, config, device, pool })
    }

    /// The data layers and their shapes, in the order in which batches bring their inputs.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.inputs
            .iter()
            .map(|&place| (self.topology.layers[place].name.as_str(), &self.checked.shapes[place]))
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.topology.parameters
    }

    /// Whether training measures the parameter at this place, where others are learnt.
    pub fn is_measured(&self, place: usize) -> bool {
        self.checked.is_measured[place]
    }

    /// What it was made of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Checks a batch and finds the keys that it looks up in sparse parameters. Runs on the thread
    /// of the caller, which need not wait for a batch that is being computed.
    pub fn prepare(&self, batch: Batch) -> Result<Prepared> {
        let names = self.inputs.iter().map(|&place| &self.topology.layers[place]);
        if batch.inputs.len() != self.inputs.len() {
            return Err(Error::invalid("the batch feeds another number of data layers")
                .with("expected", self.inputs.len())
                .with("got", batch.inputs.len()));
        }
        let mut arguments = vec![None; self.topology.layers.len()];
        let samples = batch.samples;
        for ((&place, layer), input) in self.inputs.iter().zip(names).zip(batch.inputs) {
            let shape = &self.checked.shapes[place];
            let argument = Argument::from_input(input, shape, samples, &self.device)
                .map_err(|error| at(layer, error))?;
            arguments[place] = Some(argument);
        }
        Prepared::new(&self.topology, &self.checked, samples, arguments)
    }

    /// Runs work that comes after a batch, on the threads that computed it.
    pub fn share<T: Send>(
        &self,
        prepared: &Prepared,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        // If there is little to share, handing it over would cost more than it brings.
        match self.pool.threads() == 1 || self.is_mostly_rows(prepared) {
            true => work(),
            false => self.pool.run(work),
        }
    }

    /// Forward and backward. `values` are by place of the parameter; of a sparse one, the rows of
    /// [`Prepared::keys`]. The same `step` drops the same numbers out.
    pub fn train(&self, prepared: &Prepared, values: &[&[f32]], step: u64) -> Result<Trained> {
        self.train_lent(prepared, &copied(values), step)
    }

    /// As [`Network::train`], from values that are read where they lie.
    pub fn train_shared(
        &self,
        prepared: &Prepared,
        values: &[Arc<Vec<f32>>],
        step: u64,
    ) -> Result<Trained> {
        self.train_lent(prepared, &values.iter().map(Lent::Shared).collect::<Vec<_>>(), step)
    }

    fn train_lent(&self, prepared: &Prepared, values: &[Lent<'_>], step: u64) -> Result<Trained> {
        self.pool.run(|| {
            let parameters = self.load(prepared, values, &self.device)?;
            let trained = self
                .run_parts(prepared, |part, data| self.train_part(data, &parameters, step, part))?;
            let (mut cost, mut gradients, mut parts) = (0.0, vec![None; values.len()], Vec::new());
            let mut of_outputs = Vec::new();
            let mut measured = Measured::default();
            for part in trained {
                cost += part.cost;
                sum_up(&mut gradients, part.gradients);
                measured.append(part.measured);
                parts.push(part.arguments);
                of_outputs.push(part.of_outputs);
            }
            if !cost.is_finite() {
                gradients = vec![None; values.len()];
            }
            for (gradient, values) in gradients.iter_mut().zip(values) {
                // A parameter without rows was computed with one.
                gradient.iter_mut().for_each(|gradient| gradient.truncate(values.values().len()));
            }
            let measured = measured.values(values.len());
            let seen = Seen { samples: prepared.samples(), parts, gradients: of_outputs };
            Ok(Trained { cost, gradients, measured, seen })
        })
    }

    /// Forward only, as in a test: nothing is dropped out.
    pub fn test(&self, prepared: &Prepared, values: &[&[f32]]) -> Result<Seen> {
        self.pool.run(|| {
            let parameters = self.load(prepared, &copied(values), &self.device)?;
            let parts = self.run_parts(prepared, |_, data| {
                Ok(self.keep(self.forward(data, &parameters, Mode::Test, None)?.0))
            })?;
            Ok(Seen { samples: prepared.samples(), parts, gradients: Vec::new() })
        })
    }

    /// The output of any layer, as in a test.
    pub fn look(&self, prepared: &Prepared, values: &[&[f32]], layer: &str) -> Result<Output> {
        let place = self.place(layer)?;
        self.pool.run(|| {
            let parameters = self.load(prepared, &copied(values), &self.device)?;
            let mut found = None;
            let mut look = |at: usize, argument: &Argument| {
                if at == place {
                    found = Some(argument.to_output());
                }
            };
            self.forward(prepared.whole(), &parameters, Mode::Test, Some(&mut look))?;
            found.ok_or_else(|| Error::new(Kind::NotFound, "no such layer").with("layer", layer))
        })
    }

    /// Finds where the first NaN or infinity of a step appears.
    pub fn find_culprit(
        &self,
        prepared: &Prepared,
        values: &[&[f32]],
        step: u64,
    ) -> Result<Option<Culprit>> {
        let is_bad = |values: &[f32]| values.iter().any(|number| !number.is_finite());
        for (parameter, values) in self.topology.parameters.iter().zip(values) {
            if is_bad(values) {
                return Ok(Some(Culprit::Parameter(parameter.name.clone())));
            }
        }
        self.pool.run(|| {
            let parameters = self.load(prepared, &copied(values), &self.device)?;
            let mut culprit = None;
            let mut look = |place: usize, argument: &Argument| {
                let layer = &self.topology.layers[place];
                if culprit.is_none() && argument.numbers().is_some_and(|values| is_bad(&values)) {
                    culprit = Some(match self.checked.shapes[place].is_data {
                        true => Culprit::Data(layer.name.clone()),
                        false => Culprit::Layer(layer.name.clone()),
                    });
                }
            };
            let mode = Mode::Train { step, part: 0, taps: &Taps::new() };
            self.forward(prepared.whole(), &parameters, mode, Some(&mut look))?;
            Ok(culprit)
        })
    }

    /// The cost of what was seen, summed over samples and costs.
    pub fn cost(&self, seen: &Seen) -> Result<f64> {
        let mut cost = 0.0;
        for (place, _) in self.costs() {
            for argument in seen.parts.iter().filter_map(|part| part[place].as_ref()) {
                cost += sum_of(argument.dense()?);
            }
        }
        Ok(cost)
    }

    /// One of the outputs that are asked for.
    pub fn output(&self, seen: &Seen, layer: &str) -> Result<Output> {
        let place = self.place(layer)?;
        let parts = seen.parts.iter().filter_map(|part| Some(part[place].as_ref()?.to_output()));
        let whole = parts.reduce(|mut whole, part| {
            whole.append(part);
            whole
        });
        whole.ok_or_else(|| {
            Error::invalid("this layer is not an output of the network").with("layer", layer)
        })
    }

    /// The gradient of the output of a layer that an evaluator watches, row after row.
    pub fn output_gradient(&self, seen: &Seen, layer: &str) -> Result<Vec<f32>> {
        let place = self.place(layer)?;
        let parts: Option<Vec<_>> = seen.gradients.iter().map(|part| part.get(&place)).collect();
        let gradient = parts
            .filter(|parts| !parts.is_empty())
            .map(|parts| parts.into_iter().flatten().copied().collect());
        gradient.ok_or_else(|| {
            Error::invalid("the gradient of this layer was not kept, or nothing depends on it")
                .with("layer", layer)
        })
    }

    /// The evaluators, with nothing counted yet.
    pub fn tally(&self) -> Result<Tally> {
        let evaluators = self.topology.evaluators.iter().map(|described| {
            let inputs = described.inputs.iter().map(|input| self.place(input));
            Ok(Counted {
                name: described.name.clone(),
                inputs: inputs.collect::<Result<_>>()?,
                evaluator: evaluator::build(described)?,
            })
        });
        Ok(Tally { evaluators: evaluators.collect::<Result<_>>()? })
    }

    fn place(&self, layer: &str) -> Result<usize> {
        let place = self.topology.layers.iter().position(|other| other.name == layer);
        place.ok_or_else(|| {
            Error::new(Kind::NotFound, "no such layer in the network").with("layer", layer)
        })
    }

    /// Whether there is something to train.
    pub fn has_cost(&self) -> bool {
        self.costs().next().is_some()
    }

    /// The outputs that are costs, with what their gradients are multiplied with.
    fn costs(&self) -> impl Iterator<Item = (usize, f32)> {
        let outputs = &self.topology.outputs;
        outputs.iter().enumerate().filter_map(|(number, output)| {
            // One that is asked for twice is still one cost.
            let is_new = !outputs[..number].contains(output);
            let place = is_new.then(|| self.place(output).ok()).flatten()?;
            Some((place, self.checked.layers[place].coefficient()?))
        })
    }

    /// Runs a batch, in as many parts as there are threads if it is large enough, and gives what
    /// each part gave.
    fn run_parts<T: Send>(
        &self,
        prepared: &Prepared,
        run: impl Fn(usize, &Part) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let threads = self.pool.threads();
        let is_small = prepared.samples() < threads * PART_SAMPLES_MIN;
        let layers = &self.checked.layers;
        let is_whole = is_small || !layers.iter().all(|layer| layer.is_sample_by_sample());
        if threads == 1 || self.config.use_gpu || is_whole || self.is_mostly_rows(prepared) {
            return Ok(vec![run(0, prepared.whole())?]);
        }
        let parts = prepared.whole().split(threads);
        parts.par_iter().enumerate().map(|(number, part)| run(number, part)).collect()
    }

    fn is_mostly_rows(&self, prepared: &Prepared) -> bool {
        let parameters = &self.topology.parameters;
        let dense = parameters.iter().filter(|parameter| !parameter.is_sparse);
        let elements = dense.map(|parameter| parameter.dims[0] * parameter.dims[1]).sum();
        prepared.is_mostly_rows(elements, |place| parameters[place].dims[1])
    }

    fn train_part(
        &self,
        data: &Part,
        parameters: &[Tensor<2>],
        step: u64,
        part: usize,
    ) -> Result<TrainedPart> {
        let all = parameters.iter().zip(&self.topology.parameters);
        let parameters: Vec<Tensor<2>> = all
            .map(|(values, parameter)| match parameter.is_static {
                true => values.clone().autodiff(),
                false => values.clone().autodiff().require_grad(),
            })
            .collect();
        let taps = self.taps();
        let mode = Mode::Train { step, part, taps: &taps };
        let (arguments, measured) = self.forward(data, &parameters, mode, None)?;
        let mut cost = 0.0;
        let mut loss: Option<Tensor<1>> = None;
        for (place, coefficient) in self.costs() {
            let Some(argument) = &arguments[place] else { continue };
            let output = argument.dense()?;
            cost += sum_of(output.clone());
            let scaled = output.sum().mul_scalar(coefficient);
            loss = Some(match loss {
                None => scaled,
                Some(loss) => loss + scaled,
            });
        }
        let loss = loss.ok_or_else(|| {
            Error::invalid("none of the outputs is a cost, so there is nothing to train")
        })?;
        let mut gradients = vec![None; parameters.len()];
        if cost.is_finite() && loss.is_tracked() {
            let mut found = loss.backward();
            for (gradient, parameter) in gradients.iter_mut().zip(&parameters) {
                *gradient = parameter.grad_remove(&mut found).map(numbers);
            }
        }
        let of_outputs = taps.iter().filter_map(|(place, tap)| Some((*place, tap.take()?)));
        let of_outputs = of_outputs.collect();
        let arguments = self.keep(arguments);
        Ok(TrainedPart { cost, gradients, measured, arguments, of_outputs })
    }

    /// Where to keep the gradients of the outputs that are watched, by place of the layer.
    fn taps(&self) -> Taps {
        let watching = self.topology.evaluators.iter().filter(|each| watch::wants_gradient(each));
        let layers = watching.flat_map(|evaluator| &evaluator.inputs);
        layers.filter_map(|layer| Some((self.place(layer).ok()?, Tap::default()))).collect()
    }

    fn load(
        &self,
        prepared: &Prepared,
        values: &[Lent<'_>],
        device: &Device,
    ) -> Result<Vec<Tensor<2>>> {
        let parameters = &self.topology.parameters;
        if values.len() != parameters.len() {
            return Err(Error::invalid("the network has another number of parameters")
                .with("expected", parameters.len())
                .with("got", values.len()));
        }
        let load = |(place, (parameter, lent)): (usize, (&Parameter, &Lent<'_>))| {
            let width = parameter.dims[1];
            let rows = prepared.keys(NetworkIndex(place)).map_or(parameter.dims[0], <[u64]>::len);
            if lent.values().len() != rows * width {
                return Err(Error::invalid("the values of a parameter have another size")
                    .with("parameter", &parameter.name)
                    .with("expected", rows * width)
                    .with("got", lent.values().len()));
            }
            // A tensor without rows has no gradient; one that nobody looks up does not matter.
            Ok(match rows {
                0 => tensor(vec![0.0; width], [1, width], device),
                _ => lent.tensor([rows, width], device),
            })
        };
        parameters.iter().zip(values).enumerate().map(load).collect()
    }

    /// Runs all layers in order and gives their outputs, and what layers measured. `look` sees the
    /// output of each layer, so with it none are joined.
    fn forward(
        &self,
        data: &Part,
        parameters: &[Tensor<2>],
        mode: Mode<'_>,
        mut look: Option<Look<'_>>,
    ) -> Result<(Vec<Option<Argument>>, Measured)> {
        let mut measured = Measured::default();
        let device = parameters.first().map_or_else(|| self.device.clone(), Tensor::device);
        let mut arguments = data.arguments(&device);
        let alone = Joined::default();
        let joined = if look.is_some() { &alone } else { &self.joined };
        for &place in &self.checked.order {
            if joined.skipped.contains(&place) {
                continue;
            }
            if arguments[place].is_none() {
                let Wired { built, inputs: input_places, parameters: places, lookups } =
                    self.wired(place, data, joined);
                let own: Vec<Tensor<2>> =
                    places.iter().map(|&parameter| parameters[parameter].clone()).collect();
                let inputs: Vec<&Argument> =
                    input_places.iter().filter_map(|&input| arguments[input].as_ref()).collect();
                let shapes: Vec<Shape> =
                    input_places.iter().map(|&input| self.checked.shapes[input]).collect();
                let run = Run {
                    parameters: &own,
                    lookups: &lookups,
                    shapes: &shapes,
                    is_training: matches!(mode, Mode::Train { .. }),
                    device: &device,
                    measured: RefCell::default(),
                    chance: self.chance(place, mode),
                };
                let layer = &self.topology.layers[place];
                let node = Node { layer, built, shape: &self.checked.shapes[place] };
                let mut argument = node.run(&run, &inputs).map_err(|error| at(layer, error))?;
                if let Some(tap) = mode.tap(place) {
                    argument.set_dense(tap.through(argument.dense()?));
                }
                for (slot, values) in run.measured.into_inner() {
                    measured.add(places[slot], argument.rows(), values);
                }
                arguments[place] = Some(argument);
            }
            if let (Some(look), Some(argument)) = (&mut look, &arguments[place]) {
                look(place, argument);
            }
        }
        Ok((arguments, measured))
    }

    /// A layer with all that it reads; of several that run as one, what stands for them.
    fn wired<'a>(&'a self, place: usize, data: &'a Part, joined: &'a Joined) -> Wired<'a> {
        let checked = &self.checked;
        match joined.layers.get(&place) {
            None => Wired {
                built: checked.layers[place].as_ref(),
                inputs: &checked.inputs[place],
                parameters: checked.parameters[place].clone(),
                lookups: data.lookups(place),
            },
            Some(layer) => {
                let lookups = layer.lookups.iter();
                let parameters =
                    lookups.clone().map(|&(place, slot)| checked.parameters[place][slot]);
                let lookup = |&(place, slot): &(usize, usize)| {
                    data.lookups(place).get(slot).copied().flatten()
                };
                Wired {
                    built: layer,
                    inputs: &layer.inputs,
                    parameters: parameters.collect(),
                    lookups: lookups.map(lookup).collect(),
                }
            }
        }
    }

    /// What decides what a layer leaves to chance; in a test it is always the same.
    fn chance(&self, place: usize, mode: Mode<'_>) -> Chance {
        let (step, part) = match mode {
            Mode::Train { step, part, .. } => (step, part),
            Mode::Test => (0, 0),
        };
        Chance { seed: self.config.seed, step, part, place }
    }

    /// Drops the outputs that nobody will ask for.
    fn keep(&self, mut arguments: Vec<Option<Argument>>) -> Vec<Option<Argument>> {
        let mut is_kept = vec![false; arguments.len()];
        let looked_at = self.topology.evaluators.iter().flat_map(|evaluator| &evaluator.inputs);
        for name in self.topology.outputs.iter().chain(looked_at) {
            if let Ok(place) = self.place(name) {
                is_kept[place] = true;
            }
        }
        for (argument, is_kept) in arguments.iter_mut().zip(is_kept) {
            if !is_kept {
                *argument = None;
            }
        }
        arguments
    }
}

/// Sees the place and the output of each layer.
type Look<'a> = &'a mut dyn FnMut(usize, &Argument);

/// A layer, and places of what it reads.
struct Wired<'a> {
    built: &'a dyn Layer,
    inputs: &'a [usize],
    parameters: Vec<usize>,
    lookups: Vec<Option<&'a [u32]>>,
}

/// What training with a part of a batch gave.
struct TrainedPart {
    cost: f64,
    gradients: Vec<Option<Vec<f32>>>,
    measured: Measured,
    arguments: Vec<Option<Argument>>,
    /// The gradients of outputs that are watched.
    of_outputs: HashMap<usize, Vec<f32>>,
}

/// Adds the gradients of another part, always in the order of the parts: the sums are the same
/// whichever thread was done first.
fn sum_up(sums: &mut [Option<Vec<f32>>], gradients: Vec<Option<Vec<f32>>>) {
    sums.par_iter_mut().zip(gradients).for_each(|(sum, gradient)| match (sum, gradient) {
        (_, None) => {}
        (sum @ None, gradient) => *sum = gradient,
        (Some(sum), Some(gradient)) => {
            sum.iter_mut().zip(gradient).for_each(|(sum, number)| *sum += number);
        }
    });
}

fn copied<'a>(values: &[&'a [f32]]) -> Vec<Lent<'a>> {
    values.iter().map(|values| Lent::Slice(values)).collect()
}

fn sum_of(costs: Tensor<2>) -> f64 {
    numbers(costs).iter().map(|cost| f64::from(*cost)).sum()
}

impl Seen {
    /// Samples of the batch.
    pub fn samples(&self) -> usize {
        self.samples
    }
}

impl Tally {
    /// Counts what a run gave.
    pub fn add(&mut self, seen: &Seen) -> Result<()> {
        for counted in &mut self.evaluators {
            for part in &seen.parts {
                let inputs = counted.inputs.iter().filter_map(|&place| part[place].as_ref());
                let added = counted.evaluator.add(&inputs.collect::<Vec<_>>());
                added.map_err(|error| error.with("evaluator", &counted.name))?;
            }
        }
        Ok(())
    }
}
