//! The layers over pictures.

use super::{Case, SINGLE};
use crate::net::Net;
use engine::shape::Level;
use serde_json::{Value, json};

/// `base` with some of its entries replaced.
fn with(base: Value, changes: Value) -> Value {
    let (Value::Object(mut base), Value::Object(changes)) = (base, changes) else {
        panic!("attributes are objects");
    };
    base.extend(changes);
    Value::Object(base)
}

/// A layer over square pictures that parameters make.
fn square(kind: &'static str, variant: &str, size: usize, attributes: Value, rest: Value) -> Case {
    Case::new(kind, variant, move |net, level| {
        let input = net.input("a", level, size);
        let layer = json!({
            "name": "out", "kind": kind, "inputs": [input], "attributes": attributes
        });
        net.add(with(layer, rest.clone()))
    })
}

fn convolution(changes: Value) -> Value {
    let plain = json!({
        "filters": 2, "filter_size": [3, 3], "stride": [1, 1], "padding": [1, 1],
        "dilation": [1, 1], "groups": 1, "channels": 2, "is_bias_shared": true,
        "is_transposed": false,
    });
    with(plain, changes)
}

fn pooling(changes: Value) -> Value {
    let plain = json!({
        "pooling": "max", "pool_size": [2, 2], "stride": [2, 2], "padding": [0, 0],
        "channels": 2, "is_rounded_up": true,
    });
    with(plain, changes)
}

fn norm(changes: Value) -> Value {
    let plain = json!({
        "channels": null, "epsilon": 1e-3, "moving_average_fraction": 0.9,
        "use_global_stats": true,
    });
    with(plain, changes)
}

/// Pictures that are fed, of which a small convolution makes others of the same height and width.
pub(super) fn oblong(net: &mut Net, level: Level) -> String {
    oblong_named(net, level, "picture")
}

pub(super) fn oblong_named(net: &mut Net, level: Level, name: &str) -> String {
    let fed = net.picture(&format!("{name} fed"), level, [1, 3, 5]);
    let attributes = convolution(json!({
        "filter_size": [1, 1], "padding": [0, 0], "channels": null,
    }));
    net.add(json!({
        "name": name, "kind": "img_conv", "inputs": [fed], "attributes": attributes,
        "activation": "tanh",
    }))
}

pub(super) fn over_oblong(kind: &'static str, variant: &str, attributes: Value) -> Case {
    Case::new(kind, variant, move |net, level| {
        let input = oblong(net, level);
        net.add(json!({
            "name": "out", "kind": kind, "inputs": [input], "attributes": attributes,
        }))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = convolutions();
    cases.extend(poolings());
    cases.extend(norms());
    cases
}

fn convolutions() -> Vec<Case> {
    let bias = json!({"has_bias": true});
    let none = json!({});
    let case = |variant, size, changes, rest: &Value| {
        square("img_conv", variant, size, convolution(changes), rest.clone())
    };
    let transposed = json!({"is_transposed": true, "stride": [2, 2], "filters": 3});
    vec![
        case("plain", 2 * 9, json!({}), &bias),
        case("with a bias for each pixel", 2 * 9, json!({"is_bias_shared": false}), &bias),
        case(
            "in groups, far apart",
            4 * 16,
            json!({"channels": 4, "groups": 2, "filters": 4, "stride": [2, 3]}),
            &none,
        ),
        case(
            "with holes",
            2 * 16,
            json!({"dilation": [2, 1], "padding": [3, 0], "filter_size": [2, 3]}),
            &none,
        ),
        case(
            "pixel by pixel",
            3 * 4,
            json!({"filter_size": [1, 1], "padding": [0, 0], "channels": 3}),
            &bias,
        ),
        case("transposed", 2 * 4, transposed, &bias),
        case(
            "transposed, in groups, with holes",
            4 * 4,
            json!({
                "is_transposed": true, "channels": 4, "groups": 2, "dilation": [1, 2],
                "padding": [0, 1],
            }),
            &none,
        ),
        over_oblong(
            "img_conv",
            "over oblong pictures",
            convolution(json!({"channels": null, "filter_size": [2, 3], "padding": [1, 0]})),
        ),
        Case::new("img_conv", "twice with one weight", |net, level| {
            let input = net.input("a", level, 2 * 9);
            let add = |net: &mut Net, name: &str, input: &str| {
                net.add(json!({
                    "name": name, "kind": "img_conv", "inputs": [input],
                    "parameters": ["shared"], "activation": "tanh",
                    "attributes": convolution(json!({"channels": 2})),
                }))
            };
            let hidden = add(net, "hidden", &input);
            add(net, "out", &hidden)
        }),
    ]
}

fn poolings() -> Vec<Case> {
    let none = json!({});
    let case = |variant, size, changes| {
        square("img_pool", variant, size, pooling(changes), none.clone()).with_kinks()
    };
    let spp = |pooling: &str| {
        let attributes = json!({"pooling": pooling, "levels": 3, "channels": 2});
        square("spp", pooling, 2 * 9, attributes, none.clone()).with_kinks()
    };
    vec![
        case("largest, rounded up", 2 * 9, json!({})),
        case("largest, rounded down", 2 * 9, json!({"is_rounded_up": false})),
        case("mean, padded", 2 * 9, json!({"pooling": "average", "padding": [1, 1]})),
        case(
            "largest, overlapping, padded",
            2 * 16,
            json!({"pool_size": [3, 2], "stride": [1, 2], "padding": [2, 0]}),
        ),
        case(
            "largest, with a window that sees nothing",
            2 * 9,
            json!({
                "pool_size": [1, 1], "stride": [3, 3]
            }),
        ),
        over_oblong(
            "img_pool",
            "mean of oblong pictures",
            pooling(json!({
                "pooling": "average", "channels": null
            })),
        ),
        spp("max"),
        spp("average"),
        square("maxout", "of two", 4 * 4, json!({"groups": 2, "channels": 4}), none.clone())
            .with_kinks(),
        over_oblong("maxout", "of oblong pictures", json!({"groups": 2, "channels": null}))
            .with_kinks(),
    ]
}

fn norms() -> Vec<Case> {
    let bias = json!({"has_bias": true});
    // Of one row there is nothing to learn: every number is its own mean.
    let several = |case: Case| {
        let batches = [SINGLE[1], (Level::Sequence, &[2, 0, 1, 3][..])];
        case.with_batches(batches)
    };
    let maps = json!({"size": 3, "scale": 0.9, "power": 0.75, "channels": 4});
    let even = json!({"size": 2, "scale": 0.9, "power": 0.75, "channels": null});
    vec![
        square("batch_norm", "of columns", 3, norm(json!({})), bias.clone()),
        several(square(
            "batch_norm",
            "of the test's own columns",
            3,
            norm(json!({"use_global_stats": false})),
            json!({}),
        )),
        square("batch_norm", "of channels", 8, norm(json!({"channels": 2})), bias.clone()),
        several(square(
            "batch_norm",
            "of the test's own channels",
            8,
            norm(json!({"channels": 2, "use_global_stats": false})),
            bias,
        )),
        over_oblong("batch_norm", "of oblong pictures", norm(json!({"use_global_stats": false})))
            .with_kinks(),
        over_oblong("cross_channel_norm", "of oblong pictures", json!({})),
        square("img_cmrnorm", "of three maps", 4 * 4, maps, json!({})),
        over_oblong("img_cmrnorm", "of oblong pictures", even),
    ]
}
