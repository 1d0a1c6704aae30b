//! Gradients against differences of the cost, for every layer there is.

use crate::case;
use crate::net::{Net, is_on_gpu};
use crate::random::Random;
use crate::trial::{Trial, assert_near};
use engine::NetworkConfig;
use engine::shape::{Level, Value};
use engine::topology::Layer;
use serde_json::json;
use std::collections::BTreeSet;

/// The slope of the cost along `direction`, from four points: errors of the second and third
/// order cancel out.
fn slope(trial: &Trial, direction: &[Vec<f32>], distance: f32) -> f64 {
    let cost = |times: f32| {
        let moved = |(values, changes): (&Vec<f32>, &Vec<f32>)| {
            let pairs = values.iter().zip(changes);
            pairs.map(|(value, change)| value + times * distance * change).collect()
        };
        let values: Vec<Vec<f32>> = trial.values.iter().zip(direction).map(moved).collect();
        trial.train_at(&values, 0).cost
    };
    (8.0 * (cost(1.0) - cost(-1.0)) - (cost(2.0) - cost(-2.0))) / (12.0 * f64::from(distance))
}

/// Compares all gradients: number by number, and all at once along random directions.
pub(crate) fn check(trial: &Trial, has_kinks: bool) {
    let (distance, tolerance) = if has_kinks { (1e-3, 1e-2) } else { (1e-2, 2e-3) };
    let gradients = trial.train().gradients;
    let still: Vec<Vec<f32>> = trial.values.iter().map(|values| vec![0.0; values.len()]).collect();
    let parameters = trial.network.parameters().iter().enumerate();
    for (place, parameter) in parameters.filter(|(_, parameter)| !parameter.is_static) {
        let slopes = (0..trial.values[place].len()).map(|number| {
            let mut direction = still.clone();
            direction[place][number] = 1.0;
            slope(trial, &direction, distance)
        });
        let slopes: Vec<f64> = slopes.collect();
        let gradient = gradients[place].as_ref().unwrap();
        assert_near(&parameter.name, gradient, &slopes, tolerance);
    }
    let mut random = Random::new(1);
    for _ in 0..3 {
        let mut direction = still.clone();
        direction.iter_mut().flatten().for_each(|change| *change = 0.3 * random.number());
        let pairs = gradients.iter().zip(&direction);
        let pairs = pairs.flat_map(|(gradient, change)| gradient.iter().flatten().zip(change));
        let product: f64 = pairs.map(|(gradient, change)| f64::from(gradient * change)).sum();
        let slope = slope(trial, &direction, distance);
        assert_near("a random direction", &[product as f32], &[slope], tolerance);
    }
}

/// Compares all gradients of the GPU with those of the CPU, which differences have shown to be
/// right: differences take thousands of runs, and there are no GPUs in CI but slow imitations.
fn check_against_cpu(net: &Net, lengths: &[usize], trial: &Trial) {
    let cpu = net.network_with(NetworkConfig::default());
    let expected = Trial::with_batch(cpu, net.batch(lengths, SEED), SEED).train().gradients;
    let found = trial.train().gradients;
    let parameters = trial.network.parameters();
    for ((found, expected), parameter) in found.iter().zip(&expected).zip(parameters) {
        assert_eq!(found.is_some(), expected.is_some(), "{}", parameter.name);
        let expected: Vec<f64> = expected.iter().flatten().map(|x| f64::from(*x)).collect();
        let found: Vec<f32> = found.iter().flatten().copied().collect();
        assert_near(&parameter.name, &found, &expected, 1e-3);
    }
}

const SEED: u64 = 3;

#[test]
fn every_layer_has_the_gradient_that_differences_of_its_cost_show() {
    for case in case::all() {
        let mut is_moved = BTreeSet::new();
        for (net, _, lengths) in case.nets() {
            println!("{}", case.name);
            let trial = Trial::new(&net, lengths, SEED);
            match is_on_gpu() {
                true => check_against_cpu(&net, lengths, &trial),
                false => check(&trial, case.has_kinks),
            }
            let gradients = trial.train().gradients;
            let moved = gradients.iter().zip(trial.network.parameters());
            let moved = moved.filter(|(gradient, _)| gradient.iter().flatten().any(|x| *x != 0.0));
            is_moved.extend(moved.map(|(_, parameter)| parameter.name.clone()));
        }
        // Differences and gradients that are all 0 would agree as well.
        let (net, ..) = case.nets().next().unwrap();
        for parameter in net.topology.parameters.iter().filter(|parameter| !parameter.is_static) {
            assert!(is_moved.contains(&parameter.name), "{}: {}", case.name, parameter.name);
        }
    }
}

#[test]
fn every_layer_has_a_case() {
    // A data layer has nothing to learn below it, what is best or drawn does not change gradually,
    // and the gradient of `lambda` is that of another cost: `ranking` tests it. Layers that take
    // rectangles cannot take random numbers: `detection` tests them.
    let mut covered: BTreeSet<&str> = BTreeSet::from([
        "beam_search",
        "crf_decoding",
        "data",
        "detection_output",
        "eos",
        "kmax_seq_score",
        "lambda",
        "max_id",
        "multibox_loss",
        "priorbox",
        "roi_pool",
        "sampling_id",
    ]);
    covered.extend(case::all().iter().map(|case| case.kind));
    assert_eq!(covered, engine::layer::kinds().collect());
}

#[test]
fn every_projection_has_a_case() {
    let layer: Layer = serde_json::from_value(json!({
        "name": "m", "kind": "mixed", "attributes": {"projections": [{"name": "?"}]}
    }))
    .unwrap();
    let error = engine::layer::plan(&layer, &[]).unwrap_err().to_string();
    let (_, names) = error.split_once("expected one of ").unwrap();
    let known: BTreeSet<&str> = names.split('`').skip(1).step_by(2).collect();
    assert!(known.len() > 1, "{error}");
    let covered = case::all().iter().filter_map(|case| case.projection).collect();
    assert_eq!(known, covered);
}

#[test]
fn dropout_has_the_gradient_of_the_numbers_it_leaves() {
    let mut net = Net::new();
    let input = net.input("a", Level::Sequence, 4);
    let hidden = net.add(json!({
        "name": "hidden", "kind": "fc", "inputs": [input], "attributes": {"size": 5},
        "activation": "sigmoid", "drop_rate": 0.4,
    }));
    net.train(&hidden, false);
    check(&Trial::new(&net, &[2, 0, 3], 5), false);
}

/// The gradients of `a`'s weight over inputs that are 1, so that it is that of `a` itself.
fn gradient_of_clipped(clip: Option<f32>, activation: &str, values: &[f32]) -> Vec<f32> {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Single, 1);
    let a = net.add(json!({
        "name": "a", "kind": "fc", "inputs": [data], "attributes": {"size": values.len()},
        "activation": activation, "error_clip": clip,
    }));
    let label = net.data("label", Value::Integer, Level::Single, values.len());
    net.topology.outputs = vec![match activation {
        "softmax" => net.add(json!({"name": "c", "kind": "cross_entropy", "inputs": [a, label]})),
        _ => net.add(json!({"name": "c", "kind": "sum", "inputs": [a]})),
    }];
    let mut batch = net.batch(&[1], 1);
    batch.inputs[0].rows = engine::batch::Rows::Dense(vec![1.0]);
    batch.inputs[1].rows = engine::batch::Rows::Integer(vec![0]);
    let mut trial = Trial::with_batch(net.network(), batch, 1);
    trial.values = vec![values.to_vec()];
    trial.train().gradients[0].clone().unwrap()
}

#[test]
fn a_clip_bounds_each_number_of_the_outputs_gradient() {
    // The gradient of the output is 1, that of the input 1·2x.
    let values = [-3.0, 0.5, 2.0];
    assert_near("free", &gradient_of_clipped(None, "square", &values), &[-6.0, 1.0, 4.0], 1e-6);
    let clipped = gradient_of_clipped(Some(0.25), "square", &values);
    assert_near("clipped", &clipped, &[-1.5, 0.25, 1.0], 1e-6);
    let wide = gradient_of_clipped(Some(2.0), "square", &values);
    assert_near("within the clip", &wide, &[-6.0, 1.0, 4.0], 1e-6);
}

#[test]
fn a_clip_holds_for_costs_that_are_computed_from_logits() {
    // Of two equal scores p is ½ each; the gradient of −ln p is −2 at the label, clipped to −½,
    // and through softmax −½·p·(1 − p) and ½·p·p.
    let free = gradient_of_clipped(None, "softmax", &[0.3, 0.3]);
    assert_near("free", &free, &[-0.5, 0.5], 1e-6);
    let clipped = gradient_of_clipped(Some(0.5), "softmax", &[0.3, 0.3]);
    assert_near("clipped", &clipped, &[-0.125, 0.125], 1e-6);
}

#[test]
fn a_coefficient_scales_the_gradient_and_not_the_cost() {
    let costs = case::all().into_iter().filter(|case| case.kind != "sum");
    for case in costs {
        let (mut net, layer, lengths) = case.nets().last().unwrap();
        if net.topology.outputs != [layer.clone()] {
            continue;
        }
        println!("{}", case.name);
        let plain = Trial::new(&net, lengths, 4).train();
        net.layer_mut(&layer).attributes.insert("coeff".to_owned(), json!(0.25));
        let scaled = Trial::new(&net, lengths, 4).train();
        assert_eq!(plain.cost, scaled.cost);
        for (plain, scaled) in plain.gradients.iter().zip(&scaled.gradients) {
            let expected = plain.iter().flatten().map(|number| f64::from(*number) * 0.25);
            let scaled = scaled.as_ref().unwrap();
            assert_near("gradient", scaled, &expected.collect::<Vec<_>>(), 1e-6);
        }
    }
}

#[test]
fn a_static_parameter_and_one_that_nothing_depends_on_have_no_gradient() {
    let mut net = Net::new();
    let input = net.input("a", Level::Single, 2);
    net.input("apart", Level::Single, 2);
    let out = net.add(json!({
        "name": "out", "kind": "fc", "inputs": [input], "attributes": {"size": 2}
    }));
    net.train(&out, false);
    net.topology.parameters[0].is_static = true;
    let gradients = Trial::new(&net, &[1, 1], 1).train().gradients;
    let has_gradient: Vec<bool> = gradients.iter().map(Option::is_some).collect();
    assert_eq!(has_gradient, [false, false, true]);
}

#[test]
fn a_cost_that_is_asked_for_twice_counts_once() {
    let mut net = Net::new();
    let input = net.input("a", Level::Single, 2);
    net.train(&input, false);
    let once = Trial::new(&net, &[1, 1], 1).train();
    net.topology.outputs.push("cost".to_owned());
    let twice = Trial::new(&net, &[1, 1], 1).train();
    assert_eq!((once.cost, once.gradients), (twice.cost, twice.gradients));
}

#[test]
fn costs_that_are_asked_for_together_add_up() {
    let mut net = Net::new();
    let input = net.input("a", Level::Single, 2);
    net.train(&input, false);
    net.topology.outputs.push("sum".to_owned());
    net.add(json!({"name": "sum", "kind": "sum", "inputs": [input]}));
    check(&Trial::new(&net, &[1, 1], 1), false);
}
