//! Batches that do not fit: errors, never panics.

use crate::case;
use crate::net::Net;
use crate::trial::{Trial, slices};
use engine::Network;
use engine::batch::{Batch, Input, Lists, Rows};
use engine::shape::{Level, Value};
use proptest::prelude::*;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// One data layer of each kind; all but the first are sequences.
fn net() -> Net {
    let mut net = Net::new();
    net.data("dense", Value::Dense, Level::Single, 2);
    net.data("words", Value::Integer, Level::Sequence, 5);
    net.data("list", Value::SparseBinary, Level::Sequence, 4);
    net.data("weights", Value::SparseFloat, Level::Sequence, 4);
    let out = net.add(json!({
        "name": "out", "kind": "mixed", "inputs": ["words", "list", "weights"],
        "attributes": {"size": 3, "projections": vec![json!({"name": "table"}); 3]},
    }));
    net.train(&out, false);
    net.layer_mut("words").place = Some("train.py:12".to_owned());
    net
}

fn lists(batch: &mut Batch, input: usize) -> &mut Lists {
    match &mut batch.inputs[input].rows {
        Rows::Sparse(lists) => lists,
        other => panic!("no lists: {other:?}"),
    }
}

type Mistake = fn(&mut Batch);

/// What can be wrong with a batch of two samples, of one and of two rows.
fn mistakes() -> Vec<(&'static str, Mistake)> {
    vec![
        ("an input too few", |batch| drop(batch.inputs.pop())),
        ("an input too many", |batch| batch.inputs.push(batch.inputs[0].clone())),
        ("a number too few", |batch| batch.inputs[0].rows = Rows::Dense(vec![0.0; 3])),
        ("a row too many", |batch| batch.inputs[0].rows = Rows::Dense(vec![0.0; 6])),
        ("ids for numbers", |batch| batch.inputs[0].rows = Rows::Integer(vec![0, 0])),
        ("numbers for ids", |batch| batch.inputs[1].rows = Rows::Dense(vec![0.0; 3])),
        ("ids for lists", |batch| batch.inputs[2].rows = Rows::Integer(vec![0, 0, 0])),
        ("sequences for rows", |batch| batch.inputs[0].sequences = Some(vec![0, 1, 2])),
        ("rows for sequences", |batch| batch.inputs[1].sequences = None),
        ("no offsets", |batch| batch.inputs[1].sequences = Some(vec![])),
        ("an offset too few", |batch| batch.inputs[1].sequences = Some(vec![0, 3])),
        ("another begin", |batch| batch.inputs[1].sequences = Some(vec![1, 2, 3])),
        ("another end", |batch| batch.inputs[1].sequences = Some(vec![0, 1, 4])),
        ("offsets that fall", |batch| batch.inputs[1].sequences = Some(vec![0, 4, 3])),
        ("an id too large", |batch| batch.inputs[1].rows = Rows::Integer(vec![0, 5, 0])),
        ("an id too large in a list", |batch| {
            let lists = lists(batch, 2);
            *lists = Lists { offsets: vec![0, 0, 0, 1], ids: vec![4], values: None };
        }),
        ("lists whose offsets fall", |batch| {
            lists(batch, 2).offsets = vec![0, usize::MAX, 0, 0];
        }),
        ("lists without offsets", |batch| lists(batch, 2).offsets = vec![]),
        ("numbers for a sparse binary list", |batch| {
            let lists = lists(batch, 2);
            lists.values = Some(vec![1.0; lists.ids.len()]);
        }),
        ("no numbers for a sparse float list", |batch| lists(batch, 3).values = None),
        ("a number too many for a list", |batch| {
            lists(batch, 3).values.as_mut().unwrap().push(1.0);
        }),
        ("far too many samples", |batch| batch.samples = usize::MAX),
        ("other lengths than another input", |batch| {
            batch.inputs[1].sequences = Some(vec![0, 2, 3]);
        }),
        ("a row fewer than another input", |batch| {
            let input = &mut batch.inputs[1];
            *input = Input::sequence(Rows::Integer(vec![0]), vec![0, 0, 1]);
        }),
    ]
}

#[test]
fn a_batch_that_does_not_fit_is_refused_with_a_reason() {
    let net = net();
    let mut refusals = String::new();
    for (mistake, make) in mistakes() {
        let mut batch = net.batch(&[1, 2], 1);
        let trial = Trial::with_batch(net.network(), batch.clone(), 1);
        make(&mut batch);
        let trained = trial
            .network
            .prepare(batch)
            .and_then(|prepared| trial.network.train(&prepared, &slices(&trial.values), 0));
        let Err(error) = trained else { panic!("accepted: {mistake}") };
        writeln!(refusals, "{mistake}: {error}").unwrap();
    }
    insta::assert_snapshot!(refusals);
}

#[test]
fn values_that_are_shared_give_the_same_and_are_let_go() {
    let net = net();
    let trial = Trial::with_batch(net.network(), net.batch(&[1, 2], 1), 1);
    let copied = trial.network.train(&trial.prepared, &slices(&trial.values), 0).unwrap();
    let values: Vec<_> = trial.values.iter().cloned().map(Arc::new).collect();
    let shared = trial.network.train_shared(&trial.prepared, &values, 0).unwrap();
    assert_eq!(shared.cost.to_bits(), copied.cost.to_bits());
    assert_eq!(shared.gradients, copied.gradients);
    // Who changes them next can do so where they lie, while what was computed is still there.
    assert!(values.iter().all(|values| Arc::strong_count(values) == 1));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let net = net();
    let trial = Trial::with_batch(net.network(), net.batch(&[1, 2], 1), 1);
    let short = &trial.values[0][1..];
    let values = [&trial.values[..1], &[], &[]].concat();
    let mut refusals = String::new();
    for values in [slices(&values), vec![short, &trial.values[1], &trial.values[2]]] {
        let Err(error) = trial.network.train(&trial.prepared, &values, 0) else {
            panic!("accepted")
        };
        writeln!(refusals, "{error}").unwrap();
    }
    insta::assert_snapshot!(refusals, @r#"
    the network has another number of parameters (expected: 3, got: 1)
    the values of a parameter have another size (parameter: _out.w0, expected: 15, got: 14)
    "#);
}

/// Other lengths for one input of a batch.
fn with_lengths(net: &Net, lengths: &[usize], input: usize, others: &[usize]) -> Batch {
    let mut batch = net.batch(lengths, 1);
    batch.inputs[input] = net.batch(others, 1).inputs.swap_remove(input);
    batch
}

#[test]
fn sequences_of_different_lengths_are_refused_by_every_layer_that_takes_them_row_by_row() {
    let mut refused = 0;
    for case in case::all().into_iter().filter(|case| case.is_row_by_row) {
        for (net, _, lengths) in case.nets().filter(|(_, _, lengths)| lengths == &[2, 0, 1, 3]) {
            println!("{}", case.name);
            let network = net.network();
            let is_sequence = |input: &usize| {
                network.inputs().nth(*input).is_some_and(|(_, shape)| shape.level != Level::Single)
            };
            let inputs: Vec<usize> = (0..network.inputs().count()).filter(is_sequence).collect();
            // The same number of rows, fewer, one that could be mistaken for a row for all.
            for others in [[1, 1, 2, 2], [1, 0, 1, 3], [0, 0, 0, 1]] {
                for input in inputs.iter().filter(|_| inputs.len() > 1) {
                    let batch = with_lengths(&net, lengths, *input, &others);
                    let trial = Trial::with_batch(net.network(), batch, 1);
                    let error = trial.network.train(&trial.prepared, &slices(&trial.values), 0);
                    let error = error.err().map(|error| error.to_string()).unwrap_or_default();
                    assert!(error.contains("different lengths"), "{}: {error}", case.name);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_batch_without_samples_or_rows_costs_nothing() {
    for case in case::all() {
        for (net, _, lengths) in case.nets() {
            println!("{}", case.name);
            let is_sequence = lengths.contains(&0);
            let lengths: &[&[usize]] = if is_sequence { &[&[], &[0, 0]] } else { &[&[]] };
            for lengths in lengths {
                let trial = Trial::new(&net, lengths, 1);
                let trained = trial.train();
                if lengths.is_empty() {
                    assert_eq!(trained.cost, 0.0, "{}", case.name);
                }
                let gradients = trained.gradients.iter().flatten().flatten();
                let is_moved = gradients.into_iter().any(|number| *number != 0.0);
                assert!(!is_moved, "{}", case.name);
                trial.look(&net.topology.outputs[0]);
                net.topology.layers.iter().for_each(|layer| drop(trial.look(&layer.name)));
            }
        }
    }
}

#[test]
fn sequences_that_are_all_empty_train_what_follows_their_pooling() {
    for pooling in ["max", "average", "sum", "sqrt_n"] {
        let mut net = Net::new();
        let input = net.input("a", Level::Sequence, 3);
        let pooled = net.add(json!({
            "name": "pooled", "kind": "pooling", "inputs": [input],
            "attributes": {"pooling": pooling},
        }));
        let out = net.add(json!({
            "name": "out", "kind": "fc", "inputs": [pooled], "attributes": {"size": 2},
            "has_bias": true,
        }));
        net.train(&out, false);
        let gradients = Trial::new(&net, &[0, 0], 1).train().gradients;
        assert_eq!(gradients[0].as_ref().map_or(0.0, |gradient| gradient.iter().sum()), 0.0);
        assert_eq!(gradients[1], Some(vec![0.0; 6]));
        assert!(gradients[2].iter().flatten().all(|number| *number != 0.0));
    }
}

fn any_input() -> impl Strategy<Value = Input> {
    let offsets = || prop::collection::vec(0..5_usize, 0..5);
    let ids = || prop::collection::vec(prop_oneof![0..6_u64, Just(u64::MAX)], 0..6);
    let dense = prop::collection::vec(-1.0..1.0_f32, 0..8).prop_map(Rows::Dense);
    let values = prop::option::of(prop::collection::vec(-1.0..1.0_f32, 0..6));
    let sparse = (offsets(), ids(), values)
        .prop_map(|(offsets, ids, values)| Rows::Sparse(Lists { offsets, ids, values }));
    let rows = prop_oneof![dense, ids().prop_map(Rows::Integer), sparse];
    let sequences = || prop::option::of(offsets());
    (rows, sequences(), sequences()).prop_map(|(rows, sequences, nests)| Input {
        rows,
        sequences,
        nests,
    })
}

/// A network that takes a single input, whatever it is.
fn net_of_one(value: Value, level: Level) -> Network {
    let mut net = Net::new();
    let data = net.data("x", value, level, 4);
    let projection = if value == Value::Dense { "identity" } else { "table" };
    net.add(json!({
        "name": "out", "kind": "mixed", "inputs": [data],
        "attributes": {"size": 4, "projections": [{"name": projection}]},
    }));
    net.network()
}

proptest! {
    #[test]
    fn no_batch_makes_a_network_panic(samples in 0..4_usize, input in any_input()) {
        for value in [Value::Dense, Value::Integer, Value::SparseBinary, Value::SparseFloat] {
            for level in [Level::Single, Level::Sequence, Level::Nested] {
                let network = net_of_one(value, level);
                let batch = Batch { samples, inputs: vec![input.clone()] };
                if let Ok(prepared) = network.prepare(batch) {
                    let values = if value == Value::Dense { vec![] } else { vec![&[0.5; 16][..]] };
                    prop_assert!(network.look(&prepared, &values, "out").is_ok());
                }
            }
        }
    }
}
