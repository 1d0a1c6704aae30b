//! Lookups that a `concat` gathers itself, compared with the layers one by one.

use crate::net::{Net, config};
use crate::trial::{Trial, assert_near, numbers};
use engine::NetworkConfig;
use engine::shape::{Level, Value};
use serde_json::json;

/// Lookups of two tables between data and another layer. Where lookups are asked for as outputs,
/// they run by themselves.
fn net(is_alone: bool, is_sparse: bool) -> Net {
    let mut net = Net::new();
    let dense = net.data("dense", Value::Dense, Level::Single, 3);
    let hidden = net.add(json!({
        "name": "hidden", "kind": "fc", "inputs": [&dense], "attributes": {"size": 4},
        "has_bias": true, "activation": "relu",
    }));
    let mut lookups = Vec::new();
    let kinds = [Value::Integer, Value::SparseBinary, Value::SparseFloat, Value::Integer];
    let tables = ["one", "one", "one", "other", "other", "one", "one"];
    for (number, table) in tables.into_iter().enumerate() {
        let ids = net.data(&format!("ids {number}"), kinds[number % 4], Level::Single, 20);
        lookups.push(net.add(json!({
            "name": format!("lookup {number}"), "kind": "mixed", "inputs": [ids],
            "parameters": [table],
            "attributes": {"projections": [{"name": "table", "size": 2}]},
        })));
    }
    let mut inputs = lookups.clone();
    inputs.insert(5, hidden);
    inputs.insert(1, dense.clone());
    inputs.push(dense);
    let wide = net.add(json!({"name": "wide", "kind": "concat", "inputs": inputs}));
    let out = net.add(json!({
        "name": "out", "kind": "fc", "inputs": [wide], "attributes": {"size": 2},
        "has_bias": true, "activation": "softmax",
    }));
    net.train(&out, false);
    if is_alone {
        net.topology.outputs.extend(lookups);
    }
    for parameter in &mut net.topology.parameters {
        parameter.is_sparse = is_sparse && ["one", "other"].contains(&parameter.name.as_str());
    }
    net
}

#[test]
fn gathered_rows_have_the_costs_and_gradients_of_lookups_one_by_one() {
    for is_sparse in [false, true] {
        for threads in [1, 2] {
            let trial = |is_alone| {
                let net = net(is_alone, is_sparse);
                let network = net.network_with(NetworkConfig { threads, ..config() });
                Trial::with_batch(network, net.batch(&[1; 40], 3), 5)
            };
            let (joined, alone) = (trial(false), trial(true));
            let (found, expected) = (joined.train(), alone.train());
            assert_near("cost", &[found.cost as f32], &[expected.cost], 1e-5);
            assert_eq!(found.gradients.len(), expected.gradients.len());
            for (found, expected) in found.gradients.iter().zip(&expected.gradients) {
                let [found, expected] = [found, expected].map(|one| one.as_ref().unwrap());
                let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
                assert_near("gradient", found, &expected, 1e-5);
            }
            // A layer that does not run by itself can still be looked at.
            for layer in ["lookup 3", "wide"] {
                assert_eq!(numbers(&joined.look(layer)), numbers(&alone.look(layer)));
            }
        }
    }
}
