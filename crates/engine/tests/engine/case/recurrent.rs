//! The recurrent layers.

use super::Case;
use serde_json::json;

/// A recurrent layer of cells of size 3 over an input of `parts` parts.
fn over(kind: &'static str, variant: &str, parts: usize, attributes: serde_json::Value) -> Case {
    let case = Case::new(kind, variant, move |net, level| {
        let input = net.input("a", level, parts * 3);
        net.add(json!({
            "name": "out", "kind": kind, "inputs": [input], "attributes": attributes,
        }))
    });
    case.of_sequences()
}

pub(super) fn cases() -> Vec<Case> {
    let lstm = |is_reversed: bool, has_bias: bool| {
        json!({
            "activation": "tanh", "gate_activation": "sigmoid", "state_activation": "tanh",
            "is_reversed": is_reversed, "has_bias": has_bias,
        })
    };
    let gru = |is_reversed: bool, has_bias: bool| {
        json!({
            "activation": "tanh", "gate_activation": "sigmoid", "is_reversed": is_reversed,
            "has_bias": has_bias,
        })
    };
    let simple = |activation: &str, is_reversed: bool| json!({"activation": activation, "is_reversed": is_reversed, "has_bias": true});
    let mut cases = vec![
        over("lstmemory", "", 4, lstm(false, true)),
        over("lstmemory", "reversed", 4, lstm(true, true)),
        over("lstmemory", "without bias and peepholes", 4, lstm(false, false)),
        over("grumemory", "", 3, gru(false, true)),
        over("grumemory", "reversed", 3, gru(true, true)),
        over("grumemory", "without bias", 3, gru(false, false)),
        over("recurrent", "reversed", 1, simple("tanh", true)),
        over("recurrent", "of relu", 1, simple("relu", false)).with_kinks(),
    ];
    for activation in ["linear", "sigmoid", "stanh"] {
        cases.push(over("recurrent", activation, 1, simple(activation, false)));
    }
    cases.push(over("recurrent", "of brelu", 1, simple("brelu", false)).with_kinks());
    let shared = Case::new("lstmemory", "both ways with one weight", move |net, level| {
        let input = net.input("a", level, 8);
        let ways = [false, true].map(|is_reversed| {
            net.add(json!({
                "name": format!("reversed {is_reversed}"), "kind": "lstmemory", "inputs": [input],
                "attributes": lstm(is_reversed, true), "parameters": ["weight", "bias"],
            }))
        });
        net.add(json!({"name": "out", "kind": "concat", "inputs": ways}))
    });
    cases.push(shared.of_sequences());
    cases
}
