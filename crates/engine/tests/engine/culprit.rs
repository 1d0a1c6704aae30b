//! Where a NaN or an infinite number came from.

use crate::net::Net;
use crate::trial::{Trial, slices};
use engine::Culprit;
use engine::batch::{Lists, Rows};
use engine::shape::{Level, Value};
use serde_json::json;

/// `x` and a list into `hidden`, its logarithm as `out`.
fn net() -> Net {
    let mut net = Net::new();
    let inputs = [
        net.data("x", Value::Dense, Level::Single, 2),
        net.data("list", Value::SparseFloat, Level::Single, 2),
    ];
    let hidden = net.add(json!({
        "name": "hidden", "kind": "fc", "inputs": inputs, "attributes": {"size": 2},
        "activation": "exponential",
    }));
    let out = net.add(json!({
        "name": "out", "kind": "addto", "inputs": [hidden], "activation": "log"
    }));
    net.train(&out, false);
    net
}

fn trial(x: f32, list: f32) -> Trial {
    let net = net();
    let mut batch = net.batch(&[1], 1);
    batch.inputs[0].rows = Rows::Dense(vec![x, 1.0]);
    batch.inputs[1].rows =
        Rows::Sparse(Lists { offsets: vec![0, 1], ids: vec![1], values: Some(vec![list]) });
    let mut trial = Trial::with_batch(net.network(), batch, 1);
    trial.values = vec![vec![0.5; 4], vec![0.5; 4]];
    trial
}

fn find(trial: &Trial) -> Option<Culprit> {
    trial.network.find_culprit(&trial.prepared, &slices(&trial.values), 0).unwrap()
}

#[test]
fn numbers_all_over_have_no_culprit() {
    let trial = trial(1.0, 1.0);
    assert!(trial.train().cost.is_finite());
    assert_eq!(find(&trial), None);
}

#[test]
fn data_is_named() {
    let trial = trial(f32::NAN, 1.0);
    let trained = trial.train();
    assert!(trained.cost.is_nan());
    assert_eq!(trained.gradients, [None, None]);
    assert_eq!(find(&trial), Some(Culprit::Data("x".to_owned())));
}

#[test]
fn data_in_lists_is_named() {
    let trial = trial(1.0, f32::INFINITY);
    assert_eq!(find(&trial), Some(Culprit::Data("list".to_owned())));
}

#[test]
fn a_parameter_is_named() {
    let mut trial = trial(1.0, 1.0);
    trial.values[1][3] = f32::NEG_INFINITY;
    assert_eq!(find(&trial), Some(Culprit::Parameter("_hidden.w1".to_owned())));
}

#[test]
fn the_first_layer_is_named() {
    // eˣ is too large for x = 500.
    let trial = trial(1000.0, 1.0);
    assert_eq!(find(&trial), Some(Culprit::Layer("hidden".to_owned())));
}
