//! Layers that select: ids by chance, the end of sentences, parts of sequences.

use crate::net::Net;
use crate::trial::{Trial, numbers};
use engine::batch::{Input, Rows};
use engine::shape::{Level, Value};
use serde_json::json;

#[test]
fn ids_are_drawn_by_their_probability_and_the_same_again() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Single, 3);
    net.add(json!({"name": "out", "kind": "sampling_id", "inputs": [data]}));
    let rows = 4000;
    let mut batch = net.batch(&vec![1; rows], 1);
    batch.inputs[0].rows = Rows::Dense([0.2, 0.0, 0.8].repeat(rows));
    let trial = Trial::with_batch(net.network(), batch, 1);
    let output = trial.look("out");
    let Rows::Integer(ids) = &output.rows else { panic!("no ids") };
    let count = |wanted: u64| ids.iter().filter(|id| **id == wanted).count();
    assert_eq!((ids.len(), count(1)), (rows, 0));
    // Six standard deviations around 800.
    assert!((650..950).contains(&count(0)), "{}", count(0));
    assert_eq!(trial.look("out").rows, output.rows);
}

#[test]
fn the_end_of_a_sentence_is_found() {
    let mut net = Net::new();
    let data = net.data("x", Value::Integer, Level::Sequence, 5);
    net.add(json!({
        "name": "out", "kind": "eos", "inputs": [data], "attributes": {"eos_id": 3},
    }));
    let mut batch = net.batch(&[2, 0, 2], 1);
    batch.inputs[0].rows = Rows::Integer(vec![3, 1, 0, 3]);
    let output = Trial::with_batch(net.network(), batch, 1).look("out");
    assert_eq!(output.rows, Rows::Integer(vec![1, 0, 0, 1]));
    assert_eq!(output.sequences, Some(vec![0, 2, 2, 4]));
}

#[test]
fn a_sequence_is_cut_once_for_each_of_its_places() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Sequence, 1);
    let starts = net.data("starts", Value::Dense, Level::Single, 2);
    let ends = net.data("ends", Value::Dense, Level::Single, 2);
    net.add(json!({
        "name": "out", "kind": "sequence_slice", "inputs": [data, starts, ends],
        "attributes": {"bounds": ["first", "last"]},
    }));
    let mut batch = net.batch(&[3, 2], 1);
    batch.inputs[0].rows = Rows::Dense(vec![1.0, 2.0, 3.0, 4.0, 5.0]);
    batch.inputs[1].rows = Rows::Dense(vec![0.0, 1.0, 1.0, -1.0]);
    batch.inputs[2].rows = Rows::Dense(vec![1.0, 2.0, 1.0, 0.0]);
    let output = Trial::with_batch(net.network(), batch, 1).look("out");
    assert_eq!(numbers(&output), [1.0, 2.0, 2.0, 3.0, 5.0]);
    assert_eq!(output.sequences, Some(vec![0, 2, 4, 5]));
}

#[test]
fn places_in_nested_sequences_count_within_each() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Nested, 1);
    let places = net.add(json!({
        "name": "places", "kind": "kmax_seq_score", "inputs": [data],
        "attributes": {"beam_size": 2},
    }));
    net.add(json!({
        "name": "out", "kind": "sequence_slice", "inputs": [data, places],
        "attributes": {"bounds": ["first"]},
    }));
    let rows = Rows::Dense(vec![1.0, 3.0, 2.0, /**/ 5.0, /**/ 6.0, 7.0]);
    let mut batch = net.batch(&[2, 1], 1);
    let input = Input::sequence(rows, vec![0, 3, 4, 6]);
    batch.inputs[0] = Input { nests: Some(vec![0, 2, 3]), ..input };
    let trial = Trial::with_batch(net.network(), batch, 1);
    let best = trial.look("places");
    assert_eq!(numbers(&best), [1.0, 2.0, 0.0, -1.0, 1.0, 0.0]);
    assert_eq!((best.sequences, best.nests), (Some(vec![0, 2, 3]), None));
    let output = trial.look("out");
    assert_eq!(numbers(&output), [3.0, 2.0, /**/ 2.0, /**/ 5.0, /**/ 7.0, /**/ 6.0, 7.0]);
    assert_eq!(output.sequences, Some(vec![0, 2, 3, 4, 5, 7]));
    assert_eq!(output.nests, Some(vec![0, 3, 5]));
}

#[test]
fn a_sequence_that_is_not_there_cannot_be_selected() {
    let mut net = Net::new();
    let data = net.data("x", Value::Dense, Level::Nested, 1);
    let places = net.data("places", Value::Dense, Level::Single, 1);
    net.add(json!({"name": "out", "kind": "sub_nested_seq", "inputs": [data, places]}));
    let refuse = |place: f32| {
        let mut batch = net.batch(&[2], 1);
        batch.inputs[1].rows = Rows::Dense(vec![place]);
        let trial = Trial::with_batch(net.network(), batch, 1);
        trial.network.look(&trial.prepared, &[], "out").err().unwrap().to_string()
    };
    assert!(refuse(2.0).contains("sequence 2 is selected of 2"), "{}", refuse(2.0));
    assert!(refuse(0.5).contains("whole numbers"), "{}", refuse(0.5));
    assert!(refuse(f32::NAN).contains("whole numbers"), "{}", refuse(f32::NAN));
}
