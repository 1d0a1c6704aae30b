//! The projections and operators of mixed layers.

use super::Case;
use super::image::{oblong, oblong_named};
use crate::net::Net;
use engine::shape::{Level, Value};
use serde_json::json;

/// A mixed layer of one projection, with its inputs.
fn of_one(
    projection: serde_json::Value,
    name: &'static str,
    inputs: impl Fn(&mut Net, Level) -> Vec<String> + 'static,
) -> Case {
    let case = Case::new("mixed", name, move |net, level| {
        let inputs = inputs(net, level);
        let mut projection = projection.clone();
        projection["name"] = json!(name);
        net.add(json!({
            "name": "out", "kind": "mixed", "inputs": inputs,
            "attributes": {"projections": [projection]},
        }))
    });
    Case { projection: Some(name), ..case }
}

/// Looks up rows of `size` keys.
fn table(value: Value, size: usize) -> Case {
    of_keys("table", value, size)
}

/// A projection of `size` keys.
fn of_keys(name: &'static str, value: Value, size: usize) -> Case {
    let case = of_one(json!({"size": 4}), name, move |net, level| {
        vec![net.data("ids", value, level, size)]
    });
    Case { name: format!("{} of {size} {value:?} keys", case.name), ..case }
}

/// Rows beside their neighbours.
fn context(window: serde_json::Value) -> Case {
    let name = format!("mixed context {window}");
    let case = of_one(window, "context", |net, level| vec![net.input("a", level, 2)]);
    Case { name, ..case.of_sequences() }
}

/// How windows move over pictures of two channels, 3 x 5 pixels.
fn convolution(filters: usize, is_transposed: bool) -> serde_json::Value {
    json!({
        "name": "convolution", "filters": filters, "filter_size": [2, 3], "stride": [1, 2],
        "padding": [1, 0], "dilation": [1, 1], "groups": 1, "channels": null,
        "is_bias_shared": true, "is_transposed": is_transposed,
    })
}

/// Convolutions of two pictures, added or side by side, with a bias.
fn convolutions(variant: &str, filters: [usize; 2], is_concatenated: bool) -> Case {
    Case::new("mixed", variant, move |net, level| {
        let inputs = ["a", "b"].map(|name| oblong_named(net, level, name));
        let projections = filters.map(|filters| convolution(filters, false));
        net.add(json!({
            "name": "out", "kind": "mixed", "inputs": inputs, "has_bias": true,
            "activation": "tanh",
            "attributes": {"is_concatenated": is_concatenated, "projections": projections},
        }))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let one = |net: &mut Net, level: Level| vec![net.input("a", level, 3)];
    vec![
        context(json!({"start": -1, "length": 3})),
        context(json!({"start": -2, "length": 4, "is_padding_learnt": true})),
        context(json!({"start": 1, "length": 2, "is_padding_learnt": true})),
        context(json!({"start": -3, "length": 2})),
        context(json!({"start": 0, "length": 1, "is_padding_learnt": true})),
        of_one(convolution(3, false), "convolution", |net, level| vec![oblong(net, level)]),
        of_one(convolution(3, true), "convolution", |net, level| vec![oblong(net, level)]),
        convolutions("of two convolutions, with bias", [2, 2], false),
        convolutions("concatenated of two convolutions, with bias", [2, 3], true),
        of_one(json!({}), "dotmul", one),
        of_one(json!({"scale": -2.5}), "dotmul_operator", |net, level| {
            vec![net.input("a", level, 3), net.input("b", level, 3)]
        }),
        of_one(json!({"size": 4}), "full_matrix", one),
        of_keys("full_matrix", Value::SparseBinary, 6),
        of_keys("full_matrix", Value::SparseFloat, 6),
        of_one(json!({}), "identity", one),
        of_one(json!({"offset": 1, "size": 2}), "identity", |net, level| {
            vec![net.input("a", level, 4)]
        }),
        of_one(json!({"offset": 1}), "identity", one),
        of_one(json!({}), "scaling", one),
        of_one(json!({"slices": [[0, 2], [3, 4], [1, 3]]}), "slice", |net, level| {
            vec![net.input("a", level, 4)]
        }),
        table(Value::Integer, 6),
        table(Value::SparseBinary, 6),
        table(Value::SparseFloat, 6),
        table(Value::Integer, 0),
        table(Value::SparseFloat, 0),
        of_one(json!({"size": 4}), "trans_full_matrix", one),
        Case::new("mixed", "of everything, with bias", |net, level| {
            let inputs = [
                net.input("a", level, 3),
                net.input("b", level, 3),
                net.data("ids", Value::Integer, level, 5),
                net.input("c", level, 3),
                net.input("d", level, 2),
            ];
            let projections = json!([
                {"name": "dotmul_operator", "scale": 0.5}, {"name": "table"},
                {"name": "identity"}, {"name": "full_matrix"},
            ]);
            net.add(json!({
                "name": "out", "kind": "mixed", "inputs": inputs, "has_bias": true,
                "activation": "tanh", "attributes": {"size": 3, "projections": projections},
            }))
        }),
        Case::new("mixed", "concatenated, with bias", |net, level| {
            let inputs = [
                net.data("ids", Value::Integer, level, 5),
                net.input("a", level, 3),
                net.input("b", level, 3),
                net.input("c", level, 2),
            ];
            let projections = json!([
                {"name": "table", "size": 2}, {"name": "dotmul_operator", "scale": 0.5},
                {"name": "full_matrix", "size": 3},
            ]);
            net.add(json!({
                "name": "out", "kind": "mixed", "inputs": inputs, "has_bias": true,
                "activation": "tanh",
                "attributes": {"is_concatenated": true, "projections": projections},
            }))
        }),
        Case::new("mixed", "with one matrix both ways", |net, level| {
            let input = net.input("a", level, 3);
            let hidden = net.add(json!({
                "name": "hidden", "kind": "mixed", "inputs": [input], "parameters": ["shared"],
                "activation": "tanh",
                "attributes": {"projections": [{"name": "full_matrix", "size": 2}]},
            }));
            net.add(json!({
                "name": "out", "kind": "mixed", "inputs": [hidden], "parameters": ["shared"],
                "attributes": {"projections": [{"name": "trans_full_matrix", "size": 3}]},
            }))
        }),
        Case::new("mixed", "with one table for four words", |net, level| {
            let words = ["first", "second", "third", "fourth"].map(|word| {
                let ids = net.data(&format!("{word} id"), Value::Integer, level, 5);
                net.add(json!({
                    "name": word, "kind": "mixed", "inputs": [ids], "parameters": ["table"],
                    "attributes": {"projections": [{"name": "table", "size": 2}]},
                }))
            });
            net.add(json!({"name": "out", "kind": "concat", "inputs": words}))
        }),
        Case::new("mixed", "with two tables for one word", |net, level| {
            let ids = net.data("ids", Value::SparseBinary, level, 0);
            let tables = [2, 3].map(|size| {
                net.add(json!({
                    "name": format!("{size} wide"), "kind": "mixed", "inputs": [ids],
                    "attributes": {"projections": [{"name": "table", "size": size}]},
                }))
            });
            net.add(json!({"name": "out", "kind": "concat", "inputs": tables}))
        }),
    ]
}
