//! Values of every layer against a second, plain way to compute them; and what costs and layers do
//! at the edges.

use crate::case;
use crate::net::Net;
use crate::reference::{self, Matrix};
use crate::trial::{Trial, assert_near, numbers};
use engine::batch::Rows;
use engine::shape::{Level, Value};
use engine::topology::Layer;
use serde_json::json;

const TOLERANCE: f64 = 1e-5;

/// Compares the output of every layer of a network with the reference.
fn check(net: &Net, trial: &Trial) {
    for shown in net.topology.layers.iter().filter(|layer| layer.kind != "data") {
        let layer = &computed_by(net, shown);
        let inputs: Vec<_> = layer.inputs.iter().map(|input| trial.look(input)).collect();
        let matrix = |name: &String| -> Matrix {
            let place = trial.place(name);
            let values = trial.values[place].iter().map(|value| f64::from(*value));
            let width = trial.network.parameters()[place].dims[1];
            values.collect::<Vec<_>>().chunks(width).map(<[f64]>::to_vec).collect()
        };
        let parameters: Vec<Matrix> = layer.parameters.iter().map(matrix).collect();
        let shape = net.shape(&layer.inputs[0]);
        let expected = reference::forward(layer, &inputs, &parameters, &shape).concat();
        let output = trial.look(&shown.name);
        let found: Vec<f32> = match &output.rows {
            Rows::Integer(ids) => ids.iter().map(|id| *id as f32).collect(),
            _ => numbers(&output).to_vec(),
        };
        assert_near(&shown.name, &found, &expected, TOLERANCE);
    }
}

/// The layer that computes what a layer shows: of a group that keeps outputs apart the first, and
/// for a layer that takes one of them, the group as if it gave that one alone.
fn computed_by(net: &Net, shown: &Layer) -> Layer {
    let is_output = |layer: &&Layer| layer.kind == "recurrent_group_output";
    let mut layers = net.topology.layers.iter();
    let (group, place) = if is_output(&shown) {
        let group = layers.find(|layer| layer.name == shown.inputs[0]).unwrap();
        (group, shown.attributes["place"].as_u64().unwrap() as usize)
    } else if layers.filter(is_output).any(|layer| layer.inputs[0] == shown.name) {
        (shown, 0)
    } else {
        return shown.clone();
    };
    let mut group = group.clone();
    let outputs = &mut group.attributes["step"]["outputs"];
    *outputs = json!([outputs[place]]);
    group
}

#[test]
fn every_layer_computes_what_its_definition_says() {
    for case in case::all() {
        for (net, _, lengths) in case.nets() {
            println!("{}", case.name);
            // Keys without a bound have no rows to write down; `sparse` compares those.
            if net.topology.parameters.iter().all(|parameter| !parameter.is_sparse) {
                check(&net, &Trial::new(&net, lengths, 6));
            }
        }
    }
}

#[test]
fn the_cost_of_a_step_is_the_sum_of_what_the_cost_layer_gives() {
    // What a test takes for mean and variance is not what a step does.
    for case in case::all().into_iter().filter(|case| case.kind != "batch_norm") {
        let (net, _, lengths) = case.nets().last().unwrap();
        let trial = Trial::new(&net, lengths, 6);
        let output = trial.look(&net.topology.outputs[0]);
        let sum: f64 = numbers(&output).iter().map(|cost| f64::from(*cost)).sum();
        let trained = trial.train();
        assert!((trained.cost - sum).abs() < 1e-5 * sum.abs().max(1.0), "{}", case.name);
        assert_eq!(trial.network.cost(&trained.seen).unwrap(), trained.cost, "{}", case.name);
    }
}

#[test]
fn the_best_id_is_the_first_of_equals() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Sequence, 3);
    net.add(json!({"name": "out", "kind": "max_id", "inputs": [data]}));
    let mut batch = net.batch(&[2, 0, 1], 1);
    batch.inputs[0].rows =
        Rows::Dense(vec![0.0, 2.0, 1.0, /**/ 5.0, 5.0, 5.0, /**/ -3.0, -2.0, -1.0]);
    let trial = Trial::with_batch(net.network(), batch, 1);
    let output = trial.look("out");
    assert_eq!(output.rows, Rows::Integer(vec![1, 0, 2]));
    assert_eq!(output.sequences, Some(vec![0, 2, 2, 3]));
    check(&net, &trial);
}

/// The cost and the gradient of a score that this activation and cost are applied to.
fn train_one(activation: &str, kind: &str, scores: &[f32], label: Rows) -> (f64, Vec<f32>) {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Single, 1);
    let size = scores.len();
    let input = net.add(json!({
        "name": "a", "kind": "fc", "inputs": [data], "attributes": {"size": size},
        "activation": activation,
    }));
    let value = if let Rows::Integer(_) = label { Value::Integer } else { Value::Dense };
    let labels = net.data("label", value, Level::Single, size);
    net.topology.outputs =
        vec![net.add(json!({"name": "cost", "kind": kind, "inputs": [input, labels]}))];
    let mut batch = net.batch(&[1], 1);
    batch.inputs[0].rows = Rows::Dense(vec![1.0]);
    batch.inputs[1].rows = label;
    let mut trial = Trial::with_batch(net.network(), batch, 1);
    trial.values = vec![scores.to_vec()];
    let trained = trial.train();
    (trained.cost, trained.gradients[0].clone().unwrap_or_default())
}

#[test]
fn cross_entropy_stays_a_number_where_probabilities_round_to_zero() {
    let (cost, gradient) =
        train_one("softmax", "cross_entropy", &[200.0, 0.0], Rows::Integer(vec![1]));
    assert_near("cost", &[cost as f32], &[200.0], 1e-6);
    assert_near("gradient", &gradient, &[1.0, -1.0], 1e-6);
}

#[test]
fn binary_cross_entropy_stays_a_number_where_probabilities_round_to_zero_or_one() {
    let kind = "multi_binary_label_cross_entropy";
    let (cost, gradient) =
        train_one("sigmoid", kind, &[200.0, -200.0, 200.0], Rows::Dense(vec![1.0, 0.0, 0.0]));
    assert_near("cost", &[cost as f32], &[200.0], 1e-6);
    assert_near("gradient", &gradient, &[0.0, 0.0, 1.0], 1e-6);
}

#[test]
fn binary_cross_entropy_of_sure_and_right_probabilities_is_zero() {
    let kind = "multi_binary_label_cross_entropy";
    let (cost, _) = train_one("linear", kind, &[1.0, 0.0], Rows::Dense(vec![1.0, 0.0]));
    assert!(cost.abs() < 1e-6, "{cost}");
}

#[test]
fn functions_that_saturate_do_so_without_overflow() {
    let at_ends = |activation: &str, ends: [f64; 2]| {
        let mut net = Net::new();
        let data = net.data("x", Value::Dense, Level::Single, 2);
        net.add(json!({
            "name": "out", "kind": "slope_intercept", "inputs": [data], "activation": activation,
            "attributes": {"slope": 1.0, "intercept": 0.0},
        }));
        let mut batch = net.batch(&[1], 1);
        batch.inputs[0].rows = Rows::Dense(vec![-500.0, 500.0]);
        let trial = Trial::with_batch(net.network(), batch, 1);
        assert_near(activation, numbers(&trial.look("out")), &ends, 1e-6);
    };
    at_ends("tanh", [-1.0, 1.0]);
    at_ends("sigmoid", [0.0, 1.0]);
    at_ends("softmax", [0.0, 1.0]);
    at_ends("brelu", [0.0, 24.0]);
    at_ends("soft_relu", [0.0, 500.0]);
    at_ends("stanh", [-1.7159, 1.7159]);
    at_ends("soft_sign", [-500.0 / 501.0, 500.0 / 501.0]);
}

#[test]
fn softmax_of_a_sequence_does_not_overflow() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Sequence, 1);
    net.add(json!({
        "name": "out", "kind": "slope_intercept", "inputs": [data],
        "activation": "sequence_softmax", "attributes": {"slope": 1.0, "intercept": 0.0},
    }));
    let mut batch = net.batch(&[2, 1], 1);
    batch.inputs[0].rows = Rows::Dense(vec![500.0, 500.0, -500.0]);
    let trial = Trial::with_batch(net.network(), batch, 1);
    assert_near("softmax", numbers(&trial.look("out")), &[0.5, 0.5, 1.0], 1e-6);
}

#[test]
fn the_cosine_of_a_row_of_zeros_is_zero_and_its_gradient_no_larger_than_the_scale() {
    for is_zero in [[true, false], [false, true], [true, true]] {
        let mut net = Net::new();
        let inputs = [net.input("a", Level::Single, 3), net.input("b", Level::Single, 3)];
        let out = net.add(json!({
            "name": "out", "kind": "cos_sim", "inputs": inputs, "attributes": {"scale": 5.0}
        }));
        net.topology.outputs =
            vec![net.add(json!({"name": "cost", "kind": "sum", "inputs": [out]}))];
        let mut trial = Trial::new(&net, &[1, 1], 1);
        for (values, is_zero) in trial.values.iter_mut().zip(is_zero) {
            if is_zero {
                values.fill(0.0);
            }
        }
        assert_eq!(numbers(&trial.look("out")), [0.0, 0.0]);
        // Two rows of numbers below 1, each with a gradient of at most 5.
        let gradients = trial.train().gradients;
        assert!(gradients.iter().flatten().flatten().all(|number| number.abs() < 10.0));
    }
}

#[test]
fn dropout_in_a_test_scales_by_the_share_that_stays() {
    let mut net = Net::new();
    let input = net.input("a", Level::Single, 3);
    net.add(json!({"name": "out", "kind": "addto", "inputs": [input], "drop_rate": 0.75}));
    check(&net, &Trial::new(&net, &[1, 1], 6));
}
