//! Layers that move rows of sequences.

use super::{Case, SEQUENCES};
use crate::net::Net;
use engine::shape::{Level, Value};
use serde_json::json;

/// A layer whose sequences are of other lengths than its input's, made one row each.
fn pooled(
    kind: &'static str,
    variant: &str,
    build: impl Fn(&mut Net, Level) -> String + 'static,
) -> Case {
    let case = Case::new(kind, variant, move |net, level| {
        let inputs = [build(net, level)];
        net.add(json!({
            "name": "out", "kind": "pooling", "inputs": inputs,
            "attributes": {"pooling": "sqrt_n"},
        }))
    });
    case.of_sequences()
}

fn slice(variant: &str, bounds: &'static [&str]) -> Case {
    let case = pooled("sequence_slice", variant, move |net, level| {
        let mut inputs = vec![net.input("a", level, 3)];
        inputs.extend(bounds.iter().map(|bound| net.data(bound, Value::Integer, Level::Single, 2)));
        net.add(json!({
            "name": "slice", "kind": "sequence_slice", "inputs": inputs,
            "attributes": {"bounds": bounds},
        }))
    });
    // Where rows 0 and 1 are there.
    case.with_batches([(Level::Sequence, &[2][..]), (Level::Sequence, &[3, 2, 4, 2])])
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("expand", "of a row", |net, level| {
            let like = net.data("like", Value::Integer, level, 2);
            let inputs = [net.input("a", Level::Single, 3), like];
            net.add(json!({"name": "out", "kind": "expand", "inputs": inputs}))
        })
        .with_batches(SEQUENCES.into_iter().take(2)),
        Case::new("repeat", "of rows", |net, level| {
            let input = net.input("a", level, 3);
            let attributes = json!({"times": 2, "is_by_column": false});
            net.add(json!({
                "name": "out", "kind": "repeat", "inputs": [input], "attributes": attributes,
            }))
        }),
        Case::new("repeat", "of columns", |net, level| {
            let input = net.input("a", level, 3);
            let attributes = json!({"times": 3, "is_by_column": true});
            net.add(json!({
                "name": "out", "kind": "repeat", "inputs": [input], "attributes": attributes,
            }))
        }),
        pooled("sequence_concat", "of two", |net, level| {
            let inputs = [net.input("a", level, 3), net.input("b", level, 3)];
            net.add(json!({"name": "both", "kind": "sequence_concat", "inputs": inputs}))
        })
        .of_any_lengths(),
        pooled("sequence_reshape", "to shorter rows", |net, level| {
            let input = net.input("a", level, 6);
            net.add(json!({
                "name": "reshaped", "kind": "sequence_reshape", "inputs": [input],
                "attributes": {"size": 2},
            }))
        }),
        slice("from and to", &["first", "last"]),
        slice("from", &["first"]),
        slice("to", &["last"]),
        slice("from and how many", &["first", "count"]),
        nested("sequence_slice", "of nested sequences, twice each", |net, input| {
            let scores = score(net, &input, "scores");
            let places = best(net, &scores, 2);
            net.add(json!({
                "name": "slice", "kind": "sequence_slice", "inputs": [input, places],
                "attributes": {"bounds": ["first"]},
            }))
        }),
        nested("sub_nested_seq", "of the best two", |net, input| {
            let scores = score(net, &input, "rows");
            let scores = net.add(json!({
                "name": "scores", "kind": "pooling", "inputs": [scores],
                "attributes": {"pooling": "sum", "of": "sequence"},
            }));
            let places = best(net, &scores, 2);
            net.add(json!({
                "name": "selected", "kind": "sub_nested_seq", "inputs": [input, places],
            }))
        }),
    ]
}

/// A layer over nested sequences, whose rows are made one.
fn nested(
    kind: &'static str,
    variant: &str,
    build: impl Fn(&mut Net, String) -> String + 'static,
) -> Case {
    let case = Case::new(kind, variant, move |net, level| {
        let input = net.input("a", level, 3);
        let inputs = [build(net, input)];
        net.add(json!({
            "name": "out", "kind": "pooling", "inputs": inputs,
            "attributes": {"pooling": "sqrt_n"},
        }))
    });
    case.with_batches([(Level::Nested, &[2][..]), (Level::Nested, &[3, 1, 4])]).of_any_lengths()
}

/// A score for each row that nothing below depends on: what is best changes in jumps.
fn score(net: &mut Net, like: &str, name: &str) -> String {
    let level = net.shape(like).level;
    net.data(name, Value::Dense, level, 1)
}

fn best(net: &mut Net, scores: &str, count: usize) -> String {
    net.add(json!({
        "name": "best", "kind": "kmax_seq_score", "inputs": [scores],
        "attributes": {"beam_size": count},
    }))
}
