//! Layers that compare, combine and scale rows, and those with a few learnt numbers.

use super::{Case, SINGLE};
use crate::net::Net;
use engine::shape::{Level, Value};
use serde_json::json;

/// A layer over inputs of these sizes.
fn over(
    kind: &'static str,
    variant: &str,
    sizes: &'static [usize],
    attributes: serde_json::Value,
) -> Case {
    Case::new(kind, variant, move |net, level| {
        let named = sizes.iter().zip(["a", "b", "c"]);
        let inputs: Vec<String> = named.map(|(size, name)| net.input(name, level, *size)).collect();
        net.add(json!({"name": "out", "kind": kind, "inputs": inputs, "attributes": attributes}))
    })
}

/// The same over one input of numbers above 0.
fn over_positive(kind: &'static str, variant: &str) -> Case {
    Case::new(kind, variant, move |net, level| {
        let mut inputs = vec![net.activated("a", level, 3, "exponential")];
        if kind == "power" {
            inputs.push(net.input("w", level, 1));
        }
        net.add(json!({"name": "out", "kind": kind, "inputs": inputs}))
    })
}

/// A layer whose bias is tested too.
fn biased(
    kind: &'static str,
    variant: &str,
    sizes: &'static [usize],
    attributes: serde_json::Value,
) -> Case {
    Case::new(kind, variant, move |net, level| {
        let named = sizes.iter().zip(["a", "b"]);
        let inputs: Vec<String> = named.map(|(size, name)| net.input(name, level, *size)).collect();
        net.add(json!({
            "name": "out", "kind": kind, "inputs": inputs, "attributes": attributes,
            "has_bias": true,
        }))
    })
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        over("clip", "of one", &[4], json!({"min": -0.4, "max": 0.3})).with_kinks(),
        over("conv_shift", "with three", &[5, 3], json!({})),
        over("conv_shift", "with one", &[4, 1], json!({})),
        over("l2_distance", "of two", &[3, 3], json!({})),
        over("linear_comb", "of three vectors", &[3, 6], json!({"size": 2})),
        over("out_prod", "of two", &[2, 3], json!({})),
        over("prelu", "with a slope each", &[4], json!({"partial_sum": 1})).with_kinks(),
        over("prelu", "with shared slopes", &[6], json!({"partial_sum": 3})).with_kinks(),
        over("row_l2_norm", "of one", &[4], json!({})),
        over_positive("power", "with a learnt exponent"),
        over_positive("sum_to_one_norm", "of one"),
        biased("scale_shift", "of one", &[4], json!({})),
        biased("tensor", "of two", &[2, 3], json!({"size": 4})),
        over("row_conv", "of three rows", &[3], json!({"context": 3})).of_sequences(),
        multiplex("by integers", Value::Integer),
        resize(),
    ]
}

fn multiplex(variant: &str, value: Value) -> Case {
    Case::new("multiplex", variant, move |net: &mut Net, level: Level| {
        let mut inputs = vec![net.data("which", value, level, 3)];
        inputs.extend(["a", "b", "c"].map(|name| net.input(name, level, 2)));
        net.add(json!({"name": "out", "kind": "multiplex", "inputs": inputs}))
    })
    // Rows enough that each input is taken somewhere.
    .with_batches([(Level::Single, &[1; 12][..]), (Level::Sequence, &[2, 0, 1, 3, 5][..])])
}

/// As many rows as before, so that the target still fits.
fn resize() -> Case {
    let case = Case::new("resize", "of three rows, and back", |net, level| {
        let input = net.input("a", level, 4);
        let wide = net.add(json!({
            "name": "wide", "kind": "resize", "inputs": [input], "attributes": {"size": 6},
        }));
        net.add(json!({
            "name": "out", "kind": "resize", "inputs": [wide], "attributes": {"size": 4},
        }))
    });
    case.with_batches([SINGLE[1]])
}
