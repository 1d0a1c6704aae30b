//! Recurrent groups: one sample at a time, and of it one step at a time.

use super::{Given, Matrix, activate, forward, matrix};
use engine::activation::Activation;
use engine::batch::{Output, Rows};
use engine::shape::{Level, Shape};
use engine::topology::Layer;
use serde_json::Value;
use std::collections::HashMap;

/// Rows of numbers: one, or those of a sequence.
fn output(rows: &[Vec<f64>], width: usize, is_sequence: bool) -> Output {
    let sequences = is_sequence.then(|| vec![0, rows.len()]);
    let numbers = rows.iter().flatten().map(|number| *number as f32).collect();
    Output { rows: Rows::Dense(numbers), width, ids: None, sequences, nests: None }
}

/// One sample of an output, as an output of its own; then one part of a sample.
fn sample(whole: &Output, number: usize) -> Vec<Output> {
    let rows = matrix(whole);
    let one = |rows: &[Vec<f64>], is_sequence| output(rows, whole.width, is_sequence);
    match (&whole.sequences, &whole.nests) {
        (None, _) => vec![one(&rows[number..=number], false)],
        (Some(offsets), None) => {
            vec![one(&rows[offsets[number]..offsets[number + 1]], true)]
        }
        (Some(offsets), Some(nests)) => (nests[number]..nests[number + 1])
            .map(|sequence| one(&rows[offsets[sequence]..offsets[sequence + 1]], true))
            .collect(),
    }
}

fn parts(whole: &Output, number: usize) -> Vec<Output> {
    let of = sample(whole, number);
    match &whole.nests {
        Some(_) => of,
        None => matrix(&of[0])
            .iter()
            .map(|row| output(std::slice::from_ref(row), whole.width, false))
            .collect(),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

impl Given<'_> {
    pub(super) fn group(&self) -> Matrix {
        let step = &self.layer.attributes["step"];
        let roles: Vec<&str> = list(step, "links").iter().map(|link| text(link, "role")).collect();
        let way = &self.outputs[roles.iter().position(|role| *role == "part").unwrap()];
        let samples = way.nests.as_ref().or(way.sequences.as_ref()).unwrap().len() - 1;
        (0..samples).flat_map(|sample| self.run_sample(step, &roles, sample)).collect()
    }

    fn run_sample(&self, step: &Value, roles: &[&str], number: usize) -> Matrix {
        let links = || list(step, "links").iter().zip(roles).zip(self.outputs);
        let way = links().find(|((_, role), _)| **role == "part").unwrap().1;
        let steps = parts(way, number).len();
        let mut before: HashMap<&str, Output> = HashMap::new();
        let mut given = vec![Vec::new(); steps];
        let mut order: Vec<usize> = (0..steps).collect();
        if self.flag("is_reversed") {
            order.reverse();
        }
        for at in order {
            let mut values: HashMap<&str, Output> = HashMap::new();
            for ((link, role), whole) in links() {
                let seen = match *role {
                    "part" => parts(whole, number).swap_remove(at),
                    _ => sample(whole, number).swap_remove(0),
                };
                values.insert(text(link, "name"), seen);
            }
            let mut place = self.first_bias(step);
            for memory in list(step, "memories") {
                let has_bias = memory.get("has_bias").is_some_and(|value| value == true);
                let value = match before.get(text(memory, "of")) {
                    Some(value) => value.clone(),
                    None => {
                        let bias = has_bias.then(|| &self.parameters[place][0]);
                        boot(memory, &values, bias)
                    }
                };
                place += usize::from(has_bias);
                values.insert(text(memory, "name"), value);
            }
            let mut slot = 0;
            for layer in list(step, "layers") {
                let made = self.run_layer(layer, &values, &mut slot);
                values.insert(text(layer, "name"), made);
            }
            let outputs = list(step, "outputs").iter().map(|name| &values[name.as_str().unwrap()]);
            let outputs: Vec<Matrix> = outputs.map(matrix).collect();
            given[at] = (0..outputs[0].len())
                .map(|row| outputs.iter().flat_map(|output| output[row].clone()).collect())
                .collect();
            before = list(step, "memories")
                .iter()
                .map(|memory| (text(memory, "of"), values[text(memory, "of")].clone()))
                .collect();
        }
        given.into_iter().flatten().collect()
    }

    /// Where the biases of memories begin in the parameters: behind those of all layers.
    fn first_bias(&self, step: &Value) -> usize {
        let biases = list(step, "memories")
            .iter()
            .filter(|memory| memory.get("has_bias").is_some_and(|value| value == true));
        self.parameters.len() - biases.count()
    }

    fn run_layer(&self, layer: &Value, values: &HashMap<&str, Output>, slot: &mut usize) -> Output {
        let layer: Layer = serde_json::from_value(layer.clone()).unwrap();
        let inputs: Vec<Output> =
            layer.inputs.iter().map(|name| values[name.as_str()].clone()).collect();
        let shape = |output: &Output| Shape {
            level: if output.sequences.is_some() { Level::Sequence } else { Level::Single },
            ..Shape::dense(output.width)
        };
        let shapes: Vec<Shape> = inputs.iter().map(shape).collect();
        let plan = engine::layer::plan(&layer, &shapes).unwrap();
        let own = &self.parameters[*slot..*slot + plan.parameters.len()];
        *slot += own.len();
        let rows = forward(&layer, &inputs, own, &engine::shape::Shape::dense(1));
        output(&rows, plan.shape.size, plan.shape.level == Level::Sequence)
    }
}

/// What a memory begins with.
fn boot(memory: &Value, values: &HashMap<&str, Output>, bias: Option<&Vec<f64>>) -> Output {
    let size = memory["size"].as_u64().unwrap() as usize;
    let mut row = match memory.get("boot").and_then(Value::as_str) {
        Some(name) => matrix(&values[name]).swap_remove(0),
        None => vec![0.0; size],
    };
    if let Some(bias) = bias {
        row.iter_mut().zip(bias).for_each(|(number, bias)| *number += bias);
    }
    let activation: Activation = memory
        .get("activation")
        .map_or(Activation::Linear, |name| serde_json::from_value(name.clone()).unwrap());
    output(&activate(activation, &vec![row], None), size, false)
}
