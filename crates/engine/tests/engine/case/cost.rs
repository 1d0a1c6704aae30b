//! The costs.

use super::Case;
use crate::net::Net;
use engine::shape::{Level, Value};
use serde_json::json;

/// A cost over what `inputs` adds.
fn cost(
    kind: &'static str,
    variant: &str,
    attributes: serde_json::Value,
    inputs: impl Fn(&mut Net, Level) -> Vec<String> + 'static,
) -> Case {
    let case = Case::new(kind, variant, move |net, level| {
        let inputs = inputs(net, level);
        net.add(json!({"name": "out", "kind": kind, "inputs": inputs, "attributes": attributes}))
    });
    case.cost()
}

/// An input with this activation, and its label.
fn labelled(
    activation: &'static str,
    size: usize,
    label: Value,
) -> impl Fn(&mut Net, Level) -> Vec<String> {
    move |net, level| {
        let input = net.activated("a", level, size, activation);
        vec![input, net.data("label", label, level, size)]
    }
}

/// The same, with a weight.
fn weighted(
    labelled: impl Fn(&mut Net, Level) -> Vec<String>,
) -> impl Fn(&mut Net, Level) -> Vec<String> {
    move |net, level| {
        let mut inputs = labelled(net, level);
        inputs.push(net.input("w", level, 1));
        inputs
    }
}

pub(super) fn cases() -> Vec<Case> {
    let ids = |activation| labelled(activation, 4, Value::Integer);
    let dense = |size| labelled("linear", size, Value::Dense);
    let binary = "multi_binary_label_cross_entropy";
    vec![
        cost("crf", "", json!({}), ids("linear")).of_sequences(),
        cost("crf", "weighted", json!({}), |net, level| {
            let mut inputs = labelled("linear", 3, Value::Integer)(net, level);
            inputs.push(net.input("w", Level::Single, 1));
            inputs
        })
        .of_sequences(),
        cost("crf", "beside what it decodes", json!({}), |net, level| {
            let inputs = labelled("linear", 3, Value::Integer)(net, level);
            for (name, count) in [("best", 1), ("wrong", 2)] {
                net.add(json!({
                    "name": name, "kind": "crf_decoding", "inputs": inputs[..count],
                    "parameters": ["_out.w0"],
                }));
            }
            inputs
        })
        .of_sequences(),
        ctc("of softmax", "softmax", false),
        ctc("of other numbers", "sigmoid", false),
        ctc("of scores", "linear", true),
        cost("hsigmoid", "", json!({"classes": 5}), labelled("linear", 5, Value::Integer)),
        cost("hsigmoid", "of two, with bias", json!({"classes": 6, "has_bias": true}), of_two),
        cost("nce", "", noise(json!({})), labelled("linear", 4, Value::Integer)),
        cost(
            "nce",
            "of two, with bias and weight",
            noise(json!({"has_bias": true, "has_weight": true})),
            weighted(of_two),
        ),
        cost("cross_entropy_over_beam", "of one step", json!({}), search_once)
            .with_batches([(Level::Sequence, &[2][..]), (Level::Sequence, &[3, 2, 6, 4])])
            .of_any_lengths()
            .with_kinks(),
        // No inner sequence is empty.
        cost("cross_entropy_over_beam", "of two steps", json!({}), search_twice)
            .with_batches([(Level::Nested, &[3][..]), (Level::Nested, &[3, 1, 2])])
            .of_any_lengths()
            .with_kinks(),
        cost("cross_entropy", "of softmax", json!({}), ids("softmax")),
        cost("cross_entropy", "of other numbers", json!({}), ids("sigmoid")),
        cost("cross_entropy", "of softmax, weighted", json!({}), weighted(ids("softmax"))),
        cost("cross_entropy_with_selfnorm", "", json!({"alpha": 0.3}), ids("exponential")),
        cost("huber_classification", "", json!({}), |net, level| {
            let input = net.input("a", level, 1);
            let wide = net.add(json!({
                "name": "wide", "kind": "slope_intercept", "inputs": [input],
                "attributes": {"slope": 2.0, "intercept": 0.0},
            }));
            vec![wide, net.data("label", Value::Integer, level, 2)]
        })
        .with_kinks(),
        cost("huber_regression", "", json!({"delta": 0.7}), dense(3)).with_kinks(),
        cost(binary, "of sigmoid", json!({}), labelled("sigmoid", 4, Value::Dense)),
        cost(
            binary,
            "of sigmoid and lists",
            json!({}),
            labelled("sigmoid", 4, Value::SparseBinary),
        ),
        cost(binary, "of sigmoid and one id", json!({}), labelled("sigmoid", 4, Value::Integer)),
        cost(binary, "of other numbers", json!({}), labelled("softmax", 4, Value::SparseBinary)),
        cost("rank", "", json!({}), rank(Value::Dense, 1)),
        cost("rank", "with integer labels", json!({}), rank(Value::Integer, 2)),
        cost("rank", "weighted", json!({}), |net, level| {
            let mut inputs = rank(Value::Dense, 1)(net, level);
            inputs.push(net.input("w", level, 1));
            inputs
        }),
        cost("smooth_l1", "", json!({}), dense(3)).with_kinks(),
        cost("square_error", "", json!({}), dense(3)),
        cost("square_error", "weighted", json!({}), weighted(dense(3))),
        cost("sum", "", json!({}), |net, level| vec![net.activated("a", level, 3, "tanh")]),
    ]
}

/// Three times as many rows as labels, so that there is room for blanks between repeats.
fn ctc(variant: &str, activation: &'static str, is_linear: bool) -> Case {
    let attributes = json!({"blank": 2, "is_linear": is_linear});
    let case = cost("ctc", variant, attributes, move |net, level| {
        let part = net.activated("a", level, 3, activation);
        let mut rows = part.clone();
        for name in ["twice", "thrice"] {
            let inputs = [&rows, &part];
            rows = net.add(json!({"name": name, "kind": "sequence_concat", "inputs": inputs}));
        }
        vec![rows, net.data("label", Value::Integer, level, 2)]
    });
    case.of_sequences().of_any_lengths()
}

/// Noise that is nearly always class 1, so that what is drawn is known.
fn noise(mut attributes: serde_json::Value) -> serde_json::Value {
    attributes["classes"] = json!(4);
    attributes["negatives"] = json!(3);
    attributes["distribution"] = json!([1e-9, 1.0 - 3e-9, 1e-9, 1e-9]);
    attributes
}

fn of_two(net: &mut Net, level: Level) -> Vec<String> {
    let inputs = [net.input("a", level, 3), net.input("b", level, 2)];
    inputs.into_iter().chain([net.data("label", Value::Integer, level, 4)]).collect()
}

fn rank(label: Value, size: usize) -> impl Fn(&mut Net, Level) -> Vec<String> {
    move |net, level| {
        let scores = [net.input("left", level, 1), net.input("right", level, 1)];
        scores.into_iter().chain([net.data("label", label, level, size)]).collect()
    }
}

/// The best two of some scores.
fn best(net: &mut Net, name: &str, scores: &str) -> String {
    net.add(json!({
        "name": name, "kind": "kmax_seq_score", "inputs": [scores],
        "attributes": {"beam_size": 2},
    }))
}

fn search_once(net: &mut Net, level: Level) -> Vec<String> {
    let scores = net.input("scores", level, 1);
    let kept = best(net, "kept", &scores);
    vec![scores, kept, net.data("gold", Value::Integer, Level::Single, 2)]
}

/// Which sequence of nested ones, then which of its rows.
fn search_twice(net: &mut Net, level: Level) -> Vec<String> {
    let rows = net.input("rows", level, 1);
    let scores = net.add(json!({
        "name": "sums", "kind": "pooling", "inputs": [rows],
        "attributes": {"pooling": "sum", "of": "sequence"},
    }));
    let kept = best(net, "kept", &scores);
    let seen = net.add(json!({
        "name": "seen", "kind": "sub_nested_seq", "inputs": [rows, kept],
    }));
    let kept_rows = best(net, "kept rows", &seen);
    let gold = ["gold", "gold row"].map(|name| net.data(name, Value::Integer, Level::Single, 1));
    let [first, second] = gold;
    vec![scores, kept, first, seen, kept_rows, second]
}
