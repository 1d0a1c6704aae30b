//! Parameters of which only the rows of a batch take part.

use crate::case;
use crate::net::Net;
use crate::trial::{Trial, assert_near, numbers};
use engine::batch::{Batch, Input, Lists, NO_ID, Rows};
use engine::shape::{Level, Value};
use engine::{Network, NetworkConfig, NetworkIndex};
use serde_json::json;

/// The numbers of the rows `keys` of a matrix.
fn rows_of(matrix: &[f32], width: usize, keys: &[u64]) -> Vec<f64> {
    let row = |key: &u64| matrix[*key as usize * width..][..width].iter();
    keys.iter().flat_map(row).map(|number| f64::from(*number)).collect()
}

/// Places of parameters that could be sparse but are not.
fn candidates(net: &mut Net) -> Vec<usize> {
    let places = 0..net.topology.parameters.len();
    let is_candidate = |place: &usize| {
        let was = std::mem::replace(&mut net.topology.parameters[*place].is_sparse, true);
        let is_fit = Network::new(net.topology.clone(), NetworkConfig::default()).is_ok();
        net.topology.parameters[*place].is_sparse = was;
        is_fit && !was
    };
    places.filter(is_candidate).collect()
}

#[test]
fn a_sparse_gradient_is_the_rows_of_the_dense_one() {
    let mut compared = 0;
    for case in case::all() {
        for (mut net, _, lengths) in case.nets() {
            let candidates = candidates(&mut net);
            let dense = Trial::new(&net, lengths, 7);
            for place in &candidates {
                net.topology.parameters[*place].is_sparse = true;
            }
            let sparse = Trial::new(&net, lengths, 7);
            let (expected, found) = (dense.train(), sparse.train());
            assert_near(&case.name, &[found.cost as f32], &[expected.cost], 1e-5);
            for place in candidates {
                let keys = sparse.prepared.keys(NetworkIndex(place)).unwrap();
                let width = net.topology.parameters[place].dims[1];
                let all = expected.gradients[place].as_ref().unwrap();
                let rows = rows_of(all, width, keys);
                let gradient = found.gradients[place].as_ref().unwrap();
                assert_near(&case.name, gradient, &rows, 1e-5);
                for (row, numbers) in all.chunks(width).enumerate() {
                    let is_asked_for = keys.contains(&(row as u64));
                    assert!(is_asked_for || numbers.iter().all(|number| *number == 0.0));
                }
                compared += keys.len();
            }
        }
    }
    assert!(compared > 100, "only {compared} rows were compared");
}

/// A table over ids of this kind, compared with random numbers.
fn lookup(value: Value, size: usize, is_sparse: bool) -> Net {
    let mut net = Net::new();
    let ids = net.data("ids", value, Level::Single, size);
    let out = net.add(json!({
        "name": "out", "kind": "mixed", "inputs": [ids],
        "attributes": {"projections": [{"name": "table", "size": 2}]},
    }));
    net.train(&out, false);
    net.topology.parameters[0].is_sparse = is_sparse;
    net
}

fn batch(rows: Rows) -> Batch {
    let samples = rows.len(1);
    let target = Rows::Dense((0..samples * 2).map(|number| number as f32).collect());
    let inputs = [rows, target].map(Input::single);
    Batch { samples, inputs: inputs.into() }
}

fn lists(lists: &[&[u64]], values: Option<Vec<f32>>) -> Rows {
    let ends = lists.iter().scan(0, |end, list| {
        *end += list.len();
        Some(*end)
    });
    Rows::Sparse(Lists {
        offsets: std::iter::once(0).chain(ends).collect(),
        ids: lists.concat(),
        values,
    })
}

#[test]
fn the_id_that_is_none_gives_zeros_and_no_gradient() {
    for is_sparse in [false, true] {
        let net = lookup(Value::Integer, 4, is_sparse);
        let ids = Rows::Integer(vec![1, NO_ID, 3, NO_ID]);
        let trial = Trial::with_batch(net.network(), batch(ids), 1);
        let output = trial.look("out");
        let output = numbers(&output);
        assert_eq!((&output[2..4], &output[6..]), (&[0.0; 2][..], &[0.0; 2][..]));
        assert!(output[..2].iter().chain(&output[4..6]).all(|number| *number != 0.0));
        let gradient = trial.train().gradients[0].clone().unwrap();
        let is_moved: Vec<bool> = gradient.chunks(2).map(|row| row != [0.0, 0.0]).collect();
        match trial.prepared.keys(NetworkIndex(0)) {
            Some(keys) => assert_eq!((keys, &is_moved[..]), (&[1, 3][..], &[true, true][..])),
            None => assert_eq!(is_moved, [false, true, false, true]),
        }
    }
}

#[test]
fn the_id_that_is_none_counts_nothing_in_a_list() {
    for (value, with, without) in [
        (Value::SparseBinary, None, None),
        (Value::SparseFloat, Some(vec![0.5, 9.0, 9.0, 2.0, 3.0]), Some(vec![0.5, 2.0, 3.0])),
    ] {
        for is_sparse in [false, true] {
            let net = lookup(value, 4, is_sparse);
            let with = lists(&[&[1, NO_ID], &[], &[NO_ID], &[2, 1]], with.clone());
            let without = lists(&[&[1], &[], &[], &[2, 1]], without.clone());
            let [with, without] =
                [with, without].map(|ids| Trial::with_batch(net.network(), batch(ids), 1));
            assert_eq!(with.prepared.keys(NetworkIndex(0)), without.prepared.keys(NetworkIndex(0)));
            assert_eq!(with.look("out"), without.look("out"));
            assert_eq!(with.train().gradients, without.train().gradients);
        }
    }
}

#[test]
fn keys_without_a_bound_may_be_as_large_as_they_like() {
    let keys = [u64::MAX - 1, 0, 1 << 63, u64::from(u32::MAX), u64::from(u32::MAX) + 1];
    let ids: Vec<u64> = [0, 1, 2, 3, 4, 2, 0].map(|place| keys[place]).into();
    let net = lookup(Value::Integer, 0, true);
    let unbounded = Trial::with_batch(net.network(), batch(Rows::Integer(ids)), 1);
    assert_eq!(unbounded.prepared.keys(NetworkIndex(0)), Some(&keys[..]));

    let net = lookup(Value::Integer, 5, false);
    let places = Rows::Integer(vec![0, 1, 2, 3, 4, 2, 0]);
    let mut bounded = Trial::with_batch(net.network(), batch(places), 1);
    bounded.values.clone_from(&unbounded.values);
    assert_eq!(bounded.look("out"), unbounded.look("out"));
    assert_eq!(bounded.train().gradients, unbounded.train().gradients);
}

#[test]
fn a_batch_whose_lists_are_all_empty_looks_nothing_up() {
    for (size, is_sparse) in [(4, false), (4, true), (0, true)] {
        let net = lookup(Value::SparseBinary, size, is_sparse);
        let trial = Trial::with_batch(net.network(), batch(lists(&[&[], &[]], None)), 1);
        assert_eq!(numbers(&trial.look("out")), [0.0; 4]);
        let trained = trial.train();
        assert_eq!(trained.cost, 14.0);
        let rows = if is_sparse { 0 } else { size };
        assert_eq!(trained.gradients, [Some(vec![0.0; rows * 2])]);
    }
}

#[test]
fn keys_are_those_of_all_layers_that_share_the_parameter_each_once() {
    let mut net = Net::new();
    let words = ["a", "b"].map(|word| {
        let ids = net.data(&format!("{word} id"), Value::Integer, Level::Single, 9);
        net.add(json!({
            "name": word, "kind": "mixed", "inputs": [ids], "parameters": ["table"],
            "attributes": {"projections": [{"name": "table", "size": 2}]},
        }))
    });
    let out = net.add(json!({"name": "out", "kind": "concat", "inputs": words}));
    net.train(&out, false);
    net.topology.parameters[0].is_sparse = true;
    let mut batch = net.batch(&[1, 1, 1], 1);
    batch.inputs[0].rows = Rows::Integer(vec![5, 2, 5]);
    batch.inputs[1].rows = Rows::Integer(vec![7, 5, NO_ID]);
    let prepared = net.network().prepare(batch).unwrap();
    assert_eq!(prepared.keys(NetworkIndex(0)), Some(&[5, 2, 7][..]));
}
