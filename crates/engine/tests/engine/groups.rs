//! Layers of a step that run after the last step, compared with the same layers outside.

use crate::net::{Net, config};
use crate::trial::Trial;
use engine::shape::{Level, Value};
use serde_json::json;

/// A classification of every row of sequences; its layer is the last of the steps or comes behind
/// the group.
fn net(is_inside: bool, is_reversed: bool) -> Net {
    let mut net = Net::new();
    let x = net.data("x", Value::Dense, Level::Sequence, 3);
    let label = net.data("label", Value::Integer, Level::Sequence, 7);
    let classes = |input: &str| {
        json!({
            "name": "classes", "kind": "fc", "inputs": [input], "attributes": {"size": 7},
            "has_bias": true, "activation": "softmax",
        })
    };
    let hidden = json!({
        "name": "hidden", "kind": "fc", "inputs": ["row", "before"], "attributes": {"size": 4},
        "has_bias": true, "activation": "tanh",
    });
    let layers = if is_inside { vec![hidden, classes("hidden")] } else { vec![hidden] };
    let output = if is_inside { "classes" } else { "hidden" };
    let mut out = net.add(json!({
        "name": "group", "kind": "recurrent_group", "inputs": [x],
        "attributes": {"is_reversed": is_reversed, "step": {
            "links": [{"name": "row", "role": "part"}],
            "memories": [{"name": "before", "of": "hidden", "size": 4}],
            "layers": layers,
            "outputs": [output],
        }},
    }));
    if !is_inside {
        out = net.add(classes(&out));
    }
    let cost = net.add(json!({"name": "cost", "kind": "cross_entropy", "inputs": [out, label]}));
    net.train(&cost, true);
    net
}

#[test]
fn layers_after_the_last_step_have_the_bits_of_layers_behind_the_group() {
    for is_reversed in [false, true] {
        let train = |is_inside| {
            let net = net(is_inside, is_reversed);
            let batch = net.batch(&[2, 5, 1, 5, 3], 3);
            Trial::with_batch(net.network_with(config()), batch, 7).train()
        };
        let (inside, outside) = (train(true), train(false));
        assert_eq!(inside.cost.to_bits(), outside.cost.to_bits());
        assert!(inside.cost > 0.0);
        // The parameters of both are in the same order.
        assert_eq!(inside.gradients, outside.gradients);
    }
}
