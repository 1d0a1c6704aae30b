//! Results depend on how many threads compute them by no more than rounding, and not at all on
//! which of them is done first.

use crate::net::{Net, config};
use crate::trial::Trial;
use engine::batch::Rows;
use engine::shape::{Level, Value};
use engine::{NetworkConfig, Trained};
use serde_json::json;

/// A network large enough that every operation shares its work out.
fn net() -> Net {
    let mut net = Net::new();
    let ids = net.data("ids", Value::SparseFloat, Level::Sequence, 5000);
    let words = net.add(json!({
        "name": "words", "kind": "mixed", "inputs": [ids],
        "attributes": {"projections": [{"name": "table", "size": 128}]},
    }));
    let hidden = net.add(json!({
        "name": "hidden", "kind": "fc", "inputs": [words], "attributes": {"size": 192},
        "activation": "tanh", "has_bias": true,
    }));
    let memory = net.add(json!({
        "name": "memory", "kind": "lstmemory", "inputs": [hidden],
        "attributes": {
            "activation": "tanh", "gate_activation": "sigmoid", "state_activation": "tanh",
            "has_bias": true,
        },
    }));
    let pooled = net.add(json!({
        "name": "pooled", "kind": "pooling", "inputs": [memory],
        "attributes": {"pooling": "average"},
    }));
    let scores = net.add(json!({
        "name": "scores", "kind": "fc", "inputs": [pooled], "attributes": {"size": 100},
        "activation": "softmax",
    }));
    let label = net.data("label", Value::Integer, Level::Single, 100);
    net.topology.outputs =
        vec![net.add(json!({"name": "cost", "kind": "cross_entropy", "inputs": [scores, label]}))];
    net
}

fn train(net: &Net, threads: usize) -> Trained {
    let lengths: Vec<usize> = (0..300).map(|sample| sample % 8).collect();
    let network = net.network_with(NetworkConfig { threads, ..config() });
    Trial::with_batch(network, net.batch(&lengths, 1), 1).train()
}

#[test]
fn one_thread_and_several_agree() {
    let net = net();
    let one = train(&net, 1);
    for threads in [2, 3, 7] {
        let other = train(&net, threads);
        assert!((one.cost - other.cost).abs() <= 1e-6 * one.cost.abs(), "{threads} threads");
        for (own, other) in one.gradients.iter().zip(&other.gradients) {
            let (own, other) = (own.as_ref().unwrap(), other.as_ref().unwrap());
            assert_eq!(own.len(), other.len());
            let largest = own.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
            for (own, other) in own.iter().zip(other) {
                assert!((own - other).abs() <= 1e-5 * largest, "{threads} threads: {own} {other}");
            }
        }
    }
}

#[test]
fn the_same_number_of_threads_gives_the_same_bits() {
    let net = net();
    for threads in [1, 2, 3] {
        let (first, second) = (train(&net, threads), train(&net, threads));
        assert_eq!(first.cost, second.cost);
        assert_eq!(first.gradients, second.gradients);
    }
}

#[test]
fn what_is_seen_of_a_batch_in_parts_is_the_whole() {
    let mut net = net();
    net.topology.outputs.extend(["scores", "hidden", "ids", "label"].map(str::to_owned));
    let lengths: Vec<usize> = (0..100).map(|sample| (sample * 7) % 5).collect();
    let [one, three] = [1, 3].map(|threads| {
        let network = net.network_with(NetworkConfig { threads, ..config() });
        let trial = Trial::with_batch(network, net.batch(&lengths, 1), 1);
        let seen = trial.train().seen;
        let names = ["scores", "hidden", "ids", "label"];
        names.map(|name| trial.network.output(&seen, name).unwrap())
    });
    for (one, three) in one.iter().zip(&three) {
        assert_eq!(one.sequences, three.sequences);
        assert_eq!(one.width, three.width);
        match (&one.rows, &three.rows) {
            (Rows::Dense(one), Rows::Dense(three)) => {
                assert_eq!(one.len(), three.len());
                assert!(one.iter().zip(three).all(|(one, three)| (one - three).abs() < 1e-5));
            }
            (one, three) => assert_eq!(one, three),
        }
    }
}
