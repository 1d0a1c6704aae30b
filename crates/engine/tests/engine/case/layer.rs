//! The layers that are neither costs nor made of projections.

use super::{Case, SINGLE};
use crate::net::Net;
use engine::shape::{Level, Value};
use serde_json::json;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("addto", "of three, with bias", |net, level| {
            let inputs = ["a", "b", "c"].map(|name| net.input(name, level, 2));
            net.add(json!({"name": "out", "kind": "addto", "inputs": inputs, "has_bias": true}))
        }),
        Case::new("concat", "of two", |net, level| {
            let inputs = [net.input("a", level, 2), net.input("b", level, 3)];
            net.add(json!({"name": "out", "kind": "concat", "inputs": inputs}))
        }),
        Case::new("cos_sim", "of two", |net, level| {
            let inputs = [net.input("a", level, 4), net.input("b", level, 4)];
            net.add(json!({"name": "out", "kind": "cos_sim", "inputs": inputs}))
        }),
        Case::new("cos_sim", "with two side by side", |net, level| {
            let inputs = [net.input("a", level, 4), net.input("b", level, 8)];
            let attributes = json!({"scale": 5.0, "size": 2});
            net.add(json!({
                "name": "out", "kind": "cos_sim", "inputs": inputs, "attributes": attributes
            }))
        }),
        Case::new("dot_prod", "of two", |net, level| {
            let inputs = [net.input("a", level, 3), net.input("b", level, 3)];
            net.add(json!({"name": "out", "kind": "dot_prod", "inputs": inputs}))
        }),
        Case::new("interpolation", "with a learnt weight", |net, level| {
            let inputs =
                [net.input("a", level, 3), net.input("b", level, 3), net.input("w", level, 1)];
            net.add(json!({"name": "out", "kind": "interpolation", "inputs": inputs}))
        }),
        Case::new("scaling", "with a learnt weight", |net, level| {
            let inputs = [net.input("a", level, 3), net.input("w", level, 1)];
            net.add(json!({"name": "out", "kind": "scaling", "inputs": inputs}))
        }),
        Case::new("slope_intercept", "of one", |net, level| {
            let inputs = [net.input("a", level, 3)];
            let attributes = json!({"slope": -1.5, "intercept": 0.5});
            net.add(json!({
                "name": "out", "kind": "slope_intercept", "inputs": inputs,
                "attributes": attributes,
            }))
        }),
        // Only a square batch can be transposed.
        Case::new("trans", "of three rows", |net, level| {
            let inputs = [net.input("a", level, 3)];
            net.add(json!({"name": "out", "kind": "trans", "inputs": inputs}))
        })
        .with_batches([SINGLE[1]]),
    ];
    cases.extend(fully_connected());
    cases.extend(factorization_machines());
    cases.extend(of_sequences());
    cases
}

fn fully_connected() -> Vec<Case> {
    let over = |value: Value| {
        move |net: &mut Net, level: Level| {
            let inputs = [net.data("ids", value, level, 6), net.input("a", level, 2)];
            net.add(json!({
                "name": "out", "kind": "fc", "inputs": inputs, "attributes": {"size": 3},
                "has_bias": true,
            }))
        }
    };
    vec![
        Case::new("fc", "over dense rows", over(Value::Dense)),
        Case::new("fc", "over sparse binary rows", over(Value::SparseBinary)),
        Case::new("fc", "over sparse float rows", over(Value::SparseFloat)),
        Case::new("fc", "twice with one weight", |net, level| {
            let inputs = [net.input("a", level, 3), net.input("b", level, 3)];
            net.add(json!({
                "name": "out", "kind": "fc", "inputs": inputs, "attributes": {"size": 2},
                "parameters": ["shared", "shared"],
            }))
        }),
    ]
}

fn factorization_machines() -> Vec<Case> {
    let over = |value: Value| {
        move |net: &mut Net, level: Level| {
            let input = match value {
                Value::Dense => net.input("a", level, 5),
                _ => net.data("ids", value, level, 5),
            };
            net.add(json!({
                "name": "out", "kind": "factorization_machine", "inputs": [input],
                "attributes": {"factor_size": 3},
            }))
        }
    };
    vec![
        Case::new("factorization_machine", "over dense rows", over(Value::Dense)),
        Case::new("factorization_machine", "over sparse binary rows", over(Value::SparseBinary)),
        Case::new("factorization_machine", "over sparse float rows", over(Value::SparseFloat)),
    ]
}

fn of_sequences() -> Vec<Case> {
    let mut cases = Vec::new();
    for pooling in ["max", "average", "sum", "sqrt_n"] {
        let case = Case::new("pooling", pooling, move |net, level| {
            let inputs = [net.input("a", level, 3)];
            let attributes = json!({"pooling": pooling});
            net.add(json!({
                "name": "out", "kind": "pooling", "inputs": inputs, "attributes": attributes
            }))
        });
        let case = case.of_sequences();
        cases.push(if pooling == "max" { case.with_kinks() } else { case });
    }
    for end in ["first", "last"] {
        let case = Case::new("sequence_end", end, move |net, level| {
            let inputs = [net.input("a", level, 3)];
            net.add(json!({
                "name": "out", "kind": "sequence_end", "inputs": inputs,
                "attributes": {"end": end},
            }))
        });
        cases.push(case.of_sequences());
    }
    cases
}
