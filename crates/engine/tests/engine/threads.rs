//! Results do not depend on how many threads compute them.

use crate::net::{Net, config};
use crate::trial::Trial;
use engine::NetworkConfig;
use engine::shape::{Level, Value};
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
        "activation": "tanh", "has_bias": true, "drop_rate": 0.2,
    }));
    let pooled = net.add(json!({
        "name": "pooled", "kind": "pooling", "inputs": [hidden],
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

#[test]
fn one_thread_and_several_give_the_same_bits() {
    let net = net();
    let lengths: Vec<usize> = (0..300).map(|sample| sample % 8).collect();
    let [one, two, three] = [1, 2, 3].map(|threads| {
        let network = net.network_with(NetworkConfig { threads, ..config() });
        Trial::with_batch(network, net.batch(&lengths, 1), 1).train()
    });
    for other in [two, three] {
        assert_eq!(one.cost, other.cost);
        assert_eq!(one.gradients, other.gradients);
    }
}
